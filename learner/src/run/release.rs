//! Releases: what becomes of a version, beside training.
//!
//! The learning thread copies the policy and goes on. A thread of its own writes the
//! checkpoint, copies it to its store, cuts the snapshot and hands it to the network, in this
//! order: what the fleet has seen is never taken back. One version is under way at a time, so
//! that a disk or a store that is too slow paces the learner, and nothing piles up. Until it
//! is through, memory holds a second copy of the weights, and until the checkpoint is written,
//! of the optimizer's state.

use crate::common::workload::dtype;
use crate::intake::coordinator::CoordinatorError;
use crate::publishing::checkpoint::{CheckpointError, CheckpointState, Checkpoints};
use crate::publishing::snapshots::PublicationRow;
use crate::publishing::snapshots::{PublishError, Publisher};
use crate::server::SharedState;
use crate::training::optimizer::OptimizerError;
use crate::training::trainer::Trainer;
use candle_core::Tensor;
use echo_policy::audit::VersionWeights;
use echo_policy::generation::EngineError;
use echo_policy::training::decoder::{Decoder, DecoderError};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::signed::Signed;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Pause between attempts to copy a checkpoint to a store that is out of reach.
const UPLOAD_PAUSE: Duration = Duration::from_secs(10);
/// How often a copy under way looks whether the learner is to stop.
const LOOK_UP_EVERY: Duration = Duration::from_millis(200);

/// Why a version cannot be released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The policy cannot be copied from its device.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// The policy as nodes generate with it.
    #[error("the generation engine does not take the policy: {0}")]
    Engine(#[from] EngineError),
    /// The optimizer's state cannot be copied from its device.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// The checkpoint cannot be written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The snapshot cannot be cut or signed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The coordinator could not settle the batches that checkpoints cover, as the store failed.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    /// A thread that panicked.
    #[error("the releasing thread has ended; this is a bug: please report the log above")]
    Gone,
}

/// Hands a stored snapshot and its signed manifest to the network.
pub type Announce = Box<dyn FnMut(Arc<Manifest>, Signed<Manifest>) + Send>;

/// Everything that the releasing thread owns.
pub struct Releaser {
    /// Where checkpoints are written and copied to.
    pub checkpoints: Checkpoints,
    /// Cuts policies into chunks and signs their manifests.
    pub publisher: Publisher,
    /// Hands a snapshot to the network.
    pub announce: Announce,
    /// Leases, buffer and fleet, whose state a checkpoint holds.
    pub shared: Arc<SharedState>,
    /// Drives what waits for the disk or the network.
    pub runtime: Handle,
    /// Cancelled from outside to stop: a copy to a store that is still under way is left.
    pub stop: CancellationToken,
}

/// Something to do, with a copy of what it needs.
enum Job {
    Checkpoint {
        state: Box<CheckpointState>,
        weights: Arc<Decoder>,
        optimizer: BTreeMap<String, Tensor>,
    },
    Publish {
        version: PolicyVersion,
        weights: Arc<Decoder>,
        /// When training had made it.
        since: Instant,
    },
}

/// What became of a job; a publication has a row.
type Done = Result<Option<PublicationRow>, ReleaseError>;

/// The learning thread's end.
pub struct Releases {
    /// None once there will be no more.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    /// Jobs whose end has not been seen.
    under_way: usize,
    /// Of publications whose end has been seen.
    rows: Vec<PublicationRow>,
    /// The policy of the last checkpoint, if it is published next, and when it was to be written.
    copied: Option<(PolicyVersion, Arc<Decoder>, Instant)>,
    /// Set when nobody waits for a copy to a store any more.
    leave: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Releases {
    /// Starts the releasing thread, which ends when its jobs do.
    ///
    /// # Errors
    /// When the system refuses one.
    pub fn start(releaser: Releaser) -> io::Result<Self> {
        let (jobs, to_do) = mpsc::channel();
        let (ended, done) = mpsc::channel();
        let leave = Arc::default();
        let left = Arc::clone(&leave);
        let thread = thread::Builder::new().name("releasing".into());
        let thread = thread.spawn(move || releaser.work(&to_do, &ended, &left))?;
        let (jobs, thread) = (Some(jobs), Some(thread));
        Ok(Self { jobs, done, under_way: 0, rows: Vec::new(), copied: None, leave, thread })
    }

    /// Begins to write the checkpoint of `state`, which is that of the trainer as it is. Waits for
    /// the version before it.
    ///
    /// # Errors
    /// When the trainer cannot be copied, or the version before could not be released.
    pub fn checkpoint(&mut self, state: CheckpointState, trainer: &Trainer) -> Result<(), ReleaseError> {
        let since = Instant::now();
        self.wait()?;
        let (version, weights) = (state.version, Arc::new(trainer.master_weights().copy_to_host()?));
        self.copied = Some((version, weights.clone(), since));
        self.begin(Job::Checkpoint {
            state: Box::new(state),
            weights,
            optimizer: trainer.optimizer().state()?,
        })
    }

    /// Leaves a copy to a store that is under way, and does not announce its version: at the end of
    /// a run nobody needs it.
    pub fn leave(&self) {
        self.leave.store(true, Ordering::Relaxed);
    }

    /// Begins to publish the trainer's policy, which is `version`, as soon as its checkpoint is durable.
    ///
    /// # Errors
    /// As [`Releases::checkpoint`]: an error of the version before shows here.
    pub fn publish(&mut self, version: PolicyVersion, trainer: &Trainer) -> Result<(), ReleaseError> {
        let (weights, since) = match self.copied.take() {
            Some((copied, weights, since)) if copied == version => (weights, since),
            _ => (Arc::new(trainer.master_weights().copy_to_host()?), Instant::now()),
        };
        self.begin(Job::Publish { version, weights, since })
    }

    /// Takes note of what has ended meanwhile.
    ///
    /// # Errors
    /// When a version could not be released.
    pub fn look(&mut self) -> Result<(), ReleaseError> {
        while self.under_way > 0 {
            match self.done.try_recv() {
                Ok(done) => self.ended(done)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(ReleaseError::Gone),
            }
        }
        Ok(())
    }

    /// Waits until nothing is under way.
    ///
    /// # Errors
    /// When a version could not be released.
    pub fn wait(&mut self) -> Result<(), ReleaseError> {
        while self.under_way > 0 {
            let done = self.done.recv().map_err(|_| ReleaseError::Gone)?;
            self.ended(done)?;
        }
        Ok(())
    }

    /// Ends the thread, after what is under way.
    ///
    /// # Errors
    /// When a version could not be released.
    pub fn finish(&mut self) -> Result<(), ReleaseError> {
        let waited = self.wait();
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| ReleaseError::Gone)?;
        }
        waited
    }

    /// The rows of what has been published since the last call, as far as its end has been seen.
    pub fn published(&mut self) -> Vec<PublicationRow> {
        std::mem::take(&mut self.rows)
    }

    fn begin(&mut self, job: Job) -> Result<(), ReleaseError> {
        if self.jobs.as_ref().is_none_or(|jobs| jobs.send(job).is_err()) {
            // The thread said why before it ended.
            self.wait()?;
            return Err(ReleaseError::Gone);
        }
        self.under_way += 1;
        Ok(())
    }

    fn ended(&mut self, done: Done) -> Result<(), ReleaseError> {
        self.under_way -= 1;
        self.rows.extend(done?);
        Ok(())
    }
}

