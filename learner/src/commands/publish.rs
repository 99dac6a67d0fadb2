//! `echo-learner publish`: a real learner's network around policies that are already there.
//!
//! Control service, fleet, publisher and chunk service are those of a training run. Only the
//! coordinator is closed, so that nobody gets work. What a broadcast took is what it will take in
//! training.

mod observer;
mod report;

use crate::common::workload::dtype;
use crate::founding::{Founded, companion_files};
use crate::intake::admission::AdmissionTally;
use crate::publishing::snapshots::{Publication, Publisher};
use crate::run::network;
use crate::run::network::Network;
use crate::run::rendezvous::stay_found;
use crate::run::shared_state;
use crate::server::{SharedState, serve};
use crate::storage::MemoryStore;
use anyhow::{Context as _, bail};
use clap::Args;
use echo_policy::model::weights::{DType, RawTensor, WeightTensor, Weights};
use echo_protocol::net::Host;
use echo_protocol::net::snapshots::Snapshots;
use echo_protocol::program::clock;
use echo_protocol::program::signals::Signals;
use echo_protocol::run::version::PolicyVersion;
use observer::Observer;
use parking_lot::Mutex;
use report::{RehearsalEvent, RehearsalReporter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// How often the fleet is looked at. Times of installation do not depend on it: the fleet notes them.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What is published, and when.
#[derive(Args, Clone, Debug)]
pub struct RehearsalPlan {
    /// A policy to publish, a Hugging Face directory or hf:OWNER/NAME; repeated, they are consecutive
    /// versions of the same model
    #[arg(long = "policy", value_name = "DIR", required = true)]
    pub policies: Vec<PathBuf>,
    /// Time from one publication to the next [default: the next follows when every living node has
    /// installed the one before]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub every: Option<Duration>,
    /// Publish nothing before this many nodes are here
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: usize,
    /// Let those who are here settle for this long before the first publication
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub settle: Option<Duration>,
    /// Give up after this time
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub deadline: Option<Duration>,
    /// Go on serving when all have installed the last version, until Ctrl-C or the deadline
    #[arg(long)]
    pub hold: bool,
    /// One JSON object a line on standard output
    #[arg(long)]
    pub json: bool,
}

impl RehearsalPlan {
    /// The policy that says what the model is.
    pub fn first(&self) -> &Path {
        // The command line requires one.
        self.policies.first().map_or(Path::new(""), PathBuf::as_path)
    }
}

/// Publishes the policies of `plan` and reports how the fleet takes them in.
///
/// # Errors
/// When the network or a policy cannot be used, or the deadline came before every living node
/// had the last version.
pub async fn rehearse(founded: Founded, plan: &RehearsalPlan, signals: &Signals) -> anyhow::Result<()> {
    let started = Instant::now();
    let _lock = founded.lock.clone();
    let config = founded.config.clone();
    let Network { host, events, chunks, snapshots, snapshot_events } = network::start(&founded).await?;
    let me = founded.key.public();
    let files = companion_files(&founded, plan.first());
    let publisher = Arc::new(Mutex::new(Publisher::new(chunks, files, config.snapshot)));
    let store = Arc::new(MemoryStore::default());
    let shared = shared_state::shared(
        founded,
        store,
        PolicyVersion::default(),
        AdmissionTally::default(),
        None,
        &host,
    )?;
    let shared = Arc::new(shared);
    shared.coordinator().close()?;
    let mut serving =
        tokio::spawn(serve(shared.clone(), host.clone(), snapshots.clone(), events, snapshot_events));
    let finding = tokio::spawn(stay_found(
        host.clone(),
        network::bootstraps(&config)?,
        Vec::new(),
        me.as_bytes().to_vec(),
    ));

    let reporter = RehearsalReporter::new(plan.json);
    reporter.tell(&RehearsalEvent::serving(&shared, &host));
    let rehearsal = Rehearsal { shared: shared.clone(), host: host.clone(), snapshots, publisher, reporter };
    let deadline = async {
        match plan.deadline {
            Some(after) => tokio::time::sleep_until(started + after).await,
            None => std::future::pending().await,
        }
    };
    let (mut observer, stop) = (Observer::default(), signals.stop());
    let ended = tokio::select! {
        ended = rehearsal.run(plan, &mut observer) => ended,
        () = deadline => Ok("deadline"),
        () = stop.cancelled() => Ok("interrupted"),
        served = &mut serving => bail!("the network service has ended ({served:?})"),
    };
    let (reason, complete, sent_bytes) = (ended?, observer.complete(), rehearsal.sent_bytes().await);
    reporter.tell(&RehearsalEvent::Ended { at_ms: clock::now().0, reason, complete, sent_bytes });
    finding.abort();
    host.shutdown().await;
    let _ = serving.await;
    if reason == "deadline" && !complete {
        bail!("the deadline came before every living node had installed the last version");
    }
    Ok(())
}

/// The parts that publishing needs.
struct Rehearsal {
    shared: Arc<SharedState>,
    host: Host,
    snapshots: Snapshots,
    publisher: Arc<Mutex<Publisher>>,
    reporter: RehearsalReporter,
}

impl Rehearsal {
    /// Publishes one policy after the other; returns why it ended.
    async fn run(&self, plan: &RehearsalPlan, observer: &mut Observer) -> anyhow::Result<&'static str> {
        self.watch_until(observer, |observer| observer.nodes() >= plan.nodes).await;
        if let Some(settle) = plan.settle {
            let here = Instant::now();
            self.watch_until(observer, |_| here.elapsed() >= settle).await;
        }
        for (index, policy) in plan.policies.iter().enumerate() {
            let (version, last) = (PolicyVersion(index as u64), index + 1 == plan.policies.len());
            let since = Instant::now();
            self.publish(version, policy, observer).await.with_context(|| policy.display().to_string())?;
            match plan.every {
                Some(every) if !last => {
                    self.watch_until(observer, |_| since.elapsed() >= every).await;
                }
                _ => self.watch_until(observer, Observer::complete).await,
            }
        }
        if plan.hold {
            self.watch_until(observer, |_| false).await;
        }
        Ok("complete")
    }

    async fn publish(
        &self,
        version: PolicyVersion,
        policy: &Path,
        observer: &mut Observer,
    ) -> anyhow::Result<()> {
        let (shared, publisher, policy) = (self.shared.clone(), self.publisher.clone(), policy.to_owned());
        let publication = tokio::task::spawn_blocking(move || {
            let workload = &shared.workload;
            let weights = Weights::load_dir(&policy, &workload.model)?;
            let dtype = dtype(workload.charter.snapshot_type);
            let tensors = weights.iter().map(|tensor| Ok(raw(tensor, dtype)));
            // Only one task at a time publishes.
            let mut publisher = publisher.lock();
            anyhow::Ok(publisher.publish(workload, &shared.key, shared.epoch, version, tensors)?)
        })
        .await??;
        let Publication { manifest, signed, row } = publication;
        let at = clock::now();
        observer.published(at, version);
        self.reporter.tell(&RehearsalEvent::published(at, &manifest, row));
        self.shared.publish(&self.host, &self.snapshots, manifest, signed).await;
        Ok(())
    }

    /// Bytes of snapshots that the source has sent.
    async fn sent_bytes(&self) -> u64 {
        self.snapshots.stats().await.map_or(0, |stats| stats.sent_bytes)
    }

    /// Reports what happens until `enough`.
    async fn watch_until(&self, observer: &mut Observer, enough: impl Fn(&Observer) -> bool) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = Instant::now();
        loop {
            look.tick().await;
            let events = observer.look(clock::now(), &self.shared.fleet());
            events.iter().for_each(|event| self.reporter.tell(event));
            if enough(observer) {
                return;
            }
            if reported.elapsed() >= PROGRESS_EVERY {
                reported = Instant::now();
                let sent_bytes = self.sent_bytes().await;
                self.reporter.tell(&observer.progress(clock::now(), sent_bytes));
            }
        }
    }
}

/// A tensor as it is published.
fn raw(tensor: &WeightTensor, dtype: DType) -> RawTensor {
    if tensor.dtype() == dtype {
        let (name, shape) = (tensor.name().to_owned(), tensor.shape().to_vec());
        return RawTensor { name, dtype, shape, bytes: tensor.bytes().to_vec() };
    }
    RawTensor::from_f32(tensor.name(), tensor.shape(), &tensor.to_f32(), dtype)
}
