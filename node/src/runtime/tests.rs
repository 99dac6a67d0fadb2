//! A whole node against a learner that does nothing but keep the protocol.

use super::*;
use crate::preflight;
use crate::settings::{Config, Flags, OnBattery};
use crate::testing;
use echo_policy::generation::DeviceChoice;
use echo_protocol::control::heartbeat::Heartbeat;
use echo_protocol::control::requests::{ControlRequest, ControlResponse, Neighbour, Neighbourhood, Peer};
use echo_protocol::dissemination;
use echo_protocol::dissemination::{DisseminationMode, KEPT_VERSIONS};
use echo_protocol::net::peer_id::key_of_peer;
use echo_protocol::net::snapshots::{SnapshotRole, Snapshots, SnapshotsConfig};
use echo_protocol::net::{
    ConnectionLimits, DhtMode, Host, HostConfig, HostEvent, Multiaddr, PeerId, Stream, protocol_names,
    read_frame, write_frame,
};
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{ListedRun, PeerList};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::store::ChunkStore;
use echo_protocol::wire::codec;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES, Outcome, RefuseReason};
use echo_protocol::work::trajectory::TrajectoryGroup;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

mod look;
mod missed;
mod unanswered;

/// Anything that is waited for happens within this time, or something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// What survives the learner.
#[derive(Default)]
struct Books {
    /// The manifests of the newest versions, at most [`KEPT_VERSIONS`].
    kept: BTreeMap<PolicyVersion, Signed<Manifest>>,
    /// Versions whose manifests were asked for by number.
    asked: BTreeSet<PolicyVersion>,
    leased: u64,
    /// An order that was delivered, of which the learner knows no more; a node that names no
    /// last order is leased it again.
    forgotten: Option<OrderCounter>,
    /// Orders that came back.
    returned: Vec<HeldOrder>,
    epoch: Epoch,
    /// How far its clock is behind.
    clock_behind_ms: u64,
    /// Accepted orders, with the newest version in each.
    accepted: BTreeMap<u64, u64>,
    heartbeat: Heartbeat,
    ended: bool,
}

struct FakeLearner {
    host: Host,
    store: Arc<ChunkStore>,
    snapshots: Snapshots,
    books: Arc<Mutex<Books>>,
    tasks: tokio::task::JoinSet<()>,
}

impl FakeLearner {
    async fn start(dir: &Path, listen: Vec<Multiaddr>, books: Arc<Mutex<Books>>) -> Self {
        let key = testing::learner_key();
        let config = HostConfig {
            listen,
            mode: DhtMode::Server,
            topics: vec![protocol_names::manifest_topic(&testing::run_id().to_string())],
            limits: ConnectionLimits::hub(),
            ..HostConfig::client(key.secret(), "fake learner")
        };
        let (host, mut events) = super::network::start_host(config).await.unwrap();
        let store = Arc::new(ChunkStore::open(&dir.join("learner")).unwrap());
        let config = SnapshotsConfig::new(key.public(), SnapshotRole::Source, DisseminationMode::Star);
        let (snapshots, mut snapshot_events) = Snapshots::start(host.clone(), store.clone(), config).unwrap();
        let mut streams = host.accept(protocol_names::TRAJECTORIES).unwrap();
        let me = Peer {
            key: key.public(),
            addresses: host.listen_addrs().iter().map(ToString::to_string).collect(),
        };
        let mut tasks = tokio::task::JoinSet::new();
        let asked = books.clone();
        tasks.spawn(async move {
            while let Some(event) = events.recv().await {
                if let HostEvent::Request { peer, body, reply } = event {
                    let response = answer(&asked, &me, peer, ControlRequest::from_bytes(&body).unwrap());
                    let _gone = reply.send(response.to_bytes().unwrap());
                }
            }
        });
        tasks.spawn(async move { while snapshot_events.recv().await.is_some() {} });
        let taken = books.clone();
        tasks.spawn(async move {
            while let Some((_, stream)) = streams.next().await {
                take(&taken, stream).await;
            }
        });
        Self { host, store, snapshots, books, tasks }
    }

    async fn publish(&self, version: u64) -> Arc<Manifest> {
        let epoch = self.books.lock().epoch;
        let manifest = Arc::new(Manifest { epoch, ..testing::snapshot(&self.store, version) });
        self.tell(std::slice::from_ref(&manifest));
        self.snapshots.publish(manifest.clone()).await.unwrap();
        manifest
    }

