//! Advantages of a group's responses from their rewards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ObjectiveError;

/// Added to the standard deviation in [`AdvantageRule::GroupNormalised`].
pub const STD_FLOOR: f64 = 1e-6;

/// How rewards become advantages, group by group.
///
/// A group of one, and a group whose rewards are all equal, has advantage exactly zero under either rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageRule {
    /// A = r - mean(group): GEPO §2 and Dr. GRPO.
    GroupMean,
    /// A = (r - mean(group)) / (std(group) + 1e-6), with the unbiased standard deviation: GRPO.
    GroupNormalised,
}

impl AdvantageRule {
    /// The advantage of each response, in the order of `rewards`; `groups[i]` is the group of response `i`.
    ///
    /// # Errors
    /// [`ObjectiveError::Lengths`] when the two lists differ in length, [`ObjectiveError::NonFinite`] for a
    /// reward that is NaN or infinite.
    pub fn advantages(self, rewards: &[f64], groups: &[usize]) -> Result<Vec<f64>, ObjectiveError> {
        if rewards.len() != groups.len() {
            return Err(ObjectiveError::Lengths { rewards: rewards.len(), groups: groups.len() });
        }
        if let Some(row) = rewards.iter().position(|r| !r.is_finite()) {
            return Err(ObjectiveError::NonFinite { what: "rewards", row });
        }
        let mut advantages = vec![0.0; rewards.len()];
        for members in members(groups).values() {
            self.fill(rewards, members, &mut advantages);
        }
        Ok(advantages)
    }

    fn fill(self, rewards: &[f64], members: &[usize], advantages: &mut [f64]) {
        // Rounding would leave a residue of the mean, which the division by a tiny std would blow up.
        if members.iter().all(|&i| rewards[i] == rewards[members[0]]) {
            return;
        }
        let count = members.len() as f64;
        let mean = members.iter().map(|&i| rewards[i]).sum::<f64>() / count;
        let scale = match self {
            Self::GroupMean => 1.0,
            Self::GroupNormalised => {
                let squares: f64 = members.iter().map(|&i| (rewards[i] - mean).powi(2)).sum();
                1.0 / ((squares / (count - 1.0)).sqrt() + STD_FLOOR)
            }
        };
        for &i in members {
            advantages[i] = (rewards[i] - mean) * scale;
        }
    }
}

/// The responses of each group, in order of appearance. No group is empty.
pub(crate) fn members(groups: &[usize]) -> BTreeMap<usize, Vec<usize>> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, &group) in groups.iter().enumerate() {
        members.entry(group).or_default().push(row);
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_mean_centres_each_group_on_its_own() {
        let a = AdvantageRule::GroupMean.advantages(&[1.0, 10.0, 0.0, 30.0], &[0, 7, 0, 7]).unwrap();
        assert_eq!(a, [0.5, -10.0, -0.5, 10.0]);
    }

    #[test]
    fn normalised_divides_by_the_unbiased_std() {
        // Rewards 0 and 2: mean 1, unbiased variance 2.
        let a = AdvantageRule::GroupNormalised.advantages(&[0.0, 2.0], &[3, 3]).unwrap();
        let expected = 1.0 / (2f64.sqrt() + 1e-6);
        assert_eq!(a, [-expected, expected]);
    }

    #[test]
    fn equal_rewards_and_single_responses_give_exact_zeros() {
        for rule in [AdvantageRule::GroupMean, AdvantageRule::GroupNormalised] {
            let a = rule.advantages(&[0.1, 0.1, 0.1, 5.0], &[0, 0, 0, 1]).unwrap();
            assert_eq!(a, [0.0; 4]);
        }
    }

    #[test]
    fn refuses_what_it_cannot_centre() {
        assert!(matches!(
            AdvantageRule::GroupMean.advantages(&[1.0], &[]),
            Err(ObjectiveError::Lengths { rewards: 1, groups: 0 })
        ));
        assert!(matches!(
            AdvantageRule::GroupMean.advantages(&[1.0, f64::NAN], &[0, 0]),
            Err(ObjectiveError::NonFinite { what: "rewards", row: 1 })
        ));
    }
}
