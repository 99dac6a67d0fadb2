use super::*;
use crate::intake::admission::Admitted;
use crate::intake::buffer::{BufferLimits, OrderStatus};
use crate::intake::coordinator::CoordinatorConfig;
use crate::intake::filter::Filter;
use crate::intake::leases::LeaseConfig;
use crate::reputation::RecordConfig;
use crate::storage::MemoryStore;
use echo_protocol::run::charter::RunId;
use echo_protocol::run::staleness::Staleness;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::Lease;
use echo_protocol::work::trajectory::{Omega, Trajectory, TrajectoryGroup, spans};

const GROUPS: usize = 2;

fn run() -> RunId {
    serde_json::from_str(&format!("{:?}", "07".repeat(32))).unwrap()
}

fn node() -> PublicKey {
    PublicKey::from_bytes([2; 32])
}

fn open(
    store: &Arc<MemoryStore>,
    version: u64,
    checkpoint: Option<&CoordinatorState>,
) -> Result<Coordinator, CoordinatorError> {
    let config = CoordinatorConfig {
        leases: LeaseConfig { run: run(), lifetime_ms: 1_000, max_open_per_node: 100 },
        limits: BufferLimits::default(),
        filter: Filter::default(),
        staleness: Staleness::new(3, None).unwrap(),
        groups_per_update: GROUPS,
        record: RecordConfig::default(),
        by_lag: false,
    };
    Coordinator::open(
        store.clone(),
        config,
        UnixMillis(0),
        PolicyVersion(version),
        AdmissionTally::default(),
        checkpoint,
    )
}

fn lease(coordinator: &mut Coordinator, now: u64, orders: u32) -> Vec<Lease> {
    coordinator.lease(UnixMillis(now), node(), Some(PolicyVersion(0)), orders).unwrap()
}

fn counters(leases: &[Lease]) -> Vec<u64> {
    leases.iter().flat_map(Lease::orders).map(|counter| counter.0).collect()
}

/// Takes the group of an order in, as `Coordinator::admit` does with what admission has judged.
fn deliver(coordinator: &mut Coordinator, counter: u64) {
    let trajectory = Trajectory {
        response: vec![1],
        turns: Vec::new(),
        logprobs: vec![-0.1],
        versions: spans([PolicyVersion(0)]),
        reward: 1.0,
        stopped: true,
        omega: Omega::new(),
        raw_logprobs: Vec::new(),
    };
    let group = TrajectoryGroup {
        run: run(),
        lease: LeaseId(0),
        counter: OrderCounter(counter),
        node: node(),
        trajectories: vec![trajectory],
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    coordinator.buffer.stage(Admitted { id: ContentId::of(b""), group, correct: vec![true] }).unwrap();
    coordinator.buffer.flush().unwrap();
    coordinator.book.delivered(OrderCounter(counter));
}

/// A coordinator at version 2 whose orders 0 to 3 are trained on, 4 waits, and 5 is out. With it
/// comes its checkpoint.
fn at_two(store: &Arc<MemoryStore>) -> (Coordinator, CoordinatorState) {
    let mut coordinator = open(store, 0, None).unwrap();
    assert_eq!(counters(&lease(&mut coordinator, 0, 6)), [0, 1, 2, 3]);
    (0..4).for_each(|counter| deliver(&mut coordinator, counter));
    for version in 0..2 {
        coordinator.at(UnixMillis(0), PolicyVersion(version));
        assert!(coordinator.batch(UnixMillis(0), PolicyVersion(version)).unwrap().is_some());
    }
    coordinator.at(UnixMillis(0), PolicyVersion(2));
    assert_eq!(counters(&lease(&mut coordinator, 0, 2)), [4, 5]);
    deliver(&mut coordinator, 4);
    let state = coordinator.state(PolicyVersion(2));
    (coordinator, state)
}

#[test]
fn a_lost_database_is_made_from_the_checkpoint_and_nothing_comes_twice() {
    let (mut coordinator, state) = at_two(&Arc::new(MemoryStore::default()));
    // After the checkpoint, and known to nobody once the database is gone.
    let lost = lease(&mut coordinator, 0, 2);
    assert_eq!(counters(&lost), [6, 7]);
    let text = serde_json::to_string(&state).unwrap();
    let state: CoordinatorState = serde_json::from_str(&text).unwrap();

    let store = Arc::new(MemoryStore::default());
    let mut coordinator = open(&store, 2, Some(&state)).unwrap();
    let totals = coordinator.totals().clone();
    assert!(totals.add_up(), "{totals:?}");
    assert_eq!([totals.acknowledged, totals.trained, totals.waiting].map(|count| count.groups), [5, 4, 0]);
    assert_eq!(totals.dropped.values().map(|count| count.groups).sum::<u64>(), 1, "the one that waited");
    assert_eq!(coordinator.buffer.settled(), PolicyVersion(2));
    assert_eq!(coordinator.state(PolicyVersion(2)).buffer.next_arrival, state.buffer.next_arrival);
    // What was delivered before, trained or not, is not taken again; what is out may still come,
    // under the lease that it has.
    let held = |coordinator: &Coordinator, counter| {
        coordinator.book.check(&node(), lost[0].id, OrderCounter(counter)).is_ok()
    };
    assert_eq!(
        [0, 3, 4, 5, 6].map(|counter| held(&coordinator, counter)),
        [false, false, false, true, false]
    );
    // Fresh orders and lease numbers begin where none were before; the one that is out comes again
    // when its time is over.
    let fresh = lease(&mut coordinator, 0, 1);
    assert_eq!(counters(&fresh), [1 << 32]);
    assert!(fresh[0].id.epoch() > lost[0].id.epoch());
    deliver(&mut coordinator, 5);
    let again = counters(&lease(&mut coordinator, 5_000, 9));
    assert_eq!(again, [1 << 32, (1 << 32) + 1]);

    // From now on the new database is the truth, also against the same checkpoint.
    drop(coordinator);
    store.crash(0);
    let coordinator = open(&store, 2, Some(&state)).unwrap();
    let status = coordinator.buffer.status(OrderCounter(5)).unwrap();
    assert_eq!(status, Some(OrderStatus::Waiting));
    assert_eq!(coordinator.book.cursor(), OrderCounter((1 << 32) + 2));
}

#[test]
fn an_intact_database_is_believed_before_the_checkpoint() {
    let store = Arc::new(MemoryStore::default());
    let (mut coordinator, state) = at_two(&store);
    assert_eq!(counters(&lease(&mut coordinator, 0, 2)), [6, 7]);
    drop(coordinator);
    store.crash(0);
    let mut coordinator = open(&store, 2, Some(&state)).unwrap();
    assert_eq!(coordinator.totals().waiting.groups, 1);
    assert_eq!(coordinator.book.cursor(), OrderCounter(8));
    deliver(&mut coordinator, 6);
}

#[test]
fn a_database_older_than_the_checkpoint_is_refused() {
    let (_, state) = at_two(&Arc::new(MemoryStore::default()));
    let older = Arc::new(MemoryStore::default());
    drop(open(&older, 0, None).unwrap());
    let refused = open(&older, 2, Some(&state));
    assert!(matches!(refused.err(), Some(CoordinatorError::Behind { .. })));
}

#[test]
fn a_database_that_nothing_was_leased_from_is_not_a_lost_one() {
    let store = Arc::new(MemoryStore::default());
    let state = open(&store, 0, None).unwrap().state(PolicyVersion(0));
    store.crash(0);
    let mut coordinator = open(&store, 0, Some(&state)).unwrap();
    assert_eq!(counters(&lease(&mut coordinator, 0, 1)), [0]);
}
