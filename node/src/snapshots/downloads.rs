//! Snapshots on their way here: neighbours, progress, and installation once all is there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use echo_protocol::net::snapshots::{SnapshotEvent, Snapshots, Stopped};
use echo_protocol::program::clock;
use echo_protocol::program::log_on_change::LastMessage;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::store::ChunkStore;
use echo_protocol::wire::identity::PublicKey;
use tokio::sync::{mpsc, watch};

use crate::devices::fallback::DeviceFallback;
use crate::learner_link::backoff::Backoff;
use crate::learner_link::client::LearnerClient;
use crate::learner_link::neighbours::CurrentNeighbours;
use crate::snapshots::install;
use crate::snapshots::install::{Images, InstallError, Installed};
use crate::snapshots::manifests::{LINES, Manifests};
use crate::status::node_state::{Download, NodeActivity, NodeState};
use crate::workload::{NodeWorkload, NodeWorkloadError};

/// The pause before a snapshot that could not be installed is tried again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Why a node receives no more snapshots.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The snapshot service was taken down.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The run's tasks ask for something that this machine lacks.
    #[error(transparent)]
    Workload(#[from] NodeWorkloadError),
}

/// Everything that receiving snapshots needs.
pub struct SnapshotDownloads {
    /// What the run asks for; a snapshot has to fit it.
    pub workload: Arc<NodeWorkload>,
    /// Where chunks lie on disk.
    pub store: Arc<ChunkStore>,
    /// Where installed policies lie.
    pub images: Images,
    /// Where policies are loaded.
    pub fallback: Arc<DeviceFallback>,
    /// Fetches and serves them.
    pub snapshots: Snapshots,
    /// The manifests that were seen, and the epoch.
    pub manifests: Arc<Manifests>,
    /// Names neighbours when some are gone.
    pub learner: LearnerClient,
    /// Takes over those that it names.
    pub neighbours: CurrentNeighbours,
    /// Where the owner sees what happens.
    pub node_state: Arc<NodeState>,
    /// Where the manifest of the installed snapshot is kept.
    pub kept: PathBuf,
    /// What the node generates with, or checks what others have generated. A node that does neither
    /// has none: a snapshot counts as installed there when every byte of it is stored, which it is
    /// only after it matched the signed manifest.
    pub policy: Option<watch::Sender<Option<Arc<Installed>>>>,
    /// What a node does that does not generate, from its first snapshot on.
    pub instead: Option<NodeActivity>,
    /// The installed version, and its epoch.
    pub installed: watch::Sender<Option<(Epoch, PolicyVersion)>>,
}

impl SnapshotDownloads {
    /// Follows the snapshot service until it stops.
    ///
    /// # Errors
    /// [`DownloadError`]; everything else is logged and tried again.
    pub async fn run(self, mut events: mpsc::Receiver<SnapshotEvent>) -> Result<(), DownloadError> {
        let (complete, completed) = watch::channel(None);
        // One question at a time. What comes while it is under way is asked again by the machine of
        // dissemination.
        let (ask, asked) = mpsc::channel(1);
        let follow = async {
            while let Some(event) = events.recv().await {
                match event {
                    SnapshotEvent::Install(manifest) => drop(complete.send_replace(Some(manifest))),
                    SnapshotEvent::AskNeighbours { lost } => drop(ask.try_send(lost)),
                    SnapshotEvent::Progress { version, have_bytes: have, total_bytes: total } => {
                        let download = Some(Download { version, have, total });
                        self.node_state.set(|facts| facts.download = download);
                    }
                    SnapshotEvent::CutOff(peer) => {
                        tracing::warn!(peer = %peer.short(), "cut off: it served bytes that do not match their names");
                    }
                }
            }
            Err(Stopped.into())
        };
        tokio::select! {
            ended = follow => ended,
            ended = self.ask_neighbours(asked) => Ok(ended?),
            ended = self.install(completed) => ended,
        }
    }

