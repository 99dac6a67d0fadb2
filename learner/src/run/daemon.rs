//! A learner process: network, service and learning thread around one run.
//!
//! [`work`] is the list of its parts in the order in which they start. They end in this order:
//! learning, what runs beside it, broadcasts, the host, the record of peers, the service.

use crate::common::paced_log;
use crate::config::RunConfig;
use crate::founding::{Founded, companion_files};
use crate::publishing::checkpoint::Checkpoints;
use crate::publishing::snapshots::Publisher;
use crate::run::banner;
use crate::run::capacity;
use crate::run::evaluations;
use crate::run::evaluations::Evaluations;
use crate::run::finalize;
use crate::run::provisioning;
use crate::run::release::{Announce, Releaser, Releases};
use crate::run::restore_audit::restore_policies;
use crate::run::training_loop::{Learning, TrainingEnd};
use crate::server::moderation;
use crate::server::{SharedState, serve};
use crate::storage::SledStore;
use crate::storage::run_dir::RunDir;
use crate::telemetry::exporters;
use crate::telemetry::exporters::Watch;
use crate::telemetry::metrics::UpdateRow;
use crate::telemetry::samples::Samples;
use crate::training::evaluation;
use anyhow::{Context, bail};
use candle_core::Device;
use echo_protocol::net::snapshots::Snapshots;
use echo_protocol::net::{Host, Multiaddr, NetError, PeerId};
use echo_protocol::program::output;
use echo_protocol::program::signals::Signals;
use echo_protocol::run::version::PolicyVersion;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::run::network::Network;
use crate::run::rendezvous::{known_nodes, stay_found};
use crate::run::resumption::{Past, no_checkpoint};
use crate::run::shared_state::shared;

/// How long nodes are given to hear that the run has ended.
const FAREWELL: Duration = Duration::from_secs(3);

/// Works on a run until it is finished or stopped. Signals end the process at once until training can begin,
/// which is when nodes are let in.
///
/// # Errors
/// When the run cannot be read or gone on with, or a part of the learner has failed.
pub async fn work(founded: Founded, signals: &Signals) -> anyhow::Result<TrainingEnd> {
    let started = Instant::now();
    // Until the process has written its last word, whatever becomes of the parts of `founded`.
    let _lock = founded.lock.clone();
    output::note(&banner::of(&founded));
    let (mut past, draft) = Past::read(&founded).await?;
    say_demand(&founded, &past.updates);
    evaluation::warnings(&founded.workload.mix).iter().for_each(|text| tracing::warn!("{text}"));
    let sets = evaluations::prepared(&founded.config.evaluation)?;
    let watch = draft.commit()?;
    let watching = serve_metrics(&founded.config, &founded.dir.config(), &watch).await?;

    let network = crate::run::network::start(&founded).await?;
    let files = companion_files(&founded, &founded.dir.start());
    let publisher = Publisher::new(network.chunks.clone(), files, founded.config.snapshot);
    let (config, dir) = (founded.config.clone(), founded.dir.clone());
    let shared = open_shared(founded, &past, &network.host)?;
    let nodes = restore(&shared, &mut past, &dir.peers_journal()).await;
    let mut service = Service::start(&shared, network, &config, &dir, nodes)?;

    let (requested, last) = (signals.stop(), past.controller.last());
    let stop = requested.child_token();
    let interrupted = tokio::spawn(say_stopping(requested.clone()));
    let checkpoints = past.checkpoints.clone();
    let evaluations = Evaluations::start(sets, shared.workload.clone(), &dir, stop.child_token())?;
    let releases = start_releases(&checkpoints, publisher, &shared, &service, &stop)?;
    let learning = Learning {
        controller: past.controller,
        trainer: past.trainer,
        shared: shared.clone(),
        releases,
        evaluated: past.evaluated,
        watch,
        samples: Arc::new(Samples::start(&dir, past.version, &config.watch)),
        peak_flops: config.watch.peak_flops,
        max_skipped: config.train.max_skipped,
        evaluation_orders: config.evaluation.orders,
        evaluations,
        stop: stop.clone(),
        started,
    };
    let learning = start_learning(learning, &checkpoints, &dir)?;
    let ended = service.until_learned(learning, &stop).await?;
    match ended {
        TrainingEnd::Finished => {
            // Nodes need not wait for the store.
            shared.end();
            service.providing.abort();
            tokio::join!(
                tokio::time::sleep(FAREWELL),
                copy_last(&checkpoints, last, &requested),
                provisioning::release(&shared, &config.fleet.provision),
            );
        }
        TrainingEnd::Stopped => {
            tracing::info!("stopped; `echo-learner resume {}` goes on", dir.path().display());
        }
    }
    interrupted.abort();
    service.end(&shared, &dir, watching).await;
    Ok(ended)
}