    /// From now on whoever asks hears of these versions; they are never gossiped.
    fn tell(&self, manifests: &[Arc<Manifest>]) {
        let mut books = self.books.lock();
        for manifest in manifests {
            books.kept.insert(manifest.version, Signed::sign(&**manifest, &testing::learner_key()).unwrap());
        }
        while books.kept.len() > KEPT_VERSIONS {
            books.kept.pop_first();
        }
    }

    async fn die(mut self) -> Vec<Multiaddr> {
        let listened = self.host.listen_addrs();
        self.tasks.shutdown().await;
        self.host.shutdown().await;
        listened
    }
}

fn answer(books: &Mutex<Books>, me: &Peer, peer: PeerId, request: ControlRequest) -> ControlResponse {
    let mut books = books.lock();
    match request {
        ControlRequest::Charter => ControlResponse::Charter(testing::charter()),
        ControlRequest::Heartbeat(heartbeat) => {
            books.heartbeat = heartbeat;
            let newest = books.kept.keys().last().copied();
            let known = books.heartbeat.neighbourhood == neighbourhood(me).digest();
            let neighbourhood = (!known).then(|| neighbourhood(me));
            let wall = UnixMillis(clock::wall().0.saturating_sub(books.clock_behind_ms));
            ControlResponse::News { epoch: books.epoch, wall, newest, neighbourhood, ended: books.ended }
        }
        ControlRequest::Manifest(None) => ControlResponse::Manifest(books.kept.values().last().cloned()),
        ControlRequest::Manifest(Some(version)) => {
            books.asked.insert(version);
            ControlResponse::Manifest(books.kept.get(&version).cloned())
        }
        ControlRequest::Lease { orders, last } => {
            let node = key_of_peer(&peer).unwrap();
            let run = testing::run_id();
            let lease = match books.forgotten.filter(|_| last.is_none()) {
                Some(first) => Lease { run, id: LeaseId(0), node, first, count: 1, lifetime_ms: 60_000 },
                None => {
                    let (id, first) = (LeaseId(books.leased), OrderCounter(books.leased));
                    books.leased += u64::from(orders);
                    Lease { run, id, node, first, count: orders, lifetime_ms: 60_000 }
                }
            };
            let leases = vec![Signed::sign(&lease, &testing::learner_key()).unwrap()];
            ControlResponse::Leases { leases, retry_after_ms: 100 }
        }
        ControlRequest::Return(returned) => {
            books.returned.extend(returned.orders);
            ControlResponse::Returned
        }
        ControlRequest::Neighbours { .. } => ControlResponse::Neighbours(Some(neighbourhood(me))),
    }
}

/// Everybody receives from the learner.
fn neighbourhood(me: &Peer) -> Neighbourhood {
    let neighbours = vec![Neighbour { peer: me.clone(), role: dissemination::NeighbourRole::Parent }];
    Neighbourhood { mode: DisseminationMode::Star, neighbours, dial: Vec::new(), consumers: Vec::new() }
}

async fn take(books: &Mutex<Books>, mut stream: Stream) {
    while let Ok(Some(frame)) = read_frame(&mut stream, crate::delivery::outbox::MAX_ENTRY_BYTES).await {
        let group: TrajectoryGroup = Signed::from_bytes(&frame).unwrap().open().unwrap();
        let newest = group.newest_version().unwrap().0;
        let outcome = match books.lock().accepted.insert(group.counter.0, newest) {
            None => Outcome::Accepted,
            Some(_) => Outcome::Refused { reason: RefuseReason::Duplicate, detail: String::new() },
        };
        let bytes = codec::encode(&Answer::new(Some(group.counter), outcome), MAX_ANSWER_BYTES).unwrap();
        if write_frame(&mut stream, &bytes, MAX_ANSWER_BYTES).await.is_err() {
            return;
        }
    }
}

