//! Advantages of responses from their rewards: baseline, scale, length rule, and the
//! rule for degenerate groups.

mod degenerate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ObjectiveError;
use super::error::finite_from_zero;

pub use degenerate::Degenerate;

/// Added to a standard deviation before it divides.
pub const STD_FLOOR: f64 = 1e-6;

/// How rewards become advantages: A = (r - baseline) · scale.
///
/// A group of one, and a group whose rewards are all equal, has advantage exactly zero under a
/// baseline of its group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advantage {
    /// What is subtracted from a reward.
    pub baseline: Baseline,
    /// What divides the difference.
    pub scale: Scale,
    /// A penalty for responses close to the length limit, subtracted from the reward
    /// first; `None` (`false`): none.
    #[serde(with = "super::off")]
    pub overlong: Option<Overlong>,
    /// What groups without a signal mean for the others.
    #[serde(default)]
    pub degenerate: Degenerate,
}

/// What is subtracted from a reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// Nothing: the reward itself is the advantage.
    None,
    /// The mean of the group, the response itself included: GRPO, GEPO §2, Dr. GRPO.
    GroupMean,
    /// The mean of the other responses of the group: RLOO.
    LeaveOneOut,
    /// The mean of the batch: REINFORCE++.
    BatchMean,
}

/// What divides a reward's distance from its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Nothing: GEPO, Dr. GRPO.
    None,
    /// The group's unbiased standard deviation + [`STD_FLOOR`]: GRPO.
    GroupStd,
    /// The unbiased standard deviation of the whole batch's differences + [`STD_FLOOR`]: REINFORCE++.
    BatchStd,
}

/// DAPO's soft overlong punishment (its eq. 13): nothing up to `limit - buffer` tokens, then
/// linearly to 1 at `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlong {
    /// Length in tokens at which the penalty is complete.
    pub limit: usize,
    /// Tokens before `limit` over which it grows; at least one, at most `limit`.
    pub buffer: usize,
    /// The complete penalty, in units of reward.
    pub penalty: f64,
}

/// What an advantage is computed from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RewardedResponse {
    /// The response's reward, 0 to 1.
    pub reward: f64,
    /// Its length in tokens.
    pub length: usize,
    /// The tag of its prompt.
    pub group: usize,
}

impl Advantage {
    /// Refuses an overlong penalty whose numbers are out of their domain.
    pub(super) fn validate(&self) -> Result<(), ObjectiveError> {
        let Some(Overlong { limit, buffer, penalty }) = self.overlong else { return Ok(()) };
        if buffer == 0 || buffer > limit {
            let (setting, value) = ("advantage.overlong.buffer", buffer as f64);
            return Err(ObjectiveError::Setting { setting, value, domain: "at least 1 and at most `limit`" });
        }
        finite_from_zero("advantage.overlong.penalty", penalty)
    }

    /// The advantage of each response of a batch, in the order of `outcomes`.
    ///
    /// # Errors
    /// [`ObjectiveError::NonFinite`] for a reward that is NaN or infinite.
    pub fn of(&self, outcomes: &[RewardedResponse]) -> Result<Vec<f64>, ObjectiveError> {
        if let Some(row) = outcomes.iter().position(|o| !o.reward.is_finite()) {
            return Err(ObjectiveError::NonFinite { what: "rewards", row });
        }
        let rewards: Vec<f64> = outcomes.iter().map(|o| o.reward - self.punishment(o.length)).collect();
        let whole: Vec<usize> = (0..rewards.len()).collect();
        let groups = members(outcomes.iter().map(|o| o.group));
        let mut advantages = rewards.clone();
        match self.baseline {
            Baseline::None => {}
            Baseline::BatchMean => centre(&rewards, &whole, 1.0, &mut advantages),
            Baseline::GroupMean => groups.values().for_each(|g| centre(&rewards, g, 1.0, &mut advantages)),
            // r - mean of the others = (r - mean of all) · n / (n - 1).
            Baseline::LeaveOneOut => groups.values().for_each(|group| {
                let others = group.len().max(2) - 1;
                centre(&rewards, group, group.len() as f64 / others as f64, &mut advantages);
            }),
        }
        match self.scale {
            Scale::None => {}
            Scale::BatchStd => divide(&advantages.clone(), &whole, &mut advantages),
            Scale::GroupStd => groups.values().for_each(|g| divide(&rewards, g, &mut advantages)),
        }
        self.degenerate.apply(groups.values(), &mut advantages);
        Ok(advantages)
    }

