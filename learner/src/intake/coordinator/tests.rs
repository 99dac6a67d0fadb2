use super::*;
use crate::common::testing::workload;
use crate::intake::admission::Refusal;
use crate::reputation::{Decision, Subject};
use crate::storage::{MemoryStore, Tree};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::work::lease::Lease;
use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::{Omega, Trajectory, spans};

/// B, in groups: small, so that tests fill a batch.
const BATCH: usize = 4;

/// A coordinator, and one node that does whatever it is asked to.
struct World {
    coordinator: Coordinator,
    admission: Admission,
    node: PublicKey,
    run: echo_protocol::run::charter::RunId,
    /// Of the responses of each group.
    rewards: Vec<f32>,
    store: Arc<MemoryStore>,
    config: CoordinatorConfig,
}

impl World {
    fn new(staleness: Staleness) -> Self {
        Self::with_filter(staleness, Filter::default())
    }

    fn with_filter(staleness: Staleness, filter: Filter) -> Self {
        let (mut workload, _) = workload();
        workload.charter.staleness = staleness;
        let (run, charter) = (workload.run, workload.charter.clone());
        let leases = LeaseConfig { run, lifetime_ms: 1 << 40, max_open_per_node: 1000 };
        let config = CoordinatorConfig {
            leases,
            limits: BufferLimits::default(),
            filter,
            staleness,
            groups_per_update: BATCH,
            record: RecordConfig::default(),
            by_lag: false,
        };
        let store = Arc::new(MemoryStore::default());
        let coordinator = Coordinator::open(
            store.clone(),
            config,
            UnixMillis(0),
            PolicyVersion(0),
            AdmissionTally::default(),
            None,
        )
        .unwrap();
        let admission = Admission::new(run, &charter, workload.mix.clone(), Arc::new(workload));
        Self {
            coordinator,
            admission,
            node: PublicKey::from_bytes([7; 32]),
            run,
            rewards: vec![0.0],
            store,
            config,
        }
    }

    /// As after a kill, with what was on record then.
    fn reopen(&mut self, tally: AdmissionTally) {
        let store = self.store.clone();
        self.coordinator =
            Coordinator::open(store, self.config, UnixMillis(0), PolicyVersion(0), tally, None).unwrap();
    }

    /// Asks for as much work as there is under `version`.
    fn lease(&mut self, version: u64) -> Vec<Lease> {
        self.coordinator.lease(UnixMillis(0), self.node, Some(PolicyVersion(version)), 1000).unwrap()
    }

    /// Delivers `count` orders of the leases, all generated under `version`, and says
    /// what the learner answers.
    fn deliver(&mut self, leases: &mut Vec<Lease>, count: usize, version: u64) -> Vec<Outcome> {
        let (run, node, rewards) = (self.run, self.node, self.rewards.clone());
        let orders = leases.iter().flat_map(|lease| lease.orders().map(|counter| (lease.id, counter)));
        let group = |(lease, counter)| {
            let trajectory = |reward: &f32| Trajectory {
                response: vec![1],
                turns: Vec::new(),
                logprobs: vec![-0.5],
                versions: spans([PolicyVersion(version)]),
                reward: *reward,
                stopped: true,
                omega: Omega::new(),
                raw_logprobs: Vec::new(),
            };
            let trajectories = rewards.iter().map(trajectory).collect();
            let group = TrajectoryGroup {
                run,
                lease,
                counter,
                node,
                trajectories,
                precision: Default::default(),
                caches: Default::default(),
                recomputed: Vec::new(),
            };
            let id = ContentId::of(&group.counter.0.to_le_bytes());
            Admitted { id, group, correct: rewards.iter().map(|reward| *reward == 1.0).collect() }
        };
        let groups: Vec<Admitted> = orders.take(count).map(group).collect();
        assert_eq!(groups.len(), count, "too little was leased");
        for group in &groups {
            let lease = leases.iter_mut().find(|lease| lease.id == group.group.lease).unwrap();
            (lease.first.0, lease.count) = (lease.first.0 + 1, lease.count - 1);
        }
        leases.retain(|lease| lease.count > 0);
        self.replies(groups).into_iter().map(|reply| reply.answer.outcome).collect()
    }