/// Opens the database of the run, and what all tasks share around it.
fn open_shared(founded: Founded, past: &Past, host: &Host) -> anyhow::Result<Arc<SharedState>> {
    let (dir, store) = (founded.dir.clone(), founded.config.checkpoints.store.clone());
    let database = Arc::new(SledStore::open(&dir.database())?);
    let state = past.state.as_ref();
    let shared = Arc::new(shared(founded, database, past.version, past.tally.clone(), state, host)?);
    if state.is_none() && shared.coordinator().has_begun() {
        return Err(no_checkpoint(&dir, store.as_deref(), &dir.database(), "handed out orders"));
    }
    Ok(shared)
}

/// Gives back what earlier processes knew: versions that were published, the audit's
/// policies, the fleet, and the operator's decisions. Returns the nodes that are dialled if
/// no bootstrap peer answers.
async fn restore(shared: &SharedState, past: &mut Past, journal: &Path) -> Vec<(PeerId, Vec<Multiaddr>)> {
    let (state, again) = (past.state.take(), std::mem::take(&mut past.again));
    // Also where the database does not know of them, because it was lost: nodes hold them, and are
    // told to wait for them.
    again.newest().into_iter().for_each(|published| shared.coordinator().published(published));
    if let (Some(audit), Some(state)) = (&shared.audit, &state) {
        restore_policies(audit, &shared.workload, &past.checkpoints, state.version, again).await;
    }
    let (fleet, capacity) = state.map(|state| (state.fleet, state.capacity)).unwrap_or_default();
    shared.capacity().restore(capacity);
    let nodes = known_nodes(&fleet);
    shared.fleet().restore(fleet);
    // Whom the operator has banned meanwhile is not heard from the start, and whom it
    // has pardoned forwards again.
    moderation::follow(shared, journal);
    nodes
}

/// What runs from the moment when nodes are let in, beside the learning thread.
struct Service {
    host: Host,
    snapshots: Snapshots,
    /// Answers nodes, until the host ends.
    serving: JoinHandle<Result<(), NetError>>,
    /// Follows the operator's decisions about peers, and lists peers.
    minding: JoinHandle<()>,
    /// Keeps the learner connected and in the DHT.
    finding: JoinHandle<()>,
    /// Asks the operator's program for rented nodes.
    providing: JoinHandle<()>,
}

impl Service {
    fn start(
        shared: &Arc<SharedState>,
        network: Network,
        config: &RunConfig,
        dir: &RunDir,
        nodes: Vec<(PeerId, Vec<Multiaddr>)>,
    ) -> anyhow::Result<Self> {
        let Network { host, events, chunks: _, snapshots, snapshot_events } = network;
        let served = serve(shared.clone(), host.clone(), snapshots.clone(), events, snapshot_events);
        let serving = tokio::spawn(served);
        let minding = tokio::spawn(moderation::keep(shared.clone(), dir.clone()));
        let key = shared.key.public().as_bytes().to_vec();
        let finding =
            tokio::spawn(stay_found(host.clone(), crate::run::network::bootstraps(config)?, nodes, key));
        let program = config.fleet.provision.clone();
        let providing = tokio::spawn(provisioning::provision(shared.clone(), program));
        Ok(Self { host, snapshots, serving, minding, finding, providing })
    }

