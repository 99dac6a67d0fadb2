//! Which responses are compared with each other (ECHO-2, F.5.2).

use crate::intake::buffer::StoredGroup;
use echo_protocol::work::trajectory::MetaValue;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The entry of Ω with which a task names the hand that the policy was dealt.
const PRIVATE_HAND: &str = "private_hand";

/// The group within which a reward becomes an advantage. Everything else that speaks of groups,
/// such as the filter and GEPO's weights, means the responses to one order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// The responses to one order.
    #[default]
    Order,
    /// Those of a batch whose tasks tell of the same private hand ([`PRIVATE_HAND`]); an order
    /// whose task tells of none stays by itself.
    PrivateHand,
    /// All of a batch.
    Batch,
}

/// What is compared with what.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Order(usize),
    Hand(&'a str),
    Batch,
}

/// The tag of every trajectory of a batch, in order.
pub(super) fn tags(group_by: GroupBy, groups: &[StoredGroup]) -> impl Iterator<Item = usize> {
    let mut known = BTreeMap::new();
    let keys = groups.iter().enumerate().flat_map(move |(order, stored)| {
        stored.group.trajectories.iter().map(move |trajectory| match group_by {
            GroupBy::Order => Key::Order(order),
            GroupBy::Batch => Key::Batch,
            GroupBy::PrivateHand => match trajectory.omega.get(PRIVATE_HAND) {
                Some(MetaValue::Text(hand)) => Key::Hand(hand),
                _ => Key::Order(order),
            },
        })
    });
    keys.map(move |key| {
        let next = known.len();
        *known.entry(key).or_insert(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::training::objective::{Preset, RewardedResponse};
    use echo_protocol::work::lease::LeaseId;
    use echo_protocol::work::order::OrderCounter;
    use echo_protocol::work::trajectory::{Omega, Trajectory, TrajectoryGroup};

    /// Orders whose responses tell of these hands, with these rewards.
    fn batch(orders: &[&[(&str, f32)]]) -> Vec<StoredGroup> {
        let (workload, _) = testing::workload();
        let trajectory = |&(hand, reward): &(&str, f32)| Trajectory {
            response: vec![1],
            turns: Vec::new(),
            logprobs: vec![-0.1],
            versions: Vec::new(),
            reward,
            stopped: true,
            omega: match hand {
                "" => Omega::new(),
                hand => Omega::from([(PRIVATE_HAND.into(), MetaValue::Text(hand.into()))]),
            },
            raw_logprobs: Vec::new(),
        };
        let stored = |(counter, order): (u64, &&[(&str, f32)])| StoredGroup {
            arrival: counter,
            correct: vec![false; order.len()],
            group: TrajectoryGroup {
                run: workload.run,
                lease: LeaseId(0),
                counter: OrderCounter(counter),
                node: workload.charter.learner,
                trajectories: order.iter().map(trajectory).collect(),
                precision: Default::default(),
                caches: Default::default(),
                recomputed: Vec::new(),
            },
        };
        (0..).zip(orders).map(stored).collect()
    }

    #[test]
    fn responses_are_compared_within_what_is_asked_for() {
        let batch =
            batch(&[&[("aks", 0.0), ("aks", 1.0)], &[("77", 0.0)], &[("aks", 0.5)], &[("", 1.0), ("", 0.0)]]);
        let of = |group_by| tags(group_by, &batch).collect::<Vec<_>>();
        assert_eq!(of(GroupBy::Order), [0, 0, 1, 2, 3, 3]);
        assert_eq!(of(GroupBy::PrivateHand), [0, 0, 1, 0, 2, 2]);
        assert_eq!(of(GroupBy::Batch), [0; 6]);
    }

    /// Eq. 20 and 21 by hand: returns 40, -20 and 10 chips of a stack of 100, as rewards (R + 100) / 200.
    #[test]
    fn advantages_are_those_of_the_returns() {
        let batch = batch(&[&[("aks", 0.7)], &[("aks", 0.4)], &[("aks", 0.55)]]);
        let outcomes: Vec<RewardedResponse> = tags(GroupBy::PrivateHand, &batch)
            .zip(&batch)
            .map(|(group, stored)| RewardedResponse {
                reward: f64::from(stored.group.trajectories[0].reward),
                length: 1,
                group,
            })
            .collect();
        let advantages = Preset::Grpo.objective().advantage.of(&outcomes).unwrap();
        // Mean 10, unbiased deviation 30.
        for (advantage, expected) in advantages.iter().zip([1.0, -1.0, 0.0]) {
            assert!((advantage - expected).abs() < 1e-4, "{advantages:?}");
        }
    }
}
