use std::collections::{BTreeMap, BTreeSet};

use echo_protocol::run::charter::RunId;
use echo_protocol::run::staleness::BatchOrder;
use echo_protocol::wire::codec;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::trajectory::{Omega, Trajectory, TrajectoryGroup, spans};

use super::*;
use crate::storage::{MemoryStore, SledStore};

mod full_disk;
mod killed;
mod model;
mod truncated;
mod worker;

const G: usize = 2;

fn run() -> RunId {
    let name = codec::encode(&PublicKey::from_bytes([1; 32]), 64).unwrap();
    codec::decode(&name, 64).unwrap()
}

/// The group of `counter`, with a token of each version.
fn admitted(counter: u64, versions: &[u64]) -> Admitted {
    let trajectory = |i: usize| Trajectory {
        response: vec![counter as u32 % 50, i as u32],
        turns: Vec::new(),
        logprobs: vec![-0.1 * (i + 1) as f32, -0.3],
        versions: spans(versions.iter().copied().map(PolicyVersion)),
        reward: i as f32,
        stopped: true,
        omega: Omega::new(),
        raw_logprobs: Vec::new(),
    };
    let group = TrajectoryGroup {
        run: run(),
        lease: LeaseId(0),
        counter: OrderCounter(counter),
        node: PublicKey::from_bytes([2; 32]),
        trajectories: (0..G).map(trajectory).collect(),
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    Admitted { id: ContentId::of(b""), group, correct: vec![false, true] }
}

fn staleness() -> Staleness {
    Staleness::new(3, None).unwrap()
}

fn memory() -> (Arc<MemoryStore>, ReplayBuffer) {
    let store = Arc::new(MemoryStore::default());
    let buffer = ReplayBuffer::open(store.clone(), BufferLimits::default()).unwrap();
    (store, buffer)
}

fn reopen(store: &Arc<MemoryStore>) -> ReplayBuffer {
    store.crash(0);
    ReplayBuffer::open(store.clone(), BufferLimits::default()).unwrap()
}

fn put(buffer: &mut ReplayBuffer, groups: &[(u64, &[u64])]) {
    groups.iter().for_each(|(counter, versions)| buffer.stage(admitted(*counter, versions)).unwrap());
    buffer.flush().unwrap();
}

fn counters(batch: &[StoredGroup]) -> Vec<u64> {
    batch.iter().map(|group| group.group.counter.0).collect()
}

fn status(buffer: &ReplayBuffer, counter: u64) -> Option<OrderStatus> {
    buffer.status(OrderCounter(counter)).unwrap()
}

fn dropped(reason: DropReason) -> Option<OrderStatus> {
    Some(OrderStatus::Dropped { reason })
}

fn groups(totals: &Totals) -> [u64; 4] {
    [totals.acknowledged, totals.trained, totals.batched, totals.waiting].map(|count| count.groups)
}

#[test]
fn a_group_waits_is_batched_and_is_trained() {
    let (store, mut buffer) = memory();
    buffer.stage(admitted(7, &[0])).unwrap();
    assert_eq!((status(&buffer, 7), groups(buffer.totals())), (Some(OrderStatus::Staged), [0; 4]));
    assert!(matches!(buffer.stage(admitted(7, &[0])), Err(BufferError::Duplicate(OrderCounter(7)))));
    buffer.flush().unwrap();
    assert_eq!((status(&buffer, 7), groups(buffer.totals())), (Some(OrderStatus::Waiting), [1, 0, 0, 1]));
    assert_eq!(buffer.totals().acknowledged.trajectories, G as u64);

    let batch = buffer.form_batch(PolicyVersion(2), &staleness(), 1).unwrap().unwrap();
    let StoredGroup { group, correct, .. } = &batch[0];
    assert_eq!((group, correct), (&admitted(7, &[0]).group, &vec![false, true]));
    let batched = Some(OrderStatus::Batched { update: PolicyVersion(2) });
    assert_eq!((status(&buffer, 7), groups(buffer.totals())), (batched, [1, 0, 1, 0]));

    buffer.settle(PolicyVersion(3)).unwrap();
    let trained = Some(OrderStatus::Trained { update: PolicyVersion(2) });
    assert_eq!((status(&buffer, 7), groups(buffer.totals())), (trained, [1, 1, 0, 0]));
    let buffer = reopen(&store);
    assert_eq!((status(&buffer, 7), groups(buffer.totals())), (trained, [1, 1, 0, 0]));
    assert_eq!(store.get(Tree::Groups, &7u64.to_be_bytes()).unwrap(), None, "its bytes are deleted");
}

#[test]
fn the_oldest_go_first_by_version_then_by_their_numbers() {
    let (_, mut buffer) = memory();
    put(&mut buffer, &[(5, &[2]), (9, &[0, 2]), (1, &[2]), (3, &[0])]);
    assert_eq!(buffer.ready(PolicyVersion(2), &staleness()), 4);
    let batch = buffer.form_batch(PolicyVersion(2), &staleness(), 3).unwrap().unwrap();
    assert_eq!(counters(&batch), [3, 9, 1]);
}

#[test]
fn the_newest_go_first_where_the_policy_says_so() {
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(5, &[2]), (9, &[0, 2]), (1, &[2]), (3, &[0]), (4, &[3])]);
    let newest_first = staleness().with_order(BatchOrder::NewestFirst);
    let batch = buffer.form_batch(PolicyVersion(2), &newest_first, 3).unwrap().unwrap();
    assert_eq!(counters(&batch), [5, 1, 9], "4 is of the future");
    assert_eq!(counters(&reopen(&store).batch(PolicyVersion(2)).unwrap().unwrap()), [5, 1, 9]);
    // What is passed over grows too old.
    let mut buffer = reopen(&store);
    assert_eq!(counters(&buffer.form_batch(PolicyVersion(4), &newest_first, 1).unwrap().unwrap()), [4]);
    assert_eq!(status(&buffer, 3), dropped(DropReason::Stale));
    assert_eq!(buffer.stale().by_length().values().sum::<u64>(), 1);
}