    /// Waits for the learning thread, and stops it if the service ends first.
    async fn until_learned(
        &mut self,
        learning: LearningThread,
        stop: &CancellationToken,
    ) -> anyhow::Result<TrainingEnd> {
        let mut learning = tokio::task::spawn_blocking(move || learning.join());
        let ended = tokio::select! {
            ended = &mut learning => ended?,
            served = &mut self.serving => {
                stop.cancel();
                let _ = learning.await;
                bail!("the learner's network service has ended ({served:?}); `echo-learner resume` goes on");
            }
        };
        let Ok(ended) = ended else {
            bail!("the learning thread panicked; this is a bug: please report the log above")
        };
        ended
    }

    /// Ends everything, the service last: it ends with its host.
    async fn end(self, shared: &SharedState, dir: &RunDir, watching: Option<JoinHandle<()>>) {
        [self.finding, self.minding, self.providing]
            .into_iter()
            .chain(watching)
            .for_each(|task| task.abort());
        // Until here nodes could still finish the download of the last version.
        drop(self.snapshots);
        self.host.shutdown().await;
        moderation::list(shared, &dir.peers(), None);
        if let Err(error) = shared.coordinator().keep_record() {
            tracing::warn!(%error, "what was learned of peers in the last moment is not kept");
        }
        let _ = self.serving.await;
    }
}

/// Starts the thread that writes checkpoints and publishes versions.
fn start_releases(
    checkpoints: &Checkpoints,
    publisher: Publisher,
    shared: &Arc<SharedState>,
    service: &Service,
    stop: &CancellationToken,
) -> anyhow::Result<Releases> {
    let (host, snapshots) = (service.host.clone(), service.snapshots.clone());
    Ok(Releases::start(Releaser {
        checkpoints: checkpoints.clone(),
        publisher,
        announce: announcer(shared.clone(), host, snapshots),
        shared: shared.clone(),
        runtime: Handle::current(),
        stop: stop.clone(),
    })?)
}

type LearningThread = thread::JoinHandle<anyhow::Result<TrainingEnd>>;

/// Starts the thread that trains.
fn start_learning(
    learning: Learning,
    checkpoints: &Checkpoints,
    dir: &RunDir,
) -> anyhow::Result<LearningThread> {
    let (checkpoints, dir, runtime) = (checkpoints.clone(), dir.clone(), Handle::current());
    let thread = thread::Builder::new().name("learning".into());
    Ok(thread.spawn(move || learn(learning, &checkpoints, &runtime, &dir))?)
}

/// Serves the metrics to Prometheus, if the run file says where.
async fn serve_metrics(
    config: &RunConfig,
    at: &Path,
    watch: &Watch,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some(address) = config.watch.listen else { return Ok(None) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("[watch] listen = \"{address}\" in {}", at.display()))?;
    let address = listener.local_addr()?;
    tracing::info!("metrics at http://{address}/metrics");
    if !address.ip().is_loopback() {
        tracing::warn!("[watch] listen: whoever reaches {address} can read this run's metrics");
    }
    let run = config.run.name.as_str().into();
    Ok(Some(tokio::spawn(exporters::serve(listener, watch.latest(), run))))
}

/// Learns, and when the run is finished writes what it came to.
fn learn(
    learning: Learning,
    checkpoints: &Checkpoints,
    runtime: &Handle,
    dir: &RunDir,
) -> anyhow::Result<TrainingEnd> {
    let (shared, last) = (learning.shared.clone(), learning.controller.last());
    let ended = learning.run()?;
    if ended == TrainingEnd::Finished {
        // From the disk: a store on another machine may be out of reach, and has nothing that is not here.
        let newest = runtime.block_on(checkpoints.read(last, &shared.workload.run, &Device::Cpu));
        let newest = newest.with_context(|| {
            format!("the checkpoint of {last}, the last version, cannot be read: `echo-learner resume` makes it again from the one before")
        })?;
        finalize::conclude(&shared, dir, &newest)?;
    }
    Ok(ended)
}

