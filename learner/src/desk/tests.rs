use super::*;
use crate::store::MemoryStore;
use crate::testing;
use echo_protocol::trajectory::{Trajectory, spans};

/// A group of `lease`'s first order whose responses all have this reward.
fn delivery(desk: &Desk, lease: &Lease, counter: u64, node: PublicKey, rewards: [f32; 2]) -> Admitted {
    let version = desk.progress.newest_published.unwrap();
    let trajectory = |reward| Trajectory {
        response: vec![1],
        logprobs: vec![-0.5],
        versions: spans([version]),
        reward,
        stopped: true,
        omega: Default::default(),
    };
    let counter = echo_protocol::order::OrderCounter(counter);
    let trajectories = rewards.into_iter().map(trajectory).collect();
    let group = TrajectoryGroup { run: lease.run, lease: lease.id, counter, node, trajectories };
    Admitted { group, correct: rewards.map(|reward| reward == 1.0).to_vec() }
}

#[test]
fn a_filter_that_drops_everything_leaves_room_for_more_work() {
    let (workload, _) = testing::workload();
    let workload = Arc::new(workload);
    let admission = Admission::new(workload.run, &workload.charter, workload.clone()).unwrap();
    let config = LeaseConfig { run: workload.run, lifetime_ms: 1_000_000, max_open_per_node: 1000 };
    let (batch, store, node) = (2, Arc::new(MemoryStore::default()), PublicKey::from_bytes([3; 32]));
    let staleness = workload.charter.staleness;
    let desk = Desk::open(store, config, staleness, batch, PolicyVersion(0), Tally::default()).unwrap();
    let mut desk = desk.with_filter(Filter { no_signal: true, ..Filter::default() });
    desk.published(PolicyVersion(0));
    let lease = |desk: &mut Desk| desk.lease(UnixMillis(1), node, Some(PolicyVersion(0)), 100).unwrap();
    let mut delivered = 0;
    for round in 0..20 {
        let leases = lease(&mut desk);
        let orders: Vec<_> = leases.iter().flat_map(|l| l.orders().map(move |order| (l, order))).collect();
        assert_eq!(orders.len(), 4, "round {round}: (η + 1) × B orders are out at once");
        assert_eq!(lease(&mut desk), [], "and not one more");
        let groups: Vec<_> =
            orders.iter().map(|(l, order)| delivery(&desk, l, order.0, node, [0.0; 2])).collect();
        delivered += groups.len() as u64;
        let answers = desk.admit(&admission, groups);
        assert!(answers.iter().all(|answer| answer.outcome == Outcome::Accepted), "{answers:?}");
        assert_eq!(desk.batch(PolicyVersion(0)).unwrap(), None);
    }
    assert_eq!((desk.filtered(), desk.totals().acknowledged.groups), (delivered, delivered));
    assert!(desk.totals().add_up());
    // The first groups that pass make a batch.
    let leases = lease(&mut desk);
    let orders: Vec<_> = leases.iter().flat_map(|l| l.orders().map(move |order| (l, order))).collect();
    let groups = orders.iter().map(|(l, order)| delivery(&desk, l, order.0, node, [0.0, 1.0])).collect();
    desk.admit(&admission, groups);
    assert_eq!(desk.batch(PolicyVersion(0)).unwrap().unwrap().len(), batch);
}