#[test]
fn the_oldest_token_decides_what_is_stale() {
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(0, &[0, 4]), (1, &[2]), (2, &[4])]);
    assert_eq!(buffer.form_batch(PolicyVersion(4), &staleness(), 3).unwrap(), None, "too few");
    // The drop is durable although no batch was formed.
    let mut buffer = reopen(&store);
    assert_eq!(status(&buffer, 0), dropped(DropReason::Stale));
    assert_eq!(groups(buffer.totals()), [3, 0, 0, 2]);
    assert!(buffer.totals().add_up());
    assert_eq!(counters(&buffer.form_batch(PolicyVersion(5), &staleness(), 2).unwrap().unwrap()), [1, 2]);
}

#[test]
fn versions_from_the_future_wait() {
    let (_, mut buffer) = memory();
    put(&mut buffer, &[(0, &[2, 4]), (1, &[2])]);
    assert_eq!(counters(&buffer.form_batch(PolicyVersion(3), &staleness(), 1).unwrap().unwrap()), [1]);
    assert_eq!(buffer.form_batch(PolicyVersion(4), &staleness(), 2).unwrap(), None);
    assert_eq!(counters(&buffer.form_batch(PolicyVersion(4), &staleness(), 1).unwrap().unwrap()), [0]);
}

#[test]
fn a_restarted_learner_gets_the_same_batches_in_the_same_order() {
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(4, &[0]), (2, &[0]), (6, &[0]), (1, &[0]), (8, &[0])]);
    let first = buffer.form_batch(PolicyVersion(0), &staleness(), 2).unwrap().unwrap();
    let second = buffer.form_batch(PolicyVersion(1), &staleness(), 2).unwrap().unwrap();
    let mut buffer = reopen(&store);
    assert_eq!(buffer.newest_batch(), Some(PolicyVersion(1)));
    assert_eq!(buffer.batch(PolicyVersion(0)).unwrap().as_ref(), Some(&first));
    // Asking to form a batch that was formed gives that batch, not another.
    assert_eq!(buffer.form_batch(PolicyVersion(1), &staleness(), 1).unwrap(), Some(second));
    assert_eq!(buffer.batch(PolicyVersion(2)).unwrap(), None);
    assert_eq!(groups(buffer.totals()), [5, 0, 4, 1]);
}

