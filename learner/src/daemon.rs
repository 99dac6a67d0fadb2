//! A learner process: network, service and learning thread around one run.

mod rendezvous;

use crate::admission::{Admission, Tally};
use crate::checkpoint::{Checkpoint, Checkpoints, State};
use crate::conclusion;
use crate::config::RunConfig;
use crate::controller::{Controller, Plan};
use crate::demand;
use crate::desk::{Desk, DeskConfig};
use crate::device;
use crate::evaluation::{self, EvaluationRow};
use crate::fleet::{Fleet, FleetConfig, UNKNOWN_UPLINK};
use crate::learning::{Ended, Learning};
use crate::leases::LeaseConfig;
use crate::log;
use crate::metrics::{self, UpdateRow};
use crate::peers;
use crate::preflight;
use crate::prepare::{Founded, companion_files, export_policy, scratch_beside};
use crate::publisher::Publisher;
use crate::recall::{recall, republished};
use crate::release::{Announce, Releaser, Releases};
use crate::republished::Republished;
use crate::run_dir::RunDir;
use crate::sampling_audit::SamplingAudit;
use crate::service::{Shared, serve};
use crate::store::{SledStore, Store};
use crate::trainer::Trainer;
use crate::watch::{self, Watch};
use anyhow::{Context, anyhow, bail};
use candle_core::Device;
use echo_policy::weights::Weights;
use echo_protocol::clock;
use echo_protocol::content::ContentId;
use echo_protocol::control::Peer;
use echo_protocol::keyfile;
use echo_protocol::net::snapshots::{Role, Snapshots, SnapshotsConfig};
use echo_protocol::net::{ConnectionLimits, DhtMode, Host, HostConfig, HostEvents, Multiaddr, names};
use echo_protocol::peer_list::{self, PeerList, Trust};
use echo_protocol::program::signals::Signals;
use echo_protocol::store::ChunkStore;
use echo_protocol::version::PolicyVersion;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use rendezvous::known_nodes;
pub(crate) use rendezvous::stay_found;

/// How long nodes are given to hear that the run has ended.
const FAREWELL: Duration = Duration::from_secs(3);
/// What the run's key signs for the seed of the fleet's draws.
const FLEET_SEED: &[u8] = b"echo fleet draws 1";