impl Releaser {
    /// Works until there will be no more jobs. A version that fails is the last: the learner stops,
    /// and what it would have published after it has no checkpoint.
    fn work(mut self, jobs: &Receiver<Job>, ended: &Sender<Done>, leave: &AtomicBool) {
        for job in jobs {
            let done = match job {
                Job::Checkpoint { state, weights, optimizer } => {
                    self.checkpoint(*state, &weights, &optimizer).map(|()| None)
                }
                Job::Publish { version, weights, since } => self.publish(version, &weights, since, leave),
            };
            let failed = done
                .as_ref()
                .inspect_err(|error| tracing::error!(%error, "nothing more is released"))
                .is_err();
            if ended.send(done).is_err() || failed {
                return;
            }
        }
    }

    fn checkpoint(
        &self,
        state: CheckpointState,
        weights: &Decoder,
        optimizer: &BTreeMap<String, Tensor>,
    ) -> Result<(), ReleaseError> {
        let (since, version) = (Instant::now(), state.version);
        tracing::debug!("writing the checkpoint of {version}");
        self.runtime.block_on(self.checkpoints.write(state, weights, optimizer))?;
        if let Some(oldest) = self.runtime.block_on(self.checkpoints.oldest())? {
            self.shared.coordinator().settle(oldest)?;
        }
        tracing::debug!("wrote the checkpoint of {version} in {:.0} ms", since.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }

    /// Publishes a version; none that is not in its store when nobody waits for it any more.
    fn publish(
        &mut self,
        version: PolicyVersion,
        weights: &Decoder,
        since: Instant,
        leave: &AtomicBool,
    ) -> Done {
        if !self.runtime.block_on(self.upload(version, leave)) {
            return Ok(None);
        }
        tracing::debug!("publishing {version}");
        let workload = &self.shared.workload;
        let tensors = weights.tensors(dtype(workload.charter.snapshot_type));
        let publication =
            self.publisher.publish(workload, &self.shared.key, self.shared.epoch, version, tensors)?;
        // First: a node may deliver under this version before the announcement returns.
        if let Some(audit) = &self.shared.audit {
            let rounded = audit.as_nodes_have_it(weights)?;
            audit.publish(VersionWeights::new(version.0, &workload.model, rounded)?);
        }
        self.shared.coordinator().published(version);
        (self.announce)(publication.manifest, publication.signed);
        Ok(Some(PublicationRow { release_s: since.elapsed().as_secs_f64(), ..publication.row }))
    }

    /// Copies a checkpoint to its store, however long that is out of reach. False when there is
    /// nothing left to copy, or nobody waits for it any more.
    async fn upload(&self, version: PolicyVersion, leave: &AtomicBool) -> bool {
        loop {
            let uploaded = tokio::select! {
                // Where there is no store to copy to, this is done at once.
                biased;
                uploaded = self.checkpoints.upload(version) => uploaded,
                () = self.left(leave) => return false,
            };
            match uploaded {
                Ok(()) => return true,
                Err(error @ CheckpointError::Damaged { .. }) => {
                    tracing::error!(%error, "{version} is not announced");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, "the checkpoint of {version} is not in its store yet; trying again");
                    tokio::select! {
                        () = sleep(UPLOAD_PAUSE) => {}
                        () = self.left(leave) => return false,
                    }
                }
            }
        }
    }

    async fn left(&self, leave: &AtomicBool) {
        while !self.stop.is_cancelled() && !leave.load(Ordering::Relaxed) {
            sleep(LOOK_UP_EVERY).await;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