#[test]
fn a_batch_behind_the_journal_is_refused() {
    let (_, mut buffer) = memory();
    put(&mut buffer, &[(0, &[0]), (1, &[0]), (2, &[0])]);
    buffer.form_batch(PolicyVersion(2), &staleness(), 1).unwrap().unwrap();
    let newest = PolicyVersion(2);
    let refused = buffer.form_batch(PolicyVersion(1), &staleness(), 1);
    assert_eq!(refused, Err(BufferError::Passed { asked: PolicyVersion(1), newest }));
    buffer.settle(PolicyVersion(3)).unwrap();
    buffer.settle(PolicyVersion(1)).unwrap();
    assert_eq!(buffer.settled(), PolicyVersion(3), "never goes back");
    let refused = buffer.form_batch(PolicyVersion(2), &staleness(), 1);
    assert_eq!(refused, Err(BufferError::Passed { asked: PolicyVersion(2), newest }));
    assert!(buffer.form_batch(PolicyVersion(3), &staleness(), 1).unwrap().is_some());
    let sizes = [0, MAX_BATCH_GROUPS + 1];
    assert!(sizes.iter().all(|size| {
        buffer.form_batch(PolicyVersion(3), &staleness(), *size) == Err(BufferError::BatchSize(*size))
    }));
}

#[test]
fn the_journal_is_bounded() {
    let (_, mut buffer) = memory();
    let lax = Staleness::new(u64::MAX, Some(1)).unwrap();
    for update in 0..=MAX_JOURNALED_BATCHES as u64 {
        put(&mut buffer, &[(update, &[0])]);
        let formed = buffer.form_batch(PolicyVersion(update), &lax, 1);
        let full = update == MAX_JOURNALED_BATCHES as u64;
        assert_eq!(formed.is_err(), full);
        assert!(!full || formed == Err(BufferError::JournalFull));
    }
}

#[test]
fn overflow_drops_the_oldest_and_keeps_the_account() {
    let store = Arc::new(MemoryStore::default());
    let limits = BufferLimits { max_groups: 3, ..BufferLimits::default() };
    let mut buffer = ReplayBuffer::open(store.clone(), limits).unwrap();
    put(&mut buffer, &[(0, &[2]), (1, &[0]), (2, &[2])]);
    put(&mut buffer, &[(3, &[2]), (4, &[0])]);
    assert_eq!(
        (status(&buffer, 1), status(&buffer, 4)),
        (dropped(DropReason::Overflow), dropped(DropReason::Overflow))
    );
    assert_eq!(groups(buffer.totals()), [5, 0, 0, 3]);
    assert!(buffer.totals().add_up());

    let one = buffer.waiting_bytes() / 3;
    let limits = BufferLimits { max_bytes: one + one / 2, ..limits };
    let mut buffer = ReplayBuffer::open(store, limits).unwrap();
    put(&mut buffer, &[(5, &[2])]);
    assert_eq!((status(&buffer, 5), groups(buffer.totals())), (Some(OrderStatus::Waiting), [6, 0, 0, 1]));
}

