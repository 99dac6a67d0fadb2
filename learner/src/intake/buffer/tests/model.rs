//! Random operations with crashes, checked against what an outside observer remembers.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    /// `count` groups arrive, generated `lag` updates ago, under one version or two.
    Arrive {
        count: usize,
        lag: u64,
        mixed: bool,
    },
    Flush,
    /// The learner trains the next update, if enough groups wait.
    Train {
        groups: usize,
    },
    /// A checkpoint of the present becomes durable.
    Checkpoint,
    /// The next disk operations but `healthy` fail.
    Fail {
        healthy: u64,
    },
    /// `kill -9`: the learner starts again at its last checkpoint.
    Crash {
        survivors: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (1..6usize, 0..6u64, any::<bool>()).prop_map(|(count, lag, mixed)| Op::Arrive { count, lag, mixed }),
        3 => Just(Op::Flush),
        5 => (1..4usize).prop_map(|groups| Op::Train { groups }),
        1 => Just(Op::Checkpoint),
        1 => (0..3u64).prop_map(|healthy| Op::Fail { healthy }),
        1 => (0..4usize).prop_map(|survivors| Op::Crash { survivors }),
    ]
}

/// Every fourth group has nothing to teach.
fn sent(counter: u64, versions: &[u64]) -> Admitted {
    let mut sent = admitted(counter, versions);
    if without_signal(counter) {
        sent.group.trajectories.iter_mut().for_each(|trajectory| trajectory.reward = 0.5);
    }
    sent
}

fn without_signal(counter: u64) -> bool {
    counter % 4 == 3
}

fn filter() -> Filter {
    Filter { no_signal: true, ..Filter::default() }
}

/// What an observer outside of the learner knows.
#[derive(Default)]
struct Observer {
    version: u64,
    checkpoint: u64,
    next_counter: u64,
    /// Sent, and neither acknowledged nor known to be lost.
    pending: Vec<Admitted>,
    acknowledged: BTreeSet<u64>,
    /// The batches that the trainer was given, by update; those from `version` on may be given
    /// again after a crash.
    trained: BTreeMap<u64, Vec<StoredGroup>>,
}

impl Observer {
    fn train(&mut self, buffer: &mut ReplayBuffer, groups: usize) {
        let version = PolicyVersion(self.version);
        let Ok(Some(batch)) = buffer.form_batch(version, &staleness(), groups) else { return };
        // Whatever came back must stand for ever: a batch given before is given again, bit for bit.
        let before = self.trained.insert(self.version, batch.clone());
        assert!(before.is_none_or(|before| before == batch), "replay differs");
        for group in &batch {
            let oldest = group.group.oldest_version().unwrap();
            let newest = group.group.newest_version().unwrap();
            assert!(
                staleness().admits(oldest, version) && newest <= version,
                "staleness broken at {version}"
            );
        }
        self.version += 1;
    }

    fn flush(&mut self, buffer: &mut ReplayBuffer) {
        if buffer.flush().is_ok() {
            self.acknowledged.extend(self.pending.drain(..).map(|group| group.group.counter.0));
        }
    }

    fn check(&self, buffer: &ReplayBuffer) {
        assert!(buffer.totals().add_up(), "{:?}", buffer.totals());
        let mut seen = BTreeSet::new();
        for (update, batch) in &self.trained {
            for counter in counters(batch) {
                assert!(seen.insert(counter), "order {counter} was trained on twice");
                let update = PolicyVersion(*update);
                let settled = update < buffer.settled();
                let expected =
                    if settled { OrderStatus::Trained { update } } else { OrderStatus::Batched { update } };
                assert_eq!(status(buffer, counter), Some(expected));
            }
        }
        let mut by_status: BTreeMap<&str, u64> = BTreeMap::new();
        for counter in 0..self.next_counter {
            let name = match status(buffer, counter) {
                None | Some(OrderStatus::Staged) => {
                    assert!(!self.acknowledged.contains(&counter), "acknowledged order {counter} is lost");
                    continue;
                }
                Some(OrderStatus::Waiting) => {
                    assert!(!without_signal(counter));
                    "waiting"
                }
                Some(OrderStatus::Batched { .. }) => "batched",
                Some(OrderStatus::Trained { .. }) => "trained",
                Some(OrderStatus::Dropped { reason }) => {
                    assert!(matches!(
                        reason,
                        DropReason::Stale | DropReason::Overflow | DropReason::NoSignal
                    ));
                    assert_eq!(reason == DropReason::NoSignal, without_signal(counter));
                    "dropped"
                }
            };
            *by_status.entry(name).or_default() += 1;
        }
        if buffer.undurable.is_empty() {
            let totals = buffer.totals();
            let dropped = totals.dropped.values().map(|count| count.groups).sum();
            let booked = [("waiting", totals.waiting.groups), ("batched", totals.batched.groups)];
            for (name, groups) in
                booked.into_iter().chain([("trained", totals.trained.groups), ("dropped", dropped)])
            {
                assert_eq!(by_status.get(name).copied().unwrap_or(0), groups, "{name}");
            }
        }
    }
}