    fn replies(&mut self, groups: Vec<Admitted>) -> Vec<UnsignedReply> {
        let (replies, written) = self.coordinator.admit(UnixMillis(0), &self.admission, groups);
        let flushed = written.and_then(Unflushed::flush);
        self.coordinator.acknowledge(replies, flushed)
    }

    fn batch(&mut self, version: u64) -> Option<usize> {
        self.coordinator.batch(UnixMillis(0), PolicyVersion(version)).unwrap().map(|batch| batch.len())
    }

    /// The update was made and published.
    fn at(&mut self, version: u64) {
        self.coordinator.at(UnixMillis(0), PolicyVersion(version));
        self.coordinator.published(PolicyVersion(version));
    }
}

fn orders(leases: &[Lease]) -> usize {
    leases.iter().map(|lease| lease.count as usize).sum()
}

#[test]
fn on_policy_each_waits_for_the_other() {
    let mut world = World::new(Staleness::on_policy());
    for version in 0..5 {
        let mut leases = world.lease(version);
        assert_eq!((orders(&leases), orders(&world.lease(version))), (BATCH, 0), "one batch and no more");
        assert_eq!(world.batch(version), None, "the learner waits");
        assert_eq!(world.deliver(&mut leases, BATCH, version), vec![Outcome::Accepted; BATCH]);
        assert_eq!(world.batch(version), Some(BATCH));
        assert_eq!(orders(&world.lease(version)), 0, "nodes wait for the next policy");
        world.at(version + 1);
        assert_eq!(orders(&world.lease(version)), 0, "a node that has not installed it gets nothing");
    }
}

#[test]
fn by_lag_what_comes_too_late_goes_to_another_node_and_nobody_is_blamed() {
    let mut world = World::new(Staleness::new(3, Some(1)).unwrap());
    world.config.by_lag = true;
    world.reopen(AdmissionTally::default());
    let (slow, fast) = (PublicKey::from_bytes([8; 32]), world.node);
    world.at(0);
    let lease = |world: &mut World, node, version| {
        world.coordinator.lease(UnixMillis(0), node, Some(PolicyVersion(version)), 1000).unwrap()
    };
    let mut late = lease(&mut world, slow, 0);
    assert_eq!(orders(&late), 2, "its pace is not known");
    assert_eq!(orders(&lease(&mut world, slow, 0)), 0);
    // The other one makes all batches that these orders could have been in.
    for version in 0..4 {
        world.at(version);
        while world.batch(version).is_none() {
            let mut leases = lease(&mut world, fast, version);
            let count = orders(&leases);
            assert!(count > 0, "the run stands still at {version}");
            world.deliver(&mut leases, count, version);
        }
    }
    assert_eq!(world.coordinator.work_ahead().unwrap().again.late, 2);
    world.at(4);
    // They come before any fresh order.
    let again = lease(&mut world, fast, 4);
    assert_eq!((again[0].first, again[0].node), (late[0].first, fast));
    world.node = slow;
    let outcome = world.deliver(&mut late, 1, 0);
    assert!(matches!(outcome[0], Outcome::Refused { reason: RefuseReason::Stale, .. }), "{outcome:?}");
    assert_eq!(world.coordinator.record().peers().get(&slow).map_or(0, |peer| peer.lies), 0);
    // Nor does it wait for further orders if it has a record, as those do whose own come to nothing.
    world.coordinator.decide(UnixMillis(0), Subject::Peer(slow), &Decision::Pardon, 1);
    let pause_of = |world: &mut World, node: PublicKey| {
        for _ in 0..10 {
            let stale = Refusal::new(RefuseReason::Stale, "too old".into()).of(again[0].first);
            world.coordinator.refuse(UnixMillis(0), &node, stale);
        }
        world.coordinator.pause_ms(UnixMillis(0), &node)
    };
    assert_eq!(pause_of(&mut world, slow), 0);
    assert!(pause_of(&mut world, fast) > 0);
}

