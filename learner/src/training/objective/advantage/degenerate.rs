//! Degenerate groups: those that say nothing about which of their responses is better.

use serde::{Deserialize, Serialize};

/// What degenerate groups mean for the advantages of a batch. A group is degenerate when all of its
/// advantages are zero: under a baseline of the group, when its rewards are all equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Degenerate {
    /// They are zero, and dilute the batch: its means count their responses and tokens.
    #[default]
    Zero,
    /// The other advantages are multiplied by N / (N - M), with N the responses of the batch and M
    /// those of degenerate groups, which makes up for their place in the batch. This is the form of
    /// GPG's α; verl has the responses with a reward of zero in the place of M.
    Rescale,
}

impl Degenerate {
    /// Applies the rule to advantages that are otherwise complete.
    pub(super) fn apply<'a>(self, groups: impl Iterator<Item = &'a Vec<usize>>, advantages: &mut [f64]) {
        if self == Self::Zero {
            return;
        }
        let telling = groups.filter(|group| group.iter().any(|&row| advantages[row] != 0.0));
        let responses: usize = telling.map(Vec::len).sum();
        // Without any the advantages are zero, and stay so under any factor.
        let factor = advantages.len() as f64 / responses.max(1) as f64;
        advantages.iter_mut().for_each(|advantage| *advantage *= factor);
    }
}