/// Plays `ops`; `crash` opens the store again after the process has died.
fn play(ops: &[Op], store: &MemoryStore, mut crash: impl FnMut(Option<ReplayBuffer>, usize) -> ReplayBuffer) {
    let mut observer = Observer::default();
    let mut buffer = crash(None, 0);
    for op in ops {
        match op {
            Op::Arrive { count, lag, mixed } => {
                for _ in 0..*count {
                    let oldest = observer.version.saturating_sub(*lag);
                    let versions = if *mixed { vec![oldest, observer.version + 1] } else { vec![oldest] };
                    let group = sent(observer.next_counter, &versions);
                    observer.next_counter += 1;
                    buffer.stage(group.clone()).unwrap();
                    observer.pending.push(group);
                }
            }
            Op::Flush => observer.flush(&mut buffer),
            Op::Train { groups } => observer.train(&mut buffer, *groups),
            Op::Checkpoint => {
                observer.checkpoint = observer.version;
                // Settling may fail; the checkpoint is durable all the same.
                let _ = buffer.settle(PolicyVersion(observer.checkpoint));
            }
            Op::Fail { healthy } => store.fail_after(Some(*healthy)),
            Op::Crash { survivors } => {
                buffer = crash(Some(buffer), *survivors);
                observer.version = observer.checkpoint;
                // Nodes send again what was not acknowledged; what is durable already is a duplicate.
                for group in observer.pending.clone() {
                    assert!(matches!(buffer.stage(group), Ok(()) | Err(BufferError::Duplicate(_))));
                }
                // The learner replays the journal before it forms anything new.
                while let Some(batch) = buffer.batch(PolicyVersion(observer.version)).unwrap() {
                    let given = observer.trained.insert(observer.version, batch.clone());
                    assert!(given.is_none_or(|given| given == batch), "replay differs");
                    observer.version += 1;
                }
                assert!(observer.trained.range(observer.version..).next().is_none(), "a batch vanished");
                buffer.settle(PolicyVersion(observer.checkpoint)).unwrap();
            }
        }
        observer.check(&buffer);
    }
    store.fail_after(None);
    observer.flush(&mut buffer);
    observer.check(&buffer);
    assert_eq!(observer.acknowledged.len() as u64, observer.next_counter);
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn limits() -> BufferLimits {
    BufferLimits { max_groups: 12, ..BufferLimits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn acknowledged_groups_are_trained_once_or_dropped_through_any_crash(
        ops in proptest::collection::vec(op(), 1..50)
    ) {
        let store = Arc::new(MemoryStore::default());
        play(&ops, &store, |dead, survivors| {
            drop(dead);
            store.crash(survivors);
            ReplayBuffer::open(store.clone(), limits()).unwrap().with_filter(filter())
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn the_same_holds_on_disk(ops in proptest::collection::vec(op(), 1..40)) {
        // The disk does not fail here, but the process is killed at any moment: the files are taken
        // as they are, while the store is open and has writes that were not flushed.
        let mut dir = tempfile::tempdir().unwrap();
        play(&ops, &MemoryStore::default(), |dead, _| {
            let copy = tempfile::tempdir().unwrap();
            copy_files(dir.path(), copy.path());
            drop(dead);
            dir = copy;
            let store = SledStore::open_without_background(dir.path()).unwrap();
            ReplayBuffer::open(Arc::new(store), limits()).unwrap().with_filter(filter())
        });
    }
}
