//! What came too late: groups by the length of their responses and by node.
//!
//! A batch takes groups by their numbers, so that long answers are not passed over for being slow. The one
//! way left in which length decides is that a group becomes too old; this says how much that is.

use std::collections::BTreeMap;

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::trajectory::TrajectoryGroup;

/// Most nodes that are told apart: as many as a run has at most, and none for keys that nobody can use twice.
const MAX_NODES: usize = 1 << 14;

/// Groups that were too old for a batch, or when they came, since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleTally {
    by_length: BTreeMap<u64, u64>,
    by_node: BTreeMap<PublicKey, u64>,
}

impl StaleTally {
    /// Counts a group.
    pub fn note(&mut self, group: &TrajectoryGroup) {
        let longest = group.trajectories.iter().map(|trajectory| trajectory.response.len()).max();
        // Powers of two: a few dozen classes, whatever the longest response is.
        let class = (longest.unwrap_or(0) as u64).max(1).next_power_of_two();
        *self.by_length.entry(class).or_default() += 1;
        if self.by_node.len() < MAX_NODES || self.by_node.contains_key(&group.node) {
            *self.by_node.entry(group.node).or_default() += 1;
        }
    }

    /// Groups by their longest response, in tokens, rounded up to a power of two.
    pub fn by_length(&self) -> &BTreeMap<u64, u64> {
        &self.by_length
    }

    /// Groups by node.
    pub fn by_node(&self) -> &BTreeMap<PublicKey, u64> {
        &self.by_node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use echo_protocol::run::version::PolicyVersion;
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::OrderCounter;
    use echo_protocol::work::trajectory::{Trajectory, spans};

    #[test]
    fn the_longest_response_of_a_group_counts() {
        let trajectory = |tokens: usize| Trajectory {
            response: vec![1; tokens],
            turns: Vec::new(),
            logprobs: vec![-1.0; tokens],
            versions: spans(std::iter::repeat_n(PolicyVersion(0), tokens)),
            reward: 0.0,
            stopped: true,
            omega: Default::default(),
            raw_logprobs: Vec::new(),
        };
        let (workload, _) = testing::workload();
        let group = |node: u8, lengths: &[usize]| TrajectoryGroup {
            run: workload.run,
            lease: LeaseId(0),
            counter: OrderCounter(0),
            node: PublicKey::from_bytes([node; 32]),
            trajectories: lengths.iter().map(|tokens| trajectory(*tokens)).collect(),
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        };
        let mut tally = StaleTally::default();
        tally.note(&group(1, &[3, 5]));
        tally.note(&group(1, &[8]));
        tally.note(&group(2, &[9]));
        assert_eq!(*tally.by_length(), [(8, 2), (16, 1)].into());
        let nodes: Vec<u64> = tally.by_node().values().copied().collect();
        assert_eq!(nodes, [2, 1]);
    }
}