/// Works on a run until it is finished or stopped. Signals end the process at once until training can begin,
/// which is when nodes are let in.
pub async fn work(founded: Founded, signals: &Signals) -> anyhow::Result<Ended> {
    let started = Instant::now();
    // Until the process has written its last word, whatever becomes of the parts of `founded`.
    let _lock = founded.lock.clone();
    let checkpoints = Checkpoints::open(&founded.dir, &founded.config.checkpoints)?;
    let found = newest(&checkpoints, &founded).await?;
    let trainer = trainer(&founded, found.as_ref())?;
    let state = found.map(|found| found.state);
    let plan = Plan {
        updates: founded.config.run.updates,
        staleness: founded.workload.charter.staleness,
        evaluate_every: founded.config.evaluation.every,
    };
    let version = state.as_ref().map(|state| state.version).unwrap_or_default();
    if version.0 > plan.updates {
        let (updates, file) = (plan.updates, founded.dir.config());
        tracing::warn!(
            "{} says updates = {updates}, and the run has come to {version}: it ends here",
            file.display()
        );
    }
    // The rows behind the checkpoint are taken back below, when it is kept which versions they say were
    // published.
    let (watch, history) = Watch::read(&founded.dir, version, &founded.config.watch)?;
    let evaluated = last_evaluation(history.evaluations, state.as_ref());
    let controller = match &state {
        Some(_) => {
            let evaluated = evaluated.as_ref().map(|row| PolicyVersion(row.evaluated));
            Controller::resume(plan, version, evaluated)
        }
        None => Controller::new(plan),
    };
    let rows = history.updates;
    let tally = last_tally(&rows, state.as_ref());
    let announced = history.publications;
    let path = founded.dir.republished();
    let again = match &state {
        Some(state) => republished(&path, &founded.workload, &checkpoints, state.version, &announced).await?,
        None => Republished::default(),
    };
    say_demand(&founded, &rows);
    evaluation::warnings(&founded.workload.mix).iter().for_each(|text| tracing::warn!("{text}"));
    let watch = watch.commit()?;
    let watching = serve_metrics(&founded.config, &founded.dir.config(), &watch).await?;

    let (host, events) = host(&founded).await?;
    let chunks = Arc::new(ChunkStore::open(&founded.dir.chunks())?);
    let me = founded.key.public();
    let (snapshots, snapshot_events) =
        Snapshots::start(host.clone(), chunks.clone(), snapshots_config(&founded))?;
    let publisher =
        Publisher::new(chunks, companion_files(&founded, &founded.dir.start()), founded.config.snapshot);
    let (config, dir) = (founded.config.clone(), founded.dir.clone());
    let home = dir.path().display().to_string();
    let listed = dir.peers();
    let store = Arc::new(SledStore::open(&dir.database())?);
    let shared = Arc::new(shared(founded, store, version, tally, state.as_ref(), &host)?);
    if state.is_none() && shared.desk().has_begun() {
        let store = config.checkpoints.store.as_deref();
        return Err(no_checkpoint(&dir, store, &dir.database(), "handed out orders"));
    }
    // Also where the database does not know of them, because it was lost: nodes hold them, and are told to wait for them.
    again.newest().into_iter().for_each(|published| shared.desk().published(published));
    if let (Some(audit), Some(state)) = (&shared.audit, &state) {
        recall(audit, &shared.workload, &checkpoints, state.version, again).await;
    }
    let fleet = state.map(|state| state.fleet).unwrap_or_default();
    let nodes = known_nodes(&fleet);
    shared.fleet().recall(fleet);
    // Whom the operator has banned meanwhile is not heard from the start, and whom it has pardoned forwards again.
    peers::follow(&shared, &dir.peers_journal());
    let mut serving =
        tokio::spawn(serve(shared.clone(), host.clone(), snapshots.clone(), events, snapshot_events));
    let minding = tokio::spawn(peers::keep(shared.clone(), dir.clone()));
    let finding = tokio::spawn(stay_found(host.clone(), bootstraps(&config)?, nodes, me.as_bytes().to_vec()));

    let (requested, last) = (signals.stop(), controller.last());
    let stop = requested.child_token();
    let stopping = stop.clone();
    let interrupted = tokio::spawn(say_stopping(requested.clone()));
    let releases = Releases::start(Releaser {
        checkpoints: checkpoints.clone(),
        publisher,
        announce: announcer(shared.clone(), host.clone(), snapshots.clone()),
        shared: shared.clone(),
        runtime: Handle::current(),
        stop: stop.clone(),
    })?;
    let learning = Learning {
        controller,
        trainer,
        shared: shared.clone(),
        releases,
        evaluated,
        watch,
        peak_flops: config.watch.peak_flops,
        max_skipped: config.train.max_skipped,
        evaluation_orders: config.evaluation.orders,
        stop,
        started,
    };
    let thread = std::thread::Builder::new().name("learning".into());
    let runtime = Handle::current();
    let near = checkpoints.clone();
    let learning = thread.spawn(move || learn(learning, &near, &runtime, &dir))?;
    let mut learning = tokio::task::spawn_blocking(move || learning.join());
    let ended = tokio::select! {
        ended = &mut learning => ended?,
        served = &mut serving => {
            stopping.cancel();
            let _ = learning.await;
            bail!("the learner's network service has ended ({served:?}); `echo-learner resume` goes on");
        }
    };
    let Ok(ended) = ended else {
        bail!("the learning thread panicked; this is a bug: please report the log above")
    };
    let ended = ended?;
    match ended {
        Ended::Finished => {
            // Nodes need not wait for the store.
            shared.end();
            tokio::join!(tokio::time::sleep(FAREWELL), copy_last(&checkpoints, last, &requested));
        }
        Ended::Stopped => tracing::info!("stopped; `echo-learner resume {home}` goes on"),
    }
    [interrupted, finding, minding].into_iter().chain(watching).for_each(|task| task.abort());
    // Until here nodes could still finish the download of the last version.
    drop(snapshots);
    host.shutdown().await;
    peers::list(&shared, &listed, None);
    if let Err(error) = shared.desk().keep_record() {
        tracing::warn!(%error, "what was learned of peers in the last moment is not kept");
    }
    // The service ends with its host.
    let _ = serving.await;
    Ok(ended)
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
    Ok(Some(tokio::spawn(watch::serve(listener, watch.latest(), run))))
}

