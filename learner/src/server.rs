//! The learner on the network: answers nodes, takes their groups in, serves snapshots.
//!
//! Everything here is passive (RLAX): it reacts to nodes and to the learning thread, and decides
//! nothing about training. What it shares with the learning thread is [`SharedState`]; the learning
//! thread waits there for groups, and the releasing thread tells it what was published.
//!
//! This folder imports `intake`, `verification`, `reputation`, `fleet`, `training`
//! (sequences), `storage` and `common`.
//!
//! ```text
//! heartbeat, leases, neighbours ─> control, pace, locations, lease_retry
//!     └─ lease_writer    one flush for all that wait
//! stream of groups ─> rate_limit ─> delivery
//!     ├─ judges          admission, reward, audit, on threads that may block
//!     ├─ verifiers       groups that wait for a panel
//!     └─ one writer      one flush for all that passed ─> receipts ─> answers
//! operator ─> moderation ─> record
//! ```

mod control;
mod delivery;
mod lease_retry;
mod lease_writer;
mod locations;
pub mod moderation;
pub mod options;
mod pace;
mod rate_limit;
mod token_bucket;
mod turns;
mod verifiers;

use crate::common::paced_log;
use crate::common::workload::Workload;
use crate::fleet::Fleet;
use crate::fleet::capacity::{Activation, Capacity, CapacityConfig, Prices};
use crate::intake::admission::Admission;
use crate::intake::coordinator::Coordinator;
use crate::verification::panel::PanelConfig;
use crate::verification::sampling_audit::SamplingAudit;
use delivery::{Counted, UnderWay};
use echo_protocol::control::heartbeat::Heartbeat;
use echo_protocol::net::peer_id::peer_of_key;
use echo_protocol::net::snapshots::{SnapshotEvent, Snapshots};
use echo_protocol::net::{Host, HostEvents, NetError, PeerId, protocol_names};
use echo_protocol::program::clock;
use echo_protocol::run::charter::Charter;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use locations::Locations;
use pace::ManifestAllowances;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use verifiers::Verifiers;

/// Nodes that held orders when the learner ended have this long to come back once it has started, then
/// their orders are free. A node looks for it every five seconds.
const BACK_WITHIN_MS: u64 = 20_000;
/// How often silent nodes are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// What the run's key signs for the secret of draws: which groups are looked at again, and by whom.
const LOOK_SEED: &[u8] = b"echo look draws 1";

/// What the network side and the learning thread share. What is behind the locks is changed in steps
/// that are each valid, so others go on when a thread has panicked while it held one.
pub struct SharedState {
    /// What the charter means.
    pub workload: Arc<Workload>,
    /// The charter as nodes get it.
    pub charter: Signed<Charter>,
    /// The run's key: it signs receipts, leases and manifests.
    pub key: NodeKey,
    /// The epoch of this process.
    pub epoch: Epoch,
    admission: Admission,
    /// Knows the policies that nodes work under, where tokens are checked.
    pub audit: Option<SamplingAudit>,
    /// Members who look at the groups of others.
    verifiers: Verifiers,
    /// Nobody outside knows it, and it is the same after a restart.
    secret: [u8; 32],
    /// From where nodes are connected.
    locations: Locations,
    /// How often nodes ask for manifests.
    manifest_pace: Mutex<ManifestAllowances>,
    /// Groups that are judged now.
    under_way: UnderWay,
    /// Groups whose near misses their nodes' records hold.
    counted: Counted,
    coordinator: Mutex<Coordinator>,
    arrived: Condvar,
    fleet: Mutex<Fleet>,
    /// Its lock is taken last, and no other while it is held.
    capacity: Mutex<Capacity>,
    /// The newest that were published, at most `keep_versions`.
    manifests: Mutex<VecDeque<(PolicyVersion, Signed<Manifest>)>>,
    keep_versions: usize,
    ended: Mutex<bool>,
}

impl SharedState {
    /// The shared state of a run of which the last `keep_versions` published versions are served.
    pub fn new(
        workload: Arc<Workload>,
        charter: Signed<Charter>,
        key: NodeKey,
        admission: Admission,
        coordinator: Coordinator,
        fleet: Fleet,
        keep_versions: usize,
    ) -> Self {
        let epoch = coordinator.epoch();
        let (coordinator, fleet) = (Mutex::new(coordinator), Mutex::new(fleet));
        let (manifests, ended) = (Mutex::new(VecDeque::new()), Mutex::new(false));
        let (arrived, audit) = (Condvar::new(), None);
        let secret = *ContentId::of(&key.sign(LOOK_SEED).to_bytes()).as_bytes();
        let verifiers = Verifiers::new(PanelConfig::default(), secret);
        let everybody = CapacityConfig {
            activation: Activation::All,
            gamma: 1.0,
            batch: 1,
            period: None,
            prices: Prices::default(),
            learner_price: 0.0,
        };
        Self {
            capacity: Mutex::new(Capacity::new(everybody, clock::now())),
            workload,
            charter,
            key,
            epoch,
            admission,
            audit,
            verifiers,
            secret,
            locations: Locations::default(),
            manifest_pace: Mutex::new(ManifestAllowances::new()),
            under_way: UnderWay::default(),
            counted: Counted::default(),
            coordinator,
            arrived,
            fleet,
            manifests,
            keep_versions,
            ended,
        }
    }