    fn punishment(&self, length: usize) -> f64 {
        self.overlong.map_or(0.0, |o| {
            let over = length.saturating_sub(o.limit - o.buffer.min(o.limit)) as f64;
            o.penalty * (over / o.buffer.max(1) as f64).min(1.0)
        })
    }
}

/// advantage = (reward - mean) · `stretch` over `rows`.
fn centre(rewards: &[f64], rows: &[usize], stretch: f64, advantages: &mut [f64]) {
    // Rounding would leave a residue of the mean, which the division by a tiny deviation would blow up.
    let equal = all_equal(rewards, rows);
    let mean = rows.iter().map(|&i| rewards[i]).sum::<f64>() / rows.len().max(1) as f64;
    for &i in rows {
        advantages[i] = if equal { 0.0 } else { (rewards[i] - mean) * stretch };
    }
}

/// Divides by the unbiased standard deviation of `values` over `rows`. Equal values have nothing
/// to be scaled by.
fn divide(values: &[f64], rows: &[usize], advantages: &mut [f64]) {
    if all_equal(values, rows) {
        return;
    }
    let count = rows.len() as f64;
    let mean = rows.iter().map(|&i| values[i]).sum::<f64>() / count;
    let squares: f64 = rows.iter().map(|&i| (values[i] - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt() + STD_FLOOR;
    rows.iter().for_each(|&i| advantages[i] /= deviation);
}

fn all_equal(rewards: &[f64], rows: &[usize]) -> bool {
    rows.iter().all(|&i| rewards[i] == rewards[rows[0]])
}

/// The responses of each group, in order of appearance. No group is empty.
pub(super) fn members(groups: impl Iterator<Item = usize>) -> BTreeMap<usize, Vec<usize>> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, group) in groups.enumerate() {
        members.entry(group).or_default().push(row);
    }
    members
}

/// Generalised advantage estimation over the steps of one episode, for those who bring a value function:
/// Â_t = Σ_l (γλ)^l δ_{t+l}, δ_t = r_t + γ V_{t+1} - V_t, with V = 0 after the end.
///
/// `rewards` and `values` have one entry per step. The result goes into [`Known::advantage`](super::Known).
///
/// # Errors
/// [`ObjectiveError::Lengths`] when the lists differ in length, [`ObjectiveError::Setting`] for γ
/// or λ outside of \[0, 1\].
pub fn gae(rewards: &[f64], values: &[f64], gamma: f64, lambda: f64) -> Result<Vec<f64>, ObjectiveError> {
    if rewards.len() != values.len() {
        let (what, found, expected) = ("values", values.len(), rewards.len());
        return Err(ObjectiveError::Lengths { what, row: 0, found, expected });
    }
    for (setting, value) in [("gamma", gamma), ("lambda", lambda)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(ObjectiveError::Setting { setting, value, domain: "between 0 and 1" });
        }
    }
    let mut advantages = vec![0.0; rewards.len()];
    let (mut next_value, mut next_advantage) = (0.0, 0.0);
    for t in (0..rewards.len()).rev() {
        next_advantage = rewards[t] + gamma * next_value - values[t] + gamma * lambda * next_advantage;
        next_value = values[t];
        advantages[t] = next_advantage;
    }
    Ok(advantages)
}

#[cfg(test)]
mod tests;