/// Learns, and when the run is finished writes what it came to.
fn learn(
    learning: Learning,
    checkpoints: &Checkpoints,
    runtime: &Handle,
    dir: &RunDir,
) -> anyhow::Result<Ended> {
    let (shared, last) = (learning.shared.clone(), learning.controller.last());
    let ended = learning.run()?;
    if ended == Ended::Finished {
        // From the disk: a store on another machine may be out of reach, and has nothing that is not here.
        let newest = runtime.block_on(checkpoints.read(last, &shared.workload.run, &Device::Cpu));
        let newest = newest.with_context(|| {
            format!("the checkpoint of {last}, the last version, cannot be read: `echo-learner resume` makes it again from the one before")
        })?;
        conclusion::conclude(&shared, dir, &newest)?;
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

/// Refuses to begin a run again that has come further: with the same name and key its orders and versions would be given out twice.
fn refuse_to_begin_again(dir: &RunDir, store: Option<&str>) -> anyhow::Result<()> {
    match metrics::reached(&dir.metrics())? {
        Some(reached) => Err(no_checkpoint(dir, store, &dir.metrics(), &format!("come to {reached}"))),
        None => Ok(()),
    }
}

/// What an operator has to know of a run that has done something, as `witness` says, and has no checkpoint.
fn no_checkpoint(dir: &RunDir, store: Option<&str>, witness: &Path, done: &str) -> anyhow::Error {
    let place = match store {
        Some(store) => format!("{store} ([checkpoints] store in {})", dir.config().display()),
        None => dir.checkpoints().display().to_string(),
    };
    // So that what was moved away can be moved back to where it was.
    let _ = std::fs::remove_dir(dir.checkpoints());
    anyhow!(
        "by {} this run has {done}, and there is no checkpoint in {place}: see whether that is the right place, or restore one from a \
         backup; to train anew, found another run",
        witness.display()
    )
}

/// The checkpoint to go on from; `None` at the start of a run.
async fn newest(checkpoints: &Checkpoints, founded: &Founded) -> anyhow::Result<Option<Checkpoint>> {
    let (newest, damaged) = checkpoints.newest(&founded.workload.run, &Device::Cpu).await?;
    damaged.iter().for_each(|error| tracing::warn!(%error, "passed over a checkpoint"));
    match &newest {
        Some(found) => tracing::info!("resuming from the checkpoint of {}", found.state.version),
        None if damaged.is_empty() => {
            refuse_to_begin_again(&founded.dir, founded.config.checkpoints.store.as_deref())?
        }
        None => {
            bail!("no checkpoint of {} is whole: restore one from a backup", founded.dir.path().display())
        }
    }
    Ok(newest)
}

/// The trainer, as it was at a checkpoint or as a run begins.
fn trainer(founded: &Founded, checkpoint: Option<&Checkpoint>) -> anyhow::Result<Trainer> {
    let (model, train) = (&founded.workload.model, &founded.config.train);
    let start = || Weights::load_dir(&founded.dir.start(), model);
    let trainer = match checkpoint {
        Some(found) => Trainer::resume(model, &found.weights, &found.optimizer, train)?,
        None => Trainer::new(model, &start()?, train)?,
    };
    let trainer = trainer.at_temperature(founded.workload.charter.sampling.temperature)?;
    let decoder = trainer.decoder();
    tracing::info!("training on {} in {}", device::name(decoder.device()), decoder.compute());
    let reference = train.objective.objective.needs_reference() || founded.config.watch.reference;
    Ok(if reference { trainer.with_reference(&start()?)? } else { trainer })
}

/// The learner's end of all broadcasts.
pub(crate) fn snapshots_config(founded: &Founded) -> SnapshotsConfig {
    let config = &founded.config;
    SnapshotsConfig {
        keep_versions: config.snapshot.keep_versions,
        ..SnapshotsConfig::new(founded.key.public(), Role::Source, config.network.dissemination)
    }
}

/// Says who will wait for whom, as far as that is known.
fn say_demand(founded: &Founded, rows: &[UpdateRow]) {
    let charter = &founded.workload.charter;
    let batch = founded.config.train.groups_per_update * charter.group_size as usize;
    let fleet = demand::of_fleet(&charter.staleness, batch, rows);
    let policy = demand::of_policy(&charter.staleness).map(str::to_owned);
    policy.into_iter().chain(fleet).for_each(|text| tracing::info!("{text}"));
}

/// The newest evaluation up to the checkpoint: by the metrics, which may be lost, or by the checkpoint itself.
fn last_evaluation(mut rows: Vec<EvaluationRow>, state: Option<&State>) -> Option<EvaluationRow> {
    let state = state?;
    rows.extend(state.evaluated.clone());
    rows.retain(|row| row.evaluated <= state.version.0);
    rows.into_iter().max_by_key(|row| row.evaluated)
}

/// What the earlier processes of this run counted, as far as it is on record. What was accepted since then, the desk finds in its store.
fn last_tally(rows: &[UpdateRow], state: Option<&State>) -> Tally {
    let counted = state.map(|state| state.desk.tally.clone()).unwrap_or_default();
    let Some(row) = rows.last().filter(|row| row.accepted >= counted.accepted) else { return counted };
    let reasons = echo_protocol::submission::RefuseReason::ALL;
    let refused = reasons.into_iter().filter_map(|reason| Some((reason, *row.refused.get(reason.name())?)));
    Tally { accepted: row.accepted, refused: refused.collect(), looks: row.looks, ..Tally::default() }
}

/// Listens where the run file says.
pub(crate) async fn host(founded: &Founded) -> anyhow::Result<(Host, HostEvents)> {
    let network = &founded.config.network;
    let config = HostConfig {
        secret: founded.key.secret(),
        listen: multiaddresses(&network.listen)?,
        mode: DhtMode::Server,
        agent: concat!("echo-learner/", env!("CARGO_PKG_VERSION")).to_owned(),
        topics: vec![names::manifest_topic(&founded.workload.run.to_string())],
        limits: ConnectionLimits::hub(),
        external: multiaddresses(&network.external)?,
        max_upload: network.max_upload.map(|rate| rate.0),
        max_download: network.max_download.map(|rate| rate.0),
    };
    let (host, events) = Host::start(config).await?;
    for address in host.listen_addrs() {
        tracing::info!("listening on {address}/p2p/{}", host.peer_id());
    }
    Ok((host, events))
}

/// The state of a run around what `store` keeps.
pub(crate) fn shared(
    founded: Founded,
    store: Arc<dyn Store>,
    version: PolicyVersion,
    tally: Tally,
    checkpoint: Option<&State>,
    host: &Host,
) -> anyhow::Result<Shared> {
    let Founded { dir, config, key, charter, workload, lock: _ } = founded;
    let workload = Arc::new(workload);
    let leases = LeaseConfig {
        run: workload.run,
        lifetime_ms: config.fleet.lease_s.saturating_mul(1000),
        max_open_per_node: u64::from(config.fleet.orders_per_node),
    };
    let desk = DeskConfig {
        leases,
        limits: config.buffer.limits(),
        filter: config.train.filter(),
        staleness: workload.charter.staleness,
        groups_per_update: config.train.groups_per_update,
        record: config.record.config(),
    };
    let desk = Desk::open(store, desk, clock::now(), version, tally, checkpoint.map(|state| &state.desk))?;
    let admission = Admission::new(workload.run, &workload.charter, workload.mix.clone(), workload.clone())
        .taking(&config.admission.precisions);
    let mut addresses: Vec<String> = host.listen_addrs().iter().map(Multiaddr::to_string).collect();
    addresses.extend(config.network.external.iter().cloned());
    let fleet = FleetConfig {
        mode: config.network.dissemination,
        uplink: config.network.max_upload.unwrap_or(UNKNOWN_UPLINK),
        node_uplink: config.fleet.node_uplink,
        owners: config.verify.owners,
        // Nobody outside knows it, so nobody can choose a key for its place in the mesh.
        seed: *ContentId::of(&key.sign(FLEET_SEED).to_bytes()).as_bytes(),
    };
    let fleet = Fleet::new(Peer { key: key.public(), addresses }, fleet);
    tracing::info!(run = %workload.run, name = workload.charter.name, "at {version}");
    let keep_versions = config.snapshot.keep_versions;
    let max_copy_bytes = usize::try_from(config.admission.max_copy_bytes).unwrap_or(usize::MAX);
    let audit = config.admission.audit;
    let audit = audit.then(|| SamplingAudit::new(workload.clone(), dir.path(), max_copy_bytes));
    let panel = config.verify.config();
    let shared = Shared::new(workload, charter, key, admission, desk, fleet, keep_versions);
    Ok(match audit {
        Some(audit) => shared.audited(audit, panel),
        None => shared,
    })
}

/// Announces versions.
fn announcer(shared: Arc<Shared>, host: Host, snapshots: Snapshots) -> Announce {
    let runtime = Handle::current();
    Box::new(move |manifest, signed| {
        let (version, chunks) = (manifest.version, manifest.chunks.len());
        runtime.block_on(shared.publish(&host, &snapshots, manifest, signed));
        log::line("published", &format!("published {version} in {chunks} chunks"));
    })
}

/// Bootstrap peers of the signed list; says so where the run file names none.
pub(crate) fn bootstraps(config: &RunConfig) -> anyhow::Result<Vec<Multiaddr>> {
    if config.network.peers.is_none() {
        tracing::warn!(
            "[network] peers is not set: only nodes that know this learner's address will find it"
        );
    }
    listed_peers(config)
}

/// Bootstrap peers of the signed list, if the run file names one. Warns where the list has no run of this learner.
///
/// # Errors
/// When the list cannot be read, is not signed as it has to be, or has expired.
pub fn listed_peers(config: &RunConfig) -> anyhow::Result<Vec<Multiaddr>> {
    let Some((path, list)) = peer_list(config)? else { return Ok(Vec::new()) };
    // A run that is founded later makes its key then.
    if let Some(key) = keyfile::load(&RunDir::new(&config.run.dir).identity())?
        && !list.lists(&key.public())
    {
        tracing::warn!(
            "[network] peers: {} (version {}) has no run of this learner, {}: who joins by it does not come here. Add the key to the \
             list's [[runs]], raise its version and sign it again",
            path.display(),
            list.version,
            key.public()
        );
    }
    multiaddresses(&list.peers)
}

/// The signed list and its path, if the run file names one.
pub(crate) fn peer_list(config: &RunConfig) -> anyhow::Result<Option<(&Path, PeerList)>> {
    let Some(path) = config.network.peers.as_deref() else { return Ok(None) };
    let text = peer_list::read_file(path).with_context(|| format!("peer list {}", path.display()))?;
    let mut trust = Trust { keeper: config.network.list_key.clone(), ..Trust::default() };
    let list = peer_list::open(&text, clock::wall(), &mut trust);
    Ok(Some((path, list.with_context(|| path.display().to_string())?)))
}

fn multiaddresses(texts: &[String]) -> anyhow::Result<Vec<Multiaddr>> {
    texts.iter().map(|text| text.parse().with_context(|| format!("{text:?} is no multiaddress"))).collect()
}

async fn say_stopping(requested: CancellationToken) {
    requested.cancelled().await;
    tracing::info!(
        "stopping after the current step; `echo-learner resume` goes on. A second Ctrl-C ends it at once"
    );
}

/// Only makes the starting policy.
pub fn warm_up_only(config: &RunConfig, output: &Path, progress: impl FnMut(u64, f64)) -> anyhow::Result<()> {
    if config.warmup.is_none() {
        bail!("the run file has no [warmup] table: say how long to warm up");
    }
    preflight::output(output)?;
    // Shows now whether anything can be written there.
    let scratch = scratch_beside(output)?;
    let mut config = config.clone();
    config.run.dir = scratch.path().join("run");
    let founded = crate::prepare::found(&config, progress)?;
    let weights = Weights::load_dir(&founded.dir.start(), &founded.workload.model)?;
    let tokenizer = founded.workload.charter.tokenizer.travels().then(|| founded.dir.start());
    export_policy(output, &founded.workload, &weights, tokenizer.as_deref())?;
    tracing::info!("wrote the starting policy to {}", output.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::tests::{LIMIT, learning};
    use crate::release::tests::{Room, mute};
    use object_store::path::Path as ObjectPath;
    use std::sync::mpsc;
    use tokio::runtime::Runtime;

    const LAST: PolicyVersion = PolicyVersion(2);

    /// A run whose last checkpoint is on the disk, and whose store answers nothing.
    fn at_its_end() -> (Room, Checkpoints, std::net::TcpListener) {
        let room = Room::new();
        let mut releases = room.releases(room.checkpoints());
        room.release(&mut releases, LAST.0).unwrap();
        releases.finish().unwrap();
        let (listener, store) = mute();
        let checkpoints = room.checkpoints().copied_to(store, ObjectPath::default(), "mute");
        (room, checkpoints, listener)
    }

    #[test]
    fn the_policy_of_a_finished_run_does_not_wait_for_a_store_that_answers_nothing() {
        let (room, checkpoints, _listener) = at_its_end();
        let dir = RunDir::new(room.dir.path());
        let (said, heard) = mpsc::channel();
        let mut learning = learning(&room, room.releases(checkpoints.clone()));
        let staleness = room.shared.workload.charter.staleness;
        let plan = Plan { updates: LAST.0, staleness, evaluate_every: 0 };
        learning.controller = Controller::resume(plan, LAST, Some(LAST));
        let (policy, runtime) = (dir.policy(), Runtime::new().unwrap());
        let handle = runtime.handle().clone();
        std::thread::spawn(move || drop(said.send(learn(learning, &checkpoints, &handle, &dir))));
        let ended = heard.recv_timeout(LIMIT).expect("it ends in time");
        assert_eq!(ended.unwrap(), Ended::Finished);
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
