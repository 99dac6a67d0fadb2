//! Updates that teach nothing: all responses that are compared with each other have the same reward.

use crate::intake::buffer::StoredGroup;
use crate::intake::filter::same_rewards;
use crate::training::trainer::GroupBy;

/// Such updates in a row that are worth a warning; then twice as many, four times as many ...
const FIRST: u64 = 8;

/// Such updates in a row.
#[derive(Debug)]
pub(super) struct Barren {
    group_by: GroupBy,
    updates: u64,
    due: u64,
}

impl Barren {
    pub(super) fn new(group_by: GroupBy) -> Self {
        Self { group_by, updates: 0, due: FIRST }
    }

    /// Warns where the batch of another update had nothing to teach, as those before it.
    pub(super) fn warn(&mut self, update: u64, batch: &[StoredGroup]) {
        if let Some(updates) = self.count(batch) {
            let reward =
                batch.iter().flat_map(|group| &group.group.trajectories).next().map_or(0.0, |t| t.reward);
            tracing::warn!(
                "update {update}: in the last {updates} updates all rewards that are compared were the same (here {reward:.3}), so nothing was learned \
                 from them. If the policy answers nearly nothing right, lengthen [warmup] or take an easier task; if it answers \
                 nearly everything right, take a harder one"
            );
        }
    }

    /// The updates in a row, when it is time for a warning.
    fn count(&mut self, batch: &[StoredGroup]) -> Option<u64> {
        if !self.is_barren(batch) {
            *self = Self::new(self.group_by);
            return None;
        }
        self.updates += 1;
        let due = self.updates == self.due;
        if due {
            self.due *= 2;
        }
        due.then_some(self.updates)
    }

    fn is_barren(&self, batch: &[StoredGroup]) -> bool {
        let each = batch.iter().all(|group| same_rewards(&group.group));
        // Elsewhere responses to several orders are compared.
        let firsts = || batch.iter().filter_map(|group| group.group.trajectories.first()).map(|t| t.reward);
        let across = || firsts().zip(firsts().skip(1)).all(|(one, next)| one == next);
        each && (self.group_by == GroupBy::Order || across())
    }
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
    fn a_warning_is_due_after_eight_updates_in_a_row_and_at_every_doubling() {
        let (same, mixed) = ([group([0.0, 0.0]), group([1.0, 1.0])], [group([0.0, 0.0]), group([0.0, 1.0])]);
        let mut barren = Barren::new(GroupBy::Order);
        let mut due =
            |batch: &[StoredGroup]| -> Vec<u64> { (0..40).filter_map(|_| barren.count(batch)).collect() };
        assert_eq!(due(&same), [8, 16, 32]);
        assert_eq!(due(&mixed), [0; 0]);
        assert_eq!(due(&same), [8, 16, 32], "it begins anew");
    }

    #[test]
    fn orders_that_are_compared_with_each_other_teach_by_their_difference() {
        let (same, differ) = ([group([0.0; 2]), group([0.0; 2])], [group([0.0; 2]), group([1.0; 2])]);
        for (group_by, barren) in
            [(GroupBy::Order, true), (GroupBy::Batch, false), (GroupBy::PrivateHand, false)]
        {
            assert!(Barren::new(group_by).is_barren(&same));
            assert_eq!(Barren::new(group_by).is_barren(&differ), barren, "{group_by:?}");
        }
    }
}