#[test]
fn free_keys_that_hold_all_orders_keep_nobody_with_a_record_from_work() {
    for by_lag in [false, true] {
        let mut world = World::new(Staleness::new(3, Some(1)).unwrap());
        world.config.by_lag = by_lag;
        world.reopen(AdmissionTally::default());
        world.at(0);
        let known = world.node;
        world.coordinator.book.is_known_now(&known);
        for key in 20..60 {
            let free = PublicKey::from_bytes([key; 32]);
            world.coordinator.lease(UnixMillis(0), free, Some(PolicyVersion(0)), 1000).unwrap();
        }
        assert!(world.coordinator.book.outstanding() >= 3 * BATCH as u64, "all that may run ahead");
        while world.batch(0).is_none() {
            let mut leases = world.lease(0);
            let count = orders(&leases);
            assert!(count > 0, "it gets nothing, by lag: {by_lag}");
            world.deliver(&mut leases, count, 0);
        }
    }
}

#[test]
fn free_keys_make_no_backups_where_others_have_a_record() {
    let mut world = World::new(Staleness::new(3, Some(1)).unwrap());
    world.config.by_lag = true;
    world.reopen(AdmissionTally::default());
    world.at(0);
    let [slow, filler, hasty] = [8, 9, 10].map(|key| PublicKey::from_bytes([key; 32]));
    let backups = |world: &World| world.coordinator.work_ahead().unwrap().again.backups;
    let ask = |world: &mut World, node| {
        world.node = node;
        world.lease(0)
    };
    // A batch waits for two of four groups, and the pace of two nodes is known.
    assert_eq!(orders(&ask(&mut world, slow)), 2);
    for node in [filler, hasty] {
        let mut leases = ask(&mut world, node);
        world.deliver(&mut leases, 1, 0);
    }
    assert_eq!(world.batch(0), None);
    assert!(orders(&ask(&mut world, filler)) > 0, "all that may run ahead");
    world.coordinator.book.is_known_now(&slow);
    assert_eq!((orders(&ask(&mut world, hasty)), backups(&world)), (0, 0));
    [filler, hasty].iter().for_each(|node| world.coordinator.book.is_known_now(node));
    assert_eq!((orders(&ask(&mut world, hasty)), backups(&world)), (1, 1));
}

#[test]
fn a_run_has_begun_when_an_order_has_left_it() {
    let mut world = World::new(Staleness::one_step());
    assert!(!world.coordinator.has_begun());
    world.lease(0);
    world.reopen(AdmissionTally::default());
    assert!(world.coordinator.has_begun(), "also by what is on the disk");
}

#[test]
fn with_one_step_a_batch_is_generated_while_another_is_trained_on() {
    let mut world = World::new(Staleness::one_step());
    let mut leases = world.lease(0);
    assert_eq!(orders(&leases), 2 * BATCH);
    for version in 0..5u64 {
        let generated_under = version.saturating_sub(1);
        world
            .deliver(&mut leases, BATCH, generated_under)
            .iter()
            .for_each(|o| assert_eq!(*o, Outcome::Accepted));
        assert_eq!(world.batch(version), Some(BATCH));
        assert_eq!(
            (orders(&leases), orders(&world.lease(version))),
            (BATCH, 0),
            "the next batch is under way"
        );
        world.at(version + 1);
        leases.extend(world.lease(version + 1));
        assert_eq!(orders(&leases), 2 * BATCH);
    }
    let late = world.deliver(&mut leases, 1, 3);
    assert!(matches!(late[0], Outcome::Refused { reason: RefuseReason::Stale, .. }), "{late:?}");
}