#[test]
fn what_the_filter_drops_never_waits_and_is_on_record() {
    let (store, buffer) = memory();
    let mut buffer = buffer.with_filter(Filter { no_signal: true, ..Filter::default() });
    let mut same = admitted(1, &[0]);
    same.group.trajectories.iter_mut().for_each(|trajectory| trajectory.reward = 0.0);
    buffer.stage(admitted(0, &[0])).unwrap();
    buffer.stage(same.clone()).unwrap();
    assert_eq!(status(&buffer, 1), Some(OrderStatus::Staged), "acknowledged like any other");
    store.fail_after(Some(0));
    assert!(buffer.flush().is_err());
    store.fail_after(None);
    buffer.flush().unwrap();
    assert_eq!((buffer.ready(PolicyVersion(0), &staleness()), groups(buffer.totals())), (1, [2, 0, 0, 1]));
    let mut buffer = reopen(&store);
    assert_eq!(status(&buffer, 1), dropped(DropReason::NoSignal));
    assert!(matches!(buffer.stage(same), Err(BufferError::Duplicate(OrderCounter(1)))));
    assert_eq!(store.get(Tree::Groups, &1u64.to_be_bytes()).unwrap(), None, "its bytes were never kept");
    assert_eq!(buffer.totals().dropped[&DropReason::NoSignal], Count { groups: 1, trajectories: G as u64 });
    assert!(buffer.totals().add_up());
    assert_eq!(counters(&buffer.form_batch(PolicyVersion(0), &staleness(), 1).unwrap().unwrap()), [0]);
}

#[test]
fn staging_is_bounded() {
    let (_, mut buffer) = memory();
    for counter in 0..MAX_STAGED_GROUPS as u64 {
        buffer.stage(admitted(counter, &[0])).unwrap();
    }
    let next = admitted(MAX_STAGED_GROUPS as u64, &[0]);
    assert!(matches!(buffer.stage(next.clone()), Err(BufferError::StagingFull { .. })));
    buffer.flush().unwrap();
    buffer.stage(next).unwrap();
    let empty = Admitted {
        id: ContentId::of(b""),
        group: TrajectoryGroup { trajectories: vec![], ..admitted(9_999, &[0]).group },
        correct: vec![],
    };
    assert_eq!(buffer.stage(empty), Err(BufferError::Empty(OrderCounter(9_999))));
}

#[test]
fn what_is_left_at_the_end_is_dropped_with_that_reason() {
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(0, &[0]), (1, &[0])]);
    buffer.form_batch(PolicyVersion(0), &staleness(), 1).unwrap().unwrap();
    buffer.stage(admitted(2, &[0])).unwrap();
    buffer.drop_waiting(DropReason::RunEnded).unwrap();
    buffer.settle(PolicyVersion(1)).unwrap();
    let totals = reopen(&store).totals().clone();
    assert_eq!((groups(&totals), totals.dropped[&DropReason::RunEnded].groups), ([3, 1, 0, 0], 2));
    assert!(totals.add_up());
}

#[test]
fn a_failed_flush_acknowledges_nothing_and_loses_nothing() {
    let (store, mut buffer) = memory();
    for healthy in [0, 1] {
        let counter = 10 + healthy;
        buffer.stage(admitted(counter, &[0])).unwrap();
        store.fail_after(Some(healthy));
        assert!(matches!(buffer.flush(), Err(BufferError::Store(ObjectStoreError::Full { .. }))));
        assert_eq!(
            status(&buffer, counter),
            Some(OrderStatus::Staged),
            "not durable, whether written or not"
        );
        assert!(matches!(buffer.stage(admitted(counter, &[0])), Err(BufferError::Duplicate(_))));
        store.fail_after(None);
        buffer.flush().unwrap();
        assert_eq!(status(&buffer, counter), Some(OrderStatus::Waiting));
    }
    // The batch is written, but the disk fails before it is durable: asked again, it is the same one.
    store.fail_after(Some(1));
    assert!(buffer.form_batch(PolicyVersion(0), &staleness(), 2).is_err());
    assert!(buffer.batch(PolicyVersion(0)).is_err(), "no batch is returned that a crash could undo");
    store.fail_after(None);
    let batch = buffer.form_batch(PolicyVersion(0), &staleness(), 2).unwrap().unwrap();
    assert_eq!(reopen(&store).batch(PolicyVersion(0)).unwrap(), Some(batch));
}

