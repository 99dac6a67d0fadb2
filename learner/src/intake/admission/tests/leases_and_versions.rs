//! What the lease book, the buffer and the published versions say of a group.

use super::*;

#[test]
fn a_lease_that_the_node_does_not_hold_is_refused() {
    let mut world = World::new();
    let other = NodeKey::from_secret([3; 32]).public();
    let theirs = world.book.grant(UnixMillis(0), other, 2, 100)[0].clone();
    let own = world.group(theirs.first.0);
    assert_eq!(reason(world.send(&own)), RefuseReason::Lease, "an order outside its range");
    let posed = TrajectoryGroup { lease: theirs.id, ..own.clone() };
    assert_eq!(reason(world.send(&posed)), RefuseReason::Lease, "another node's lease");
    let invented = TrajectoryGroup { lease: LeaseId(77), counter: OrderCounter(0), ..own };
    assert_eq!(reason(world.send(&invented)), RefuseReason::Lease, "an invented lease");
}

#[test]
fn a_replay_is_a_duplicate_whatever_became_of_the_first() {
    let mut world = World::new();
    let group = world.group(0);
    assert_eq!(world.send(&group), Outcome::Accepted);
    assert_eq!(reason(world.send(&group)), RefuseReason::Duplicate);
    world.buffer.form_batch(PolicyVersion(4), &Staleness::new(3, None).unwrap(), 1).unwrap().unwrap();
    world.buffer.settle(PolicyVersion(5)).unwrap();
    assert_eq!(reason(world.send(&group)), RefuseReason::Duplicate, "after it was trained on");
    // The book alone refuses it, too. To it, what was given up is settled as well, so it says no more
    // than that.
    world.buffer = ReplayBuffer::open(Arc::new(MemoryStore::default()), BufferLimits::default()).unwrap();
    assert_eq!(reason(world.send(&group)), RefuseReason::Lease);
}

#[test]
fn versions_that_do_not_exist_are_refused() {
    for version in [1, 3, 5, 6, u64::MAX] {
        let mut world = World::new();
        // Beside one that does.
        let of_two = [version.min(4), version.max(4)].map(PolicyVersion);
        let lie = |group: &mut TrajectoryGroup| {
            for t in &mut group.trajectories {
                t.versions = spans((0..t.response.len()).map(|at| of_two[at.min(1)]));
            }
        };
        assert_eq!(reason(world.lie(lie)), RefuseReason::UnknownVersion, "v{version}");
    }
    let mut world = World::new();
    world.progress.newest_published = None;
    assert_eq!(reason(world.lie(|_| {})), RefuseReason::UnknownVersion);
}

#[test]
fn what_a_run_that_had_ended_goes_on_from_is_published_too() {
    let mut world = World::new();
    let odd = |group: &mut TrajectoryGroup| {
        for t in &mut group.trajectories {
            t.versions = spans((0..t.response.len()).map(|_| PolicyVersion(3)));
        }
    };
    world.progress = at(5);
    assert_eq!(reason(world.lie(odd)), RefuseReason::UnknownVersion);
    world.progress.between_periods = Some(PolicyVersion(3));
    assert_eq!(world.lie(odd), Outcome::Accepted);
}

#[test]
fn one_token_that_is_too_old_makes_the_group_stale() {
    let mut world = World::new();
    world.progress = Progress { current: PolicyVersion(5), ..at(4) };
    assert_eq!(world.lie(|_| {}), Outcome::Accepted, "v2 at v5 is just fresh enough");
    world.progress.current = PolicyVersion(6);
    let group = world.group(1);
    assert_eq!(reason(world.send(&group)), RefuseReason::Stale);
}

#[test]
fn staleness_on_purpose_is_a_lie_and_being_slow_is_none() {
    let mut world = World::new();
    world.book.at(PolicyVersion(9));
    world.progress = at(9);
    let fresh = world.book.grant(UnixMillis(0), world.node.public(), 1, 100)[0].first.0;
    let verdict = |world: &World, counter| {
        let group = world.group(counter);
        let screened = world.admission.screen(&group, world.progress, &world.book, &world.buffer);
        match screened {
            Err(Rejection::Refused(refusal)) => (refusal.reason, refusal.fault),
            other => panic!("{other:?}"),
        }
    };
    // Versions 2 and 4 were too old when this order was leased, whatever lease the group names.
    assert_eq!(verdict(&world, fresh), (RefuseReason::Stale, Fault::Lie));
    // The others were leased when the learner was at 0, or nobody knows where: their node was slow.
    assert_eq!(verdict(&world, 1), (RefuseReason::Stale, Fault::Innocent));
}

#[test]
fn a_learner_that_fell_back_asks_for_patience() {
    let mut world = World::new();
    world.progress.current = PolicyVersion(3);
    assert_eq!(world.lie(|_| {}), Outcome::Retry);
    world.progress.current = PolicyVersion(4);
    assert_eq!(world.lie(|_| {}), Outcome::Accepted);
}

#[test]
fn lies_about_leases_and_versions_are_told_from_being_late() {
    let mut world = World::new();
    let other = PublicKey::from_bytes([9; 32]);
    world.book.expire(UnixMillis(2_000));
    let theirs = world.book.grant(UnixMillis(2_000), other, 1, 100).remove(0);
    assert_eq!(theirs.first, OrderCounter(0));
    let fault = |change: &dyn Fn(&mut TrajectoryGroup)| {
        let mut group = world.group(0);
        change(&mut group);
        match world.admission.screen(&group, world.progress, &world.book, &world.buffer) {
            Err(Rejection::Refused(refusal)) => refusal.fault,
            other => panic!("{other:?}"),
        }
    };
    let under = |group: &mut TrajectoryGroup, version: u64| {
        group.counter = OrderCounter(1);
        group.trajectories[0].versions = spans(vec![PolicyVersion(version); 1]);
    };
    assert_eq!(fault(&|_| ()), Fault::Innocent, "it ran out, and somebody else has the order");
    assert_eq!(fault(&|group| under(group, 0)), Fault::Innocent, "too old");
    let lies: [&dyn Fn(&mut TrajectoryGroup); 5] = [
        &|group| group.lease = theirs.id,
        &|group| group.lease = LeaseId(7),
        &|group| group.counter = OrderCounter(100),
        &|group| under(group, 3),
        &|group| under(group, 6),
    ];
    assert_eq!(lies.map(fault), [Fault::Lie; 5]);
}