#[test]
fn without_a_bound_nothing_is_too_old_and_the_buffer_is_the_limit() {
    let mut world = World::new(Staleness::unbounded(1).unwrap());
    let mut leases = world.lease(0);
    assert_eq!(orders(&leases), 1000, "what a node may hold");
    for version in 0..50 {
        world.deliver(&mut leases, BATCH, 0).iter().for_each(|o| assert_eq!(*o, Outcome::Accepted));
        assert_eq!(world.batch(version), Some(BATCH));
        world.at(version + 1);
    }
}

#[test]
fn a_filter_that_drops_everything_leaves_room_for_more_work() {
    let filter = Filter { no_signal: true, ..Filter::default() };
    let mut world = World::with_filter(Staleness::new(3, None).unwrap(), filter);
    world.at(0);
    world.rewards = vec![0.0; 2];
    let mut delivered = 0;
    for round in 0..20 {
        let mut leases = world.lease(0);
        assert_eq!(orders(&leases), 2 * BATCH, "round {round}: (η + 1) × B orders are out at once");
        assert_eq!(orders(&world.lease(0)), 0, "and not one more");
        delivered += 2 * BATCH as u64;
        let answers = world.deliver(&mut leases, 2 * BATCH, 0);
        assert_eq!(answers, vec![Outcome::Accepted; 2 * BATCH]);
        assert_eq!(world.batch(0), None);
    }
    assert_eq!(
        (world.coordinator.filtered(), world.coordinator.totals().acknowledged.groups),
        (delivered, delivered)
    );
    assert!(world.coordinator.totals().add_up());
    // The first groups that pass make a batch.
    world.rewards = vec![0.0, 1.0];
    let mut leases = world.lease(0);
    world.deliver(&mut leases, BATCH, 0);
    assert_eq!(world.batch(0), Some(BATCH));
}

#[test]
fn what_was_accepted_after_the_last_row_counts_after_a_kill() {
    let mut world = World::new(Staleness::new(3, None).unwrap());
    world.at(0);
    let mut leases = world.lease(0);
    world.deliver(&mut leases, 3, 0);
    let refused = [(RefuseReason::Stale, 5)].into();
    world.reopen(AdmissionTally { accepted: 1, refused, ..AdmissionTally::default() });
    assert_eq!((world.coordinator.tally().accepted, world.coordinator.tally().refused_in_all()), (3, 5));
    world.deliver(&mut leases, 1, 0);
    assert_eq!((world.coordinator.tally().accepted, world.coordinator.totals().acknowledged.groups), (4, 4));
}