#[test]
fn while_the_disk_is_waited_for_the_buffer_goes_on_and_acknowledges_nothing() {
    let (store, mut buffer) = memory();
    buffer.stage(admitted(0, &[0])).unwrap();
    let first = buffer.write_staged().unwrap();
    buffer.stage(admitted(1, &[0])).unwrap();
    assert_eq!(
        (status(&buffer, 0), status(&buffer, 1)),
        (Some(OrderStatus::Staged), Some(OrderStatus::Staged))
    );
    let first = first.flush().unwrap();
    let second = buffer.write_staged().unwrap();
    buffer.flushed(first);
    assert_eq!(
        (status(&buffer, 0), status(&buffer, 1)),
        (Some(OrderStatus::Waiting), Some(OrderStatus::Staged))
    );
    // A batch takes no group that a crash could undo: it waits for the disk itself.
    store.fail_after(Some(0));
    assert!(buffer.form_batch(PolicyVersion(0), &staleness(), 2).is_err());
    store.fail_after(None);
    let batch = buffer.form_batch(PolicyVersion(0), &staleness(), 2).unwrap().unwrap();
    let second = second.flush().unwrap();
    buffer.flushed(second);
    assert_eq!(reopen(&store).batch(PolicyVersion(0)).unwrap(), Some(batch));
}

#[test]
fn a_store_behind_its_checkpoint_gives_nothing_to_train_on() {
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(0, &[0]), (1, &[0]), (2, &[0]), (3, &[0])]);
    buffer.form_batch(PolicyVersion(0), &staleness(), 1).unwrap().unwrap();
    assert!(!buffer.reconcile(PolicyVersion(1), 4).unwrap(), "as it should be");
    // Batch 1 was journalled, trained and checkpointed; then the file lost its end, and order 4 with it.
    let mut buffer = reopen(&store);
    assert!(buffer.reconcile(PolicyVersion(2), 5).unwrap());
    assert_eq!(groups(buffer.totals()), [5, 1, 0, 0]);
    assert_eq!(
        buffer.totals().dropped[&DropReason::Damaged],
        Count { groups: 4, trajectories: 4 * G as u64 }
    );
    assert!(buffer.totals().add_up());
    let mut buffer = reopen(&store);
    assert!(!buffer.reconcile(PolicyVersion(2), 5).unwrap(), "booked once");
    assert_eq!((groups(buffer.totals()), buffer.settled()), ([5, 1, 0, 0], PolicyVersion(2)));
}

#[test]
fn damaged_bytes_are_dropped_with_that_reason() {
    let flip = |bytes: &mut Vec<u8>| bytes[20] ^= 1;
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(0, &[0]), (1, &[0]), (2, &[0]), (3, &[0]), (4, &[0])]);
    assert!(store.damage(Tree::Groups, &0u64.to_be_bytes(), |bytes| bytes.truncate(3)));
    assert_eq!(counters(&buffer.form_batch(PolicyVersion(0), &staleness(), 2).unwrap().unwrap()), [1, 2]);
    assert_eq!(status(&buffer, 0), dropped(DropReason::Damaged));
    assert!(store.damage(Tree::Groups, &1u64.to_be_bytes(), flip));
    assert!(store.damage(Tree::Waiting, &3u64.to_be_bytes(), flip));
    let mut buffer = reopen(&store);
    assert_eq!(counters(&buffer.batch(PolicyVersion(0)).unwrap().unwrap()), [2]);
    let mut buffer = reopen(&store);
    assert_eq!(counters(&buffer.batch(PolicyVersion(0)).unwrap().unwrap()), [2]);
    for counter in [1, 3] {
        assert_eq!(status(&buffer, counter), dropped(DropReason::Damaged));
    }
    assert_eq!(groups(buffer.totals()), [5, 0, 1, 1]);
    assert_eq!(
        buffer.totals().dropped[&DropReason::Damaged],
        Count { groups: 3, trajectories: 3 * G as u64 }
    );
    assert!(buffer.totals().add_up());
}

