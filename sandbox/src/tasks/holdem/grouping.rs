//! Groups of episodes and their advantages (ECHO-2 F.5.2).

use std::collections::BTreeMap;
use std::fmt;

use super::card::{Card, rank_name};
use crate::task::TaskSeed;

/// ε of eq. 21.
pub const STD_FLOOR: f64 = 1e-6;

/// Which episodes are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// Those of the same prompt: the same seats, cards and opponents.
    Prompt,
    /// Those in which the policy was dealt the same kind of hand, suits that play no part set aside: one of 169.
    PrivateHand,
    /// All of a batch.
    Batch,
}

/// The group that an episode belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// A prompt.
    Prompt(TaskSeed),
    /// A kind of hand.
    PrivateHand(StartingHand),
    /// The batch.
    Batch,
}

impl Grouping {
    /// The group of the episode of `seed` in which the policy was first dealt `cards`.
    pub fn key(self, seed: TaskSeed, cards: [Card; 2]) -> GroupKey {
        match self {
            Self::Prompt => GroupKey::Prompt(seed),
            Self::PrivateHand => GroupKey::PrivateHand(StartingHand::of(cards)),
            Self::Batch => GroupKey::Batch,
        }
    }
}

/// The grouping tag that travels in Ω.
impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prompt(TaskSeed(seed)) => {
                f.write_str("prompt ")?;
                seed.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::PrivateHand(hand) => write!(f, "hand {hand}"),
            Self::Batch => f.write_str("batch"),
        }
    }
}

/// Two cards before the board: their ranks and whether they share a suit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartingHand {
    high: u8,
    low: u8,
    suited: bool,
}

impl StartingHand {
    /// The kind of hand that two cards are, in whichever order.
    pub fn of([one, other]: [Card; 2]) -> Self {
        let (low, high) = (one.rank().min(other.rank()), one.rank().max(other.rank()));
        Self { high, low, suited: one.suit() == other.suit() }
    }
}

/// `AKs`, `72o`, `TT`.
impl fmt::Display for StartingHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suits = match (self.suited, self.high == self.low) {
            (true, _) => "s",
            (false, true) => "",
            (false, false) => "o",
        };
        write!(f, "{}{}{suits}", rank_name(self.high), rank_name(self.low))
    }
}

/// Â of eq. 21 for every episode: its return's distance from the mean of its group, divided by the group's unbiased standard
/// deviation + [`STD_FLOOR`]. Zero in a group of one.
///
/// # Panics
/// When there are not as many returns as keys.
pub fn advantages(returns: &[f64], keys: &[GroupKey]) -> Vec<f64> {
    assert_eq!(returns.len(), keys.len(), "every return has a key");
    let mut groups: BTreeMap<GroupKey, Vec<f64>> = BTreeMap::new();
    for (&value, &key) in returns.iter().zip(keys) {
        groups.entry(key).or_default().push(value);
    }
    let statistics: BTreeMap<GroupKey, (f64, f64)> =
        groups.into_iter().map(|(key, values)| (key, mean_and_std(&values))).collect();
    let advantage = |(value, key)| {
        let (mean, std) = statistics[key];
        (value - mean) / (std + STD_FLOOR)
    };
    returns.iter().zip(keys).map(advantage).collect()
}

fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

#[cfg(test)]
mod tests;