#[test]
fn versions_from_before_a_lost_database_are_waited_for_after_a_further_restart_too() {
    let mut world = World::new(Staleness::new(3, None).unwrap());
    // The first process after the loss knows that it forgot something.
    let checkpoint = world.coordinator.state(PolicyVersion(0));
    world.store = Arc::new(MemoryStore::default());
    let (store, zero) = (world.store.clone(), PolicyVersion(0));
    world.coordinator = Coordinator::open(
        store,
        world.config,
        UnixMillis(0),
        zero,
        AdmissionTally::default(),
        Some(&checkpoint),
    )
    .unwrap();
    let lease = world.lease(0).remove(0);
    let trajectory = Trajectory {
        response: vec![1],
        turns: Vec::new(),
        logprobs: vec![-0.5],
        versions: spans([PolicyVersion(4)]),
        reward: 0.0,
        stopped: true,
        omega: Omega::new(),
        raw_logprobs: Vec::new(),
    };
    let (run, node, lease, counter) = (world.run, world.node, lease.id, lease.first);
    let group = TrajectoryGroup {
        run,
        lease,
        counter,
        node,
        trajectories: vec![trajectory],
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    let screen = |world: &World| world.coordinator.screen(UnixMillis(0), &world.admission, &group);
    // The second one does not, but what was published stands beside the database.
    world.reopen(AdmissionTally::default());
    assert!(matches!(screen(&world), Err(Rejection::Refused(_))));
    world.coordinator.published(PolicyVersion(4));
    assert!(matches!(screen(&world), Err(Rejection::Retry(_))));
}

#[test]
fn a_disk_that_failed_once_is_not_trusted_again() {
    let mut world = World::new(Staleness::new(3, None).unwrap());
    world.at(0);
    let mut leases = world.lease(0);
    world.store.fail_after(Some(0));
    assert_eq!(world.deliver(&mut leases, BATCH, 0), vec![Outcome::Retry; BATCH]);
    world.store.fail_after(None);
    assert!(matches!(
        world.coordinator.batch(UnixMillis(0), PolicyVersion(0)),
        Err(CoordinatorError::Buffer(_))
    ));
}

/// A group that lies about `counter`, as the stages before the coordinator refuse it.
fn lie(counter: u64) -> Refusal {
    Refusal::new(RefuseReason::Reward, "claims reward 1, earns 0".into()).of(OrderCounter(counter))
}

#[test]
fn a_group_of_another_run_gives_no_order_back() {
    let mut world = World::new(Staleness::new(3, None).unwrap());
    world.at(0);
    let leases = world.lease(0);
    let (node, now) = (world.node, UnixMillis(0));
    let out = world.coordinator.book.out_with(&node);
    for (reason, left) in [(RefuseReason::Run, out), (RefuseReason::Stale, out - 1)] {
        let refusal = Refusal::new(reason, "refused".into()).of(leases[0].first);
        world.coordinator.refuse(now, &node, refusal);
        assert_eq!(world.coordinator.book.out_with(&node), left, "{reason}");
    }
}

#[test]
fn who_lies_too_often_gets_no_work_and_no_hearing_until_it_is_over() {
    let mut world = World::new(Staleness::new(3, None).unwrap());
    world.at(0);
    let leases = world.lease(0);
    let (node, now) = (world.node, UnixMillis(0));
    let out = world.coordinator.book.out_with(&node);
    assert!(out > 5);
    for counter in 0..5 {
        let outcome = world.coordinator.refuse(now, &node, lie(counter)).answer.outcome;
        assert!(matches!(outcome, Outcome::Refused { reason: RefuseReason::Reward, .. }), "{outcome:?}");
    }
    assert_eq!(world.coordinator.book.out_with(&node), 0, "its orders are free");
    // Honest work and lies alike are told why, until when and how to appeal.
    let group = TrajectoryGroup {
        run: world.run,
        lease: leases[0].id,
        counter: leases[0].first,
        node,
        trajectories: Vec::new(),
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    let screened = world.coordinator.screen(now, &world.admission, &group).unwrap_err();
    let answer = screened.answer(group.counter);
    let sixth = world.coordinator.refuse(now, &node, lie(6)).answer;
    assert_eq!((answer.counter, sixth.counter), (Some(group.counter), Some(OrderCounter(6))));
    for outcome in [answer.outcome, sixth.outcome] {
        let Outcome::Refused { reason: RefuseReason::Suspended, detail } = outcome else {
            panic!("{outcome:?}");
        };
        let parts = ["until 1970-01-01T00:10:00Z", "the last for reward", "To appeal"];
        assert!(parts.iter().all(|part| detail.contains(part)), "{detail}");
    }
    assert_eq!(world.coordinator.record().peers()[&node].lies, 5, "what is not heard is no further lie");
    // Neither a kill nor a restart changes that: it is on the disk when it is said.
    world.coordinator.keep_record().unwrap();
    world.store.crash(0);
    world.reopen(AdmissionTally::default());
    assert!(world.coordinator.hear(UnixMillis(599_999), &node).is_err());
    assert!(world.coordinator.hear(UnixMillis(600_000), &node).is_ok());
}

#[test]
fn every_accepted_group_has_a_receipt_that_is_durable_with_it_and_comes_again_with_a_copy() {
    let mut world = World::new(Staleness::new(3, None).unwrap());
    world.at(0);
    let mut leases = world.lease(0);
    let first = leases[0].first;
    world.rewards = vec![0.5, 1.0];
    world.deliver(&mut leases, 2, 0);
    let node = world.node;
    let copy = |world: &mut World| {
        let duplicate = Refusal::new(RefuseReason::Duplicate, "again".into()).of(first);
        world.coordinator.refuse(UnixMillis(9), &node, duplicate)
    };
    let receipt = copy(&mut world).receipt.unwrap();
    assert_eq!((receipt.sequence, receipt.counter, receipt.rewards), (0, first, 1.5));
    assert_eq!((receipt.group, receipt.trajectories), (ContentId::of(&first.0.to_le_bytes()), 2));
    world.store.crash(0);
    world.reopen(AdmissionTally::default());
    assert_eq!(copy(&mut world).receipt, Some(receipt));
    assert_eq!(world.coordinator.record().peers()[&node].accepted, 2);
    // Signed by the run's key, it opens for the node.
    let key = echo_protocol::wire::identity::NodeKey::from_secret([1; 32]);
    let answer = copy(&mut world).sign(&key);
    assert_eq!(answer.receipt.unwrap().open_from(&key.public()).unwrap().node, node);
    // Somebody else who names the order gets nothing.
    let other = PublicKey::from_bytes([8; 32]);
    let duplicate = Refusal::new(RefuseReason::Duplicate, "again".into()).of(first);
    let reply = world.coordinator.refuse(UnixMillis(9), &other, duplicate);
    let Outcome::Refused { reason: RefuseReason::Duplicate, detail } = reply.answer.outcome else {
        panic!("{reply:?}");
    };
    assert!(reply.receipt.is_none() && detail.contains("another node was faster"), "{detail}");
}

#[test]
fn a_failed_disk_gives_no_receipts() {
    let mut world = World::new(Staleness::new(3, None).unwrap());
    world.at(0);
    let mut leases = world.lease(0);
    // The groups are written, their receipts are not.
    world.store.fail_after(Some(1));
    assert_eq!(world.deliver(&mut leases, 1, 0), [Outcome::Retry]);
}

#[test]
fn the_store_does_not_grow_with_the_run_and_no_order_is_leased_twice() {
    let mut world = World::new(Staleness::one_step());
    world.config.limits.kept_orders = 2 * BATCH as u64;
    world.reopen(AdmissionTally::default());
    let (mut leased, mut sizes) = (std::collections::BTreeSet::new(), Vec::new());
    for version in 0..40 {
        world.at(version);
        let mut leases = world.lease(version);
        assert!(leases.iter().flat_map(Lease::orders).all(|counter| leased.insert(counter)));
        let count = orders(&leases);
        assert!(world.deliver(&mut leases, count, version).iter().all(|o| *o == Outcome::Accepted));
        assert_eq!(world.batch(version), Some(BATCH));
        world.coordinator.settle(PolicyVersion(version)).unwrap();
        let mut records = 0;
        world.store.visit(Tree::Final, &mut |_, _| records += 1).unwrap();
        sizes.push(records);
        if version % 7 == 6 {
            // Killed: what is not flushed is lost, or was written all the same.
            world.store.crash(version as usize % 3);
            let accepted = world.coordinator.totals().acknowledged.groups;
            world.reopen(AdmissionTally { accepted, ..AdmissionTally::default() });
        }
    }
    assert!(sizes.iter().all(|records| *records <= 5 * BATCH), "{sizes:?}");
    let totals = world.coordinator.totals();
    assert!(totals.add_up() && totals.acknowledged.groups == leased.len() as u64, "{totals:?}");
}