#[test]
fn a_damaged_batch_is_never_trained_on_by_another_name() {
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(0, &[0]), (1, &[0]), (2, &[0])]);
    buffer.form_batch(PolicyVersion(0), &staleness(), 2).unwrap().unwrap();
    assert!(store.damage(Tree::Journal, &0u64.to_be_bytes(), |bytes| bytes.clear()));
    let mut buffer = reopen(&store);
    assert_eq!(buffer.batch(PolicyVersion(0)).unwrap(), None);
    assert_eq!(
        (status(&buffer, 0), status(&buffer, 1)),
        (dropped(DropReason::Damaged), dropped(DropReason::Damaged))
    );
    assert_eq!((status(&buffer, 2), groups(buffer.totals())), (Some(OrderStatus::Waiting), [3, 0, 0, 1]));
    assert!(buffer.totals().add_up());
}

#[test]
fn a_damaged_head_is_counted_anew() {
    let (store, mut buffer) = memory();
    put(&mut buffer, &[(0, &[0]), (1, &[0]), (2, &[2]), (3, &[2])]);
    buffer.form_batch(PolicyVersion(0), &staleness(), 1).unwrap().unwrap();
    buffer.form_batch(PolicyVersion(4), &staleness(), 1).unwrap().unwrap();
    buffer.settle(PolicyVersion(4)).unwrap();
    let before = buffer.totals().clone();
    assert_eq!(groups(&before), [4, 1, 1, 1]);
    assert!(store.damage(Tree::BufferHead, b"head", |bytes| bytes.truncate(5)));
    let buffer = reopen(&store);
    assert_eq!((buffer.totals(), buffer.settled()), (&before, PolicyVersion(1)));
    // And what was recounted is durable.
    store.crash(0);
    assert_eq!(reopen(&store).totals(), &before);
}

#[test]
fn what_became_of_settled_orders_is_forgotten_and_counts_for_ever() {
    let store = Arc::new(MemoryStore::default());
    let limits = BufferLimits { kept_orders: 1, ..BufferLimits::default() };
    let mut buffer = ReplayBuffer::open(store.clone(), limits).unwrap();
    let records = || {
        let mut records = Vec::new();
        let number = |key: &[u8]| u64::from_be_bytes(key.try_into().unwrap());
        store.visit(Tree::Final, &mut |key, _| records.push(number(key))).unwrap();
        records
    };
    put(&mut buffer, &[(0, &[0]), (1, &[0]), (2, &[0]), (5, &[0]), (1 << 40, &[3])]);
    buffer.form_batch(PolicyVersion(0), &staleness(), 2).unwrap().unwrap();
    buffer.form_batch(PolicyVersion(4), &staleness(), 1).unwrap().unwrap();
    buffer.settle(PolicyVersion(1)).unwrap();
    let totals = buffer.totals().clone();
    assert_eq!((records(), groups(&totals)), (vec![0, 1, 2, 5], [5, 2, 1, 0]), "two were stale");

    buffer.forget(OrderCounter(1)).unwrap();
    assert_eq!(records(), [0, 1, 2, 5], "the last is kept");
    buffer.forget(OrderCounter(2)).unwrap();
    assert_eq!((records(), status(&buffer, 0)), (vec![1, 2, 5], None));
    // Not beyond what still waits, or is to be trained on; however wide the gap before it.
    buffer.forget(OrderCounter(u64::MAX)).unwrap();
    assert!(records().is_empty());
    put(&mut buffer, &[(9, &[4])]);
    let buffer = reopen(&store);
    assert_eq!(groups(buffer.totals()), [6, 2, 1, 1]);

    // Where the sums are damaged, they are made again from all that ended.
    assert!(store.damage(Tree::BufferHead, b"head", |bytes| bytes[0] ^= 1));
    let buffer = reopen(&store);
    assert_eq!(groups(buffer.totals()), [6, 2, 1, 1]);
    assert_eq!((buffer.totals().dropped.clone(), buffer.settled()), (totals.dropped, PolicyVersion(1)));
}