    /// The same with an audit of the tokens that nodes send, and with such panels of verifiers that
    /// make it where they can.
    #[must_use]
    pub fn audited(self, audit: SamplingAudit, panel: PanelConfig) -> Self {
        let verifiers = Verifiers::new(panel, self.secret);
        Self { audit: Some(audit), verifiers, ..self }
    }

    /// The same with a choice of who works. Without one, everybody does.
    #[must_use]
    pub fn choosing(self, capacity: Capacity) -> Self {
        Self { capacity: Mutex::new(capacity), ..self }
    }

    /// Verifiers with a record of right verdicts, or of accepted work. To offer costs a key nothing.
    fn verifiers_of_use(&self, now: UnixMillis) -> Vec<PublicKey> {
        let mut verifiers = self.verifiers.that_offered();
        if verifiers.is_empty() {
            return verifiers;
        }
        let coordinator = self.coordinator();
        let record = coordinator.record();
        verifiers.retain(|key| record.has_judged(now, key) || record.is_known(key));
        verifiers
    }

    /// Notes which verifiers' verdicts were right. Who is not heard any more loses its stream.
    fn note_verdicts(&self, verdicts: Vec<(PublicKey, bool)>) {
        let now = clock::now();
        let silenced: Vec<PublicKey> = {
            let mut coordinator = self.coordinator();
            let silenced =
                verdicts.into_iter().filter(|(key, right)| coordinator.note_verdict(now, *key, *right));
            silenced.map(|(key, _)| key).collect()
        };
        silenced.iter().for_each(|key| self.verifiers.gone(key));
    }

    /// The coordinator, locked. The lock is held briefly: computing rewards happens outside.
    pub fn coordinator(&self) -> MutexGuard<'_, Coordinator> {
        self.coordinator.lock()
    }

    /// The fleet, locked; held briefly, as heartbeats wait for it.
    pub fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock()
    }

    /// Who works, locked; held briefly, and taken after every other lock.
    pub fn capacity(&self) -> MutexGuard<'_, Capacity> {
        self.capacity.lock()
    }

    /// Waits until groups may have arrived, at most `longest`.
    pub fn wait_for_groups(&self, mut coordinator: MutexGuard<'_, Coordinator>, longest: Duration) {
        self.arrived.wait_for(&mut coordinator, longest);
    }

    fn groups_arrived(&self) {
        self.arrived.notify_all();
    }

    /// Tells everybody about a snapshot whose chunks are stored.
    pub async fn publish(
        &self,
        host: &Host,
        snapshots: &Snapshots,
        manifest: Arc<Manifest>,
        signed: Signed<Manifest>,
    ) {
        let version = manifest.version;
        // The driver only stops with the process.
        let _ = snapshots.publish(manifest).await;
        let bytes = signed.to_bytes();
        {
            let mut manifests = self.manifests.lock();
            manifests.push_back((version, signed));
            while manifests.len() > self.keep_versions {
                manifests.pop_front();
            }
        }
        let now = clock::now();
        self.fleet().published(now, version);
        self.capacity().published(now, version);
        // Without a subscriber nobody is missed: nodes that come later hear of the
        // version in their heartbeats.
        if let Err(error) =
            host.publish(&protocol_names::manifest_topic(&self.workload.run.to_string()), bytes).await
        {
            tracing::debug!(%error, %version, "the announcement was not gossiped");
        }
    }

    /// Tells that the policy is now at `version`.
    pub fn at(&self, version: PolicyVersion) {
        let now = clock::now();
        self.coordinator().at(now, version);
        self.verifiers.at(now, version);
    }

    /// Says that the run has ended, so that nodes stop.
    pub fn end(&self) {
        *self.ended.lock() = true;
    }

    /// A heartbeat without what it says of versions of another epoch: the weights may be others.
    fn of_this_epoch(&self, heartbeat: Heartbeat) -> Heartbeat {
        match heartbeat.epoch == self.epoch {
            true => heartbeat,
            false => Heartbeat { installed: None, progress: None, ..heartbeat },
        }
    }

    fn newest(&self) -> Option<PolicyVersion> {
        self.manifests.lock().back().map(|(version, _)| *version)
    }
}