async fn until(books: &Mutex<Books>, what: impl Fn(&Books) -> bool) {
    let wait = async {
        while !what(&books.lock()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it happens in time");
}

fn settings(dir: &Path, learner: &Host) -> Settings {
    let list = PeerList {
        network: "echo".into(),
        version: 1,
        expires: clock::now().0 / 1000 + 1000,
        peers: learner.listen_addrs().iter().map(|a| format!("{a}/p2p/{}", learner.peer_id())).collect(),
        runs: vec![ListedRun { name: "sums".into(), learner: testing::learner_key().public().to_string() }],
    };
    std::fs::write(dir.join("list"), peer_list::sign(&list, &testing::learner_key()).unwrap()).unwrap();
    let flags = Flags {
        data_dir: Some(dir.join("node")),
        peers: Some(dir.join("list")),
        listen: Some(vec!["/ip4/127.0.0.1/udp/0/quic-v1".into(), "/ip4/127.0.0.1/tcp/0".into()]),
        // As many as the test process uses anyway.
        threads: Some(std::thread::available_parallelism().unwrap().into()),
        device: Some(DeviceChoice::Cpu),
        // A portable computer may test on battery.
        on_battery: Some(OnBattery::Work),
        ..Flags::default()
    };
    Config::load(&flags, Vec::new()).unwrap().settings
}

/// Of a node that does not generate.
fn relaying(dir: &Path, learner: &Host) -> Settings {
    Settings { roles: [crate::settings::Role::Relay].into(), ..settings(dir, learner) }
}

fn loopback() -> Vec<Multiaddr> {
    vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap(), "/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap()]
}

fn start(settings: &Settings) -> (CancellationToken, tokio::task::JoinHandle<NodeSummary>) {
    let (settings, stop) = (settings.clone(), CancellationToken::new());
    let ready = preflight::check(&settings, clock::now()).unwrap();
    let token = stop.clone();
    let running = tokio::spawn(async move { run(ready, &settings, Screen::new(), token).await.unwrap() });
    (stop, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_works_survives_the_learners_death_and_ends_with_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let books = Arc::new(Mutex::new(Books::default()));
    let learner = FakeLearner::start(dir.path(), loopback(), books.clone()).await;
    learner.publish(1).await;
    let settings = settings(dir.path(), &learner.host);
    let (_stop, running) = start(&settings);
    until(&books, |books| books.accepted.len() >= 20).await;
    assert!(books.lock().accepted.values().all(|version| *version == 1));

    // A newer policy takes over.
    learner.publish(2).await;
    until(&books, |books| books.accepted.values().any(|version| *version == 2)).await;
    until(&books, |books| books.heartbeat.installed.is_some_and(|v| v.0 == 2)).await;

    // The learner dies; the node finishes what it has, keeps it, and delivers when the learner is back.
    let listened = learner.die().await;
    let before = books.lock().accepted.len();
    let learner = FakeLearner::start(dir.path(), listened, books.clone()).await;
    until(&books, |books| books.accepted.len() >= before + 20).await;

    books.lock().ended = true;
    let summary = running.await.unwrap();
    assert!(summary.run_ended);
    assert_eq!(summary.facts.outbox, 0);
    let accepted = books.lock().accepted.len() as u64;
    let duplicates = summary.facts.refused.get("duplicate").copied().unwrap_or(0);
    assert_eq!(
        summary.facts.accepted + duplicates,
        accepted,
        "every group was answered exactly once: {summary:?}"
    );
    let status: serde_json::Value =
        serde_json::from_slice(&std::fs::read(settings.data().status()).unwrap()).unwrap();
    assert_eq!((&status["state"], &status["version"]), (&"ended".into(), &2.into()));
    learner.die().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_begins_with_what_is_on_its_disk_and_delivers_what_it_kept() {
    let dir = tempfile::tempdir().unwrap();
    let books = Arc::new(Mutex::new(Books::default()));
    let learner = FakeLearner::start(dir.path(), loopback(), books.clone()).await;
    learner.publish(5).await;
    let settings = settings(dir.path(), &learner.host);
    let (stop, running) = start(&settings);
    until(&books, |books| !books.accepted.is_empty()).await;
    stop.cancel();
    assert!(!running.await.unwrap().run_ended);

    // Something is left in the outbox, and the learner is away: the policy is installed all the same.
    let listened = learner.die().await;
    let counter = OrderCounter(1_000_000);
    let identity = echo_protocol::program::keyfile::load_or_create(&settings.data().identity()).unwrap();
    let group = testing::group(identity.public(), counter);
    let outbox = crate::delivery::outbox::Outbox::open(
        &settings.data().outbox(),
        &testing::run_id(),
        &identity.public(),
    )
    .unwrap();
    outbox.push(&[(counter, Signed::sign(&group, &identity).unwrap().to_bytes())]).unwrap();
    drop(outbox);
    std::fs::remove_file(settings.data().status()).unwrap();
    let (stop, running) = start(&settings);
    let installed = || {
        let status = std::fs::read(settings.data().status()).ok()?;
        serde_json::from_slice::<serde_json::Value>(&status).ok()?["version"].as_u64()
    };
    while installed() != Some(5) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let learner = FakeLearner::start(dir.path(), listened, books.clone()).await;
    until(&books, |books| books.accepted.contains_key(&counter.0)).await;
    stop.cancel();
    running.await.unwrap();
    learner.die().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_keeps_snapshots_and_says_so_without_asking_for_work() {
    let dir = tempfile::tempdir().unwrap();
    let books = Arc::new(Mutex::new(Books::default()));
    let learner = FakeLearner::start(dir.path(), loopback(), books.clone()).await;
    learner.publish(3).await;
    let settings = relaying(dir.path(), &learner.host);
    let (stop, running) = start(&settings);
    until(&books, |books| books.heartbeat.installed.is_some_and(|v| v.0 == 3)).await;
    learner.publish(4).await;
    until(&books, |books| books.heartbeat.installed.is_some_and(|v| v.0 == 4)).await;
    {
        let books = books.lock();
        assert!(books.heartbeat.relays);
        assert_eq!((books.leased, books.accepted.len()), (0, 0));
    }
    stop.cancel();
    let facts = running.await.unwrap().facts;
    assert_eq!((facts.state, facts.version.map(|v| v.0)), (NodeActivity::Relaying, Some(4)));
    assert!(facts.installed_at.is_some());
    learner.die().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_follows_a_learner_that_was_put_back_to_an_older_version() {
    let dir = tempfile::tempdir().unwrap();
    let books = Arc::new(Mutex::new(Books::default()));
    let learner = FakeLearner::start(dir.path(), loopback(), books.clone()).await;
    learner.publish(7).await;
    let settings = settings(dir.path(), &learner.host);
    let (stop, running) = start(&settings);
    until(&books, |books| books.accepted.len() >= 10).await;

    // As from a backup: a new epoch, an older version, and nothing known of version 7.
    let listened = learner.die().await;
    {
        let mut books = books.lock();
        books.kept.clear();
        books.epoch = Epoch(1);
        let first = *books.accepted.first_key_value().unwrap().0;
        books.accepted.remove(&first);
        books.forgotten = Some(OrderCounter(first));
    }
    let learner = FakeLearner::start(dir.path(), listened, books.clone()).await;
    learner.publish(3).await;
    let is_back = |books: &Books| {
        books.heartbeat.epoch == Epoch(1) && books.heartbeat.installed == Some(PolicyVersion(3))
    };
    until(&books, is_back).await;
    until(&books, |books| books.accepted.values().any(|version| *version == 3)).await;
    // What was delivered after the backup is done again: else the learner would wait for it
    // until its lease is over.
    until(&books, |books| books.forgotten.is_some_and(|order| books.accepted.contains_key(&order.0))).await;
    // And forward again.
    learner.publish(4).await;
    until(&books, |books| books.accepted.values().any(|version| *version == 4)).await;
    stop.cancel();
    running.await.unwrap();
    learner.die().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_may_hold_many_orders_asks_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let books = Arc::new(Mutex::new(Books::default()));
    let learner = FakeLearner::start(dir.path(), loopback(), books.clone()).await;
    learner.publish(1).await;
    let max_orders = crate::settings::MAX_ORDERS;
    let settings = Settings { max_orders, ..settings(dir.path(), &learner.host) };
    let (stop, running) = start(&settings);
    until(&books, |books| !books.accepted.is_empty()).await;
    let asked = books.lock().leased;
    assert!(asked >= u64::from(max_orders / 2), "{asked} orders");
    stop.cancel();
    running.await.unwrap();
    learner.die().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_gives_its_orders_back() {
    let dir = tempfile::tempdir().unwrap();
    let books = Arc::new(Mutex::new(Books { clock_behind_ms: 660_000, ..Books::default() }));
    let learner = FakeLearner::start(dir.path(), loopback(), books.clone()).await;
    learner.publish(1).await;
    // So many that it cannot have done them all.
    let max_orders = crate::settings::MAX_ORDERS;
    let settings = Settings { max_orders, ..settings(dir.path(), &learner.host) };
    let (stop, running) = start(&settings);
    until(&books, |books| books.accepted.len() >= 4).await;
    stop.cancel();
    let facts = running.await.unwrap().facts;
    assert!(!books.lock().returned.is_empty());
    let ahead = facts.clock_ahead_ms.unwrap();
    assert!((660_000..720_000).contains(&ahead), "clocks that differ stop nothing: {ahead}");
    learner.die().await;
}
