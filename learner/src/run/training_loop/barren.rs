//! Batches that teach nothing: all responses that are compared with each other have the same reward.

use crate::intake::buffer::StoredGroup;
use crate::intake::filter::same_rewards;
use crate::training::trainer::GroupBy;

/// Whether a batch has nothing to teach where rewards are compared within `group_by`.
pub(super) fn is_barren(group_by: GroupBy, batch: &[StoredGroup]) -> bool {
    let each = batch.iter().all(|group| same_rewards(&group.group));
    // Elsewhere responses to several orders are compared.
    let firsts = || batch.iter().filter_map(|group| group.group.trajectories.first()).map(|t| t.reward);
    let across = || firsts().zip(firsts().skip(1)).all(|(one, next)| one == next);
    each && (group_by == GroupBy::Order || across())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::OrderCounter;
    use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup};

    fn group(rewards: [f32; 2]) -> StoredGroup {
        let (workload, _) = testing::workload();
        let trajectory = |reward| Trajectory {
            response: vec![1],
            turns: Vec::new(),
            logprobs: vec![-1.0],
            versions: Vec::new(),
            reward,
            stopped: true,
            omega: Default::default(),
            raw_logprobs: Vec::new(),
        };
        let group = TrajectoryGroup {
            run: workload.run,
            lease: LeaseId(0),
            counter: OrderCounter(0),
            node: workload.charter.learner,
            trajectories: rewards.map(trajectory).to_vec(),
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        StoredGroup { arrival: 0, correct: vec![false; 2], group }
    }

    #[test]
    fn orders_that_are_compared_with_each_other_teach_by_their_difference() {
        let (same, differ) = ([group([0.0; 2]), group([0.0; 2])], [group([0.0; 2]), group([1.0; 2])]);
        let mixed = [group([0.0; 2]), group([0.0, 1.0])];
        for (group_by, barren) in
            [(GroupBy::Order, true), (GroupBy::Batch, false), (GroupBy::PrivateHand, false)]
        {
            assert!(is_barren(group_by, &same));
            assert_eq!(is_barren(group_by, &differ), barren, "{group_by:?}");
            assert!(!is_barren(group_by, &mixed));
        }
    }
}