/// Copies the last checkpoint to its store on another machine, if there is one, until the learner is to stop.
async fn copy_last(checkpoints: &Checkpoints, last: PolicyVersion, stop: &CancellationToken) {
    if !checkpoints.is_copied() {
        return;
    }
    let why = match stop.run_until_cancelled(checkpoints.upload(last)).await {
        Some(Ok(())) => return,
        Some(Err(error)) => error.to_string(),
        None => "the learner was stopped before its copy was there".to_owned(),
    };
    tracing::warn!("the last checkpoint is on this disk only; `echo-learner resume` copies it again: {why}");
}

/// Says who will wait for whom, as far as that is known.
fn say_demand(founded: &Founded, rows: &[UpdateRow]) {
    let charter = &founded.workload.charter;
    let batch = founded.config.train.groups_per_update * charter.group_size as usize;
    let fleet = capacity::of_fleet(&charter.staleness, batch, rows);
    let policy = capacity::of_policy(&charter.staleness).map(str::to_owned);
    policy.into_iter().chain(fleet).for_each(|text| tracing::info!("{text}"));
}

/// Hands versions to the network from the releasing thread, and logs them.
fn announcer(shared: Arc<SharedState>, host: Host, snapshots: Snapshots) -> Announce {
    let runtime = Handle::current();
    Box::new(move |manifest, signed| {
        let (version, chunks) = (manifest.version, manifest.chunks.len());
        runtime.block_on(shared.publish(&host, &snapshots, manifest, signed));
        paced_log::line("published", &format!("published {version} in {chunks} chunks"));
    })
}

async fn say_stopping(requested: CancellationToken) {
    requested.cancelled().await;
    tracing::info!(
        "stopping after the current step; `echo-learner resume` goes on. A second Ctrl-C ends it at once"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::controller::{Controller, RunPlan};
    use crate::run::release::tests::{Fixture, mute};
    use crate::run::training_loop::tests::{LIMIT, learning};
    use object_store::path::Path as ObjectPath;
    use std::sync::mpsc;
    use tokio::runtime::Runtime;

    const LAST: PolicyVersion = PolicyVersion(2);

    /// A run whose last checkpoint is on the disk, and whose store answers nothing.
    fn at_its_end() -> (Fixture, Checkpoints, std::net::TcpListener) {
        let fixture = Fixture::new();
        let mut releases = fixture.releases(fixture.checkpoints());
        fixture.release(&mut releases, LAST.0).unwrap();
        releases.finish().unwrap();
        let (listener, store) = mute();
        let checkpoints = fixture.checkpoints().copied_to(store, ObjectPath::default(), "mute");
        (fixture, checkpoints, listener)
    }

    #[test]
    fn the_policy_of_a_finished_run_does_not_wait_for_a_store_that_answers_nothing() {
        let (fixture, checkpoints, _listener) = at_its_end();
        let dir = RunDir::new(fixture.dir.path());
        let (said, heard) = mpsc::channel();
        let mut learning = learning(&fixture, fixture.releases(checkpoints.clone()));
        let staleness = fixture.shared.workload.charter.staleness;
        let plan = RunPlan { updates: LAST.0, staleness, evaluate_every: 0 };
        learning.controller = Controller::resume(plan, LAST, Some(LAST));
        let (policy, runtime) = (dir.policy(), Runtime::new().unwrap());
        let handle = runtime.handle().clone();
        std::thread::spawn(move || drop(said.send(learn(learning, &checkpoints, &handle, &dir))));
        let ended = heard.recv_timeout(LIMIT).expect("it ends in time");
        assert_eq!(ended.unwrap(), TrainingEnd::Finished);
        assert!(policy.join("model.safetensors").exists());
    }

    #[test]
    fn the_copy_of_the_last_checkpoint_is_left_when_the_learner_is_to_stop() {
        let (_room, checkpoints, listener) = at_its_end();
        let (stop, runtime) = (CancellationToken::new(), Runtime::new().unwrap());
        let stopping = stop.clone();
        let _open = std::thread::spawn(move || {
            let asked = listener.accept();
            stopping.cancel();
            (asked, listener)
        });
        let left = async { tokio::time::timeout(LIMIT, copy_last(&checkpoints, LAST, &stop)).await };
        runtime.block_on(left).expect("it ends in time");
        assert!(stop.is_cancelled());
    }
}