/// Serves nodes until the host stops. Returns earlier only when a part of it has failed.
pub async fn serve(
    shared: Arc<SharedState>,
    host: Host,
    snapshots: Snapshots,
    events: HostEvents,
    snapshot_events: mpsc::Receiver<SnapshotEvent>,
) -> Result<(), NetError> {
    let (incoming, of_older) =
        (host.accept(protocol_names::TRAJECTORIES)?, host.accept(protocol_names::TRAJECTORIES_1)?);
    let intake = tokio::spawn(delivery::accept(shared.clone(), incoming, of_older));
    // Where nothing is audited, there is nothing for verifiers to do.
    let of_verifiers = shared.audit.is_some().then(|| host.accept(protocol_names::CHECKS)).transpose()?;
    let verifying = of_verifiers.map(|incoming| tokio::spawn(verifiers::accept(shared.clone(), incoming)));
    let expiring = tokio::spawn(verifiers::expire(shared.clone()));
    let sweep = tokio::spawn(sweep(shared.clone(), host.clone(), snapshots));
    let watch = tokio::spawn(watch(shared.clone(), snapshot_events));
    let stop = [intake.abort_handle(), sweep.abort_handle(), watch.abort_handle(), expiring.abort_handle()];
    tokio::select! {
        () = control::answer(shared, &host, events) => {}
        // Its writer died: a learner that takes nothing in must not look alive.
        _ = intake => {}
    }
    let verifying = verifying.iter().map(|task| task.abort_handle());
    stop.into_iter().chain(verifying).for_each(|task| task.abort());
    Ok(())
}

/// Looks for nodes that have gone, frees their orders, tells the source whom it has to serve, and
/// has the record written.
async fn sweep(shared: Arc<SharedState>, host: Host, snapshots: Snapshots) {
    let (mut reported_consumers, mut reported_leaves, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let mut back_by = Some(clock::now().plus(BACK_WITHIN_MS));
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let now = clock::now();
        let holders: Vec<PublicKey> = match back_by.take_if(|by| *by <= now) {
            Some(_) => shared.coordinator().holders().copied().collect(),
            None => Vec::new(),
        };
        let (gone, consumers, leaves, with_a_record) = {
            let mut fleet = shared.fleet();
            let mut gone = fleet.expire(now);
            gone.extend(holders.into_iter().filter(|holder| !fleet.members().contains_key(holder)));
            let consumers = fleet.source_consumers();
            let leaves = fleet.leaves_among(&consumers);
            let with_a_record: Vec<PublicKey> = fleet.with_a_record().copied().collect();
            (gone, consumers, leaves, with_a_record)
        };
        // The driver only stops with the process.
        if consumers != reported_consumers {
            reported_consumers.clone_from(&consumers);
            let _ = snapshots.friends(consumers).await;
        }
        if leaves != reported_leaves {
            reported_leaves.clone_from(&leaves);
            let _ = snapshots.leaves(leaves).await;
        }
        // Where too many are connected, and where an uplink is narrow, strangers make room.
        let working = with_a_record.into_iter().chain(reported_consumers.iter().copied());
        let known: Vec<PublicKey> = working.chain(shared.verifiers_of_use(now)).collect();
        if known != kept {
            kept.clone_from(&known);
            // Keys are points of a curve, which takes microseconds each: only where something has changed.
            let peers: Vec<PeerId> = known.iter().filter_map(peer_of_key).collect();
            let _ = host.keep(peers).await;
        }
        if !gone.is_empty() {
            for node in &gone {
                paced_log::line("gone", &format!("node {} is gone; its orders are free", node.short()));
            }
            shared.coordinator().nodes_gone(&gone);
        }
        look_at_capacity(&shared, now, &gone);
        // A change of standing waits for the disk.
        let keeping = shared.clone();
        let written = tokio::task::spawn_blocking(move || keeping.coordinator().keep_record()).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "the record of peers cannot be written");
        }
    }
}

/// Has it decided who works, now that these nodes are gone.
fn look_at_capacity(shared: &SharedState, now: UnixMillis, gone: &[PublicKey]) {
    let mut capacity = shared.capacity();
    gone.iter().for_each(|node| capacity.gone(node));
    capacity.tick(now);
}

/// The source's own events: only damage to its chunks matters, and the next publication writes them again.
async fn watch(shared: Arc<SharedState>, mut events: mpsc::Receiver<SnapshotEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            SnapshotEvent::AskNeighbours { .. } => {
                tracing::warn!(
                    "a published chunk was damaged on this disk; nodes get it with the next version"
                );
            }
            SnapshotEvent::CutOff(peer) => {
                paced_log::warning("cut off", &format!("node {} broke the chunk protocol", peer.short()));
                shared.fleet().cut_off(&peer);
            }
            SnapshotEvent::Install(_) | SnapshotEvent::Progress { .. } => {}
        }
    }
}