    async fn ask_neighbours(&self, mut asked: mpsc::Receiver<Vec<PublicKey>>) -> Result<(), Stopped> {
        while let Some(lost) = asked.recv().await {
            match self.learner.neighbours(lost).await {
                Ok(Some(neighbourhood)) => self.neighbours.take(neighbourhood).await?,
                // The next heartbeat makes this node a member.
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "no neighbours were named"),
            }
        }
        Err(Stopped)
    }

    /// Installs the newest complete snapshot; those that are overtaken meanwhile are skipped.
    async fn install(
        &self,
        mut completed: watch::Receiver<Option<Arc<Manifest>>>,
    ) -> Result<(), DownloadError> {
        let mut in_use: Option<Arc<Manifest>> = None;
        let (mut backoff, mut failure) = (Backoff::new(AGAIN.0, AGAIN.1), LastMessage::default());
        // After a failure the newest is tried again when this is over, or a newer one has come.
        let mut pause = None;
        loop {
            let longest = pause.take().unwrap_or(Duration::MAX);
            if let Ok(Err(_)) = tokio::time::timeout(longest, completed.changed()).await {
                break;
            }
            let Some(manifest) = completed.borrow_and_update().clone() else { continue };
            let (epoch, version) = (manifest.epoch, manifest.version);
            let newest = (*self.installed.borrow()).filter(|(of, _)| *of == epoch);
            if newest.is_some_and(|(_, newest)| newest >= version) || !self.manifests.is_of(epoch) {
                continue;
            }
            // A learner that begins an epoch publishes again what it has.
            let is_in_use = in_use.as_ref().is_some_and(|in_use| in_use.has_content_of(&manifest));
            let Some(policy) = self.policy.as_ref().filter(|_| !is_in_use) else {
                self.done(&manifest);
                continue;
            };
            let (store, images, workload) = (self.store.clone(), self.images.clone(), self.workload.clone());
            let fallback = self.fallback.clone();
            let loaded = manifest.clone();
            let load = move || install::load(&store, &images, &loaded, &workload, &fallback);
            match tokio::task::spawn_blocking(load).await {
                Ok(Ok(installed)) => {
                    policy.send_replace(Some(Arc::new(installed)));
                    self.done(&manifest);
                    in_use = Some(manifest);
                    backoff.reset();
                    failure.clear();
                }
                Ok(Err(InstallError::Chunk { index, source })) => {
                    tracing::warn!(%version, "not installed yet: {source}");
                    self.snapshots.damaged(version, index).await?;
                }
                // No other snapshot would mend this machine.
                Ok(Err(InstallError::Workload(error @ NodeWorkloadError::Machine(_)))) => {
                    return Err(error.into());
                }
                // The disk may be full, or memory short. No newer version comes where the
                // learner waits for this node.
                Ok(Err(error)) => {
                    pause = Some(backoff.pause());
                    if failure.is_new(&error.to_string()) {
                        tracing::error!(%version, %error, "not installed; the version before stays in use; trying again");
                    }
                }
                // The only way a loading task ends early is a defect in it; the version before stays in use.
                Err(error) => {
                    tracing::error!(%version, %error, "not installed; the version before stays in use")
                }
            }
        }
        Err(Stopped.into())
    }

    fn done(&self, manifest: &Manifest) {
        let (epoch, version) = (manifest.epoch, manifest.version);
        self.node_state.set(|facts| {
            (facts.epoch, facts.version) = (Some(epoch), Some(version));
            facts.installed_at = Some(clock::wall());
            facts.download = None;
            facts.state = self.instead.unwrap_or(facts.state);
        });
        // After the node's state: the heartbeat that this sets off reads it.
        self.installed.send_replace(Some((epoch, version)));
        match LINES.due("installed") {
            Some(_) => tracing::info!(%version, "installed"),
            None => tracing::debug!(%version, "installed"),
        }
        if let Err(error) = self.manifests.keep(version, &self.kept) {
            tracing::warn!(%error, "the next start will have to ask for the newest snapshot first");
        }
    }
}
