//! EchoClip (EchoRL §4.2): the hardest step that a group got right, as an auxiliary target.

use serde::{Deserialize, Serialize};

use super::ObjectiveError;
use super::error::finite_from_zero;

/// λ · mean over groups of -(1/L) Σ_{t ≤ L} log π_θ, over the prefix of L tokens that ends with the
/// step of highest mean entropy among all responses of the group that succeeded (EchoRL eq. 6 to
/// 10). A group without success adds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EchoClip {
    /// λ; the paper's best is 0.001.
    pub lambda: f64,
}

impl Default for EchoClip {
    fn default() -> Self {
        Self { lambda: 0.001 }
    }
}

impl EchoClip {
    /// Refuses a λ that is negative or not finite.
    pub(super) fn validate(&self) -> Result<(), ObjectiveError> {
        finite_from_zero("echo_clip.lambda", self.lambda)
    }
}

/// Ends (exclusive) of the steps of a response: a step ends after each newline token, and with the response.
///
/// `is_newline` says which of the response's tokens contain a newline.
pub fn step_ends(is_newline: impl IntoIterator<Item = bool>) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut length = 0;
    for newline in is_newline {
        length += 1;
        if newline {
            ends.push(length);
        }
    }
    if length > ends.last().copied().unwrap_or(0) {
        ends.push(length);
    }
    ends
}

/// The end of the step with the highest mean entropy (the first of equals), and that mean.
pub(super) fn hardest_step(step_ends: &[usize], entropy: &[f64]) -> Option<(usize, f64)> {
    let mut start = 0;
    let mut hardest: Option<(usize, f64)> = None;
    for &end in step_ends {
        let step = entropy.get(start..end)?;
        start = end;
        let mean = step.iter().sum::<f64>() / step.len().max(1) as f64;
        if !step.is_empty() && hardest.is_none_or(|(_, top)| mean > top) {
            hardest = Some((end, mean));
        }
    }
    hardest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_behind_newlines_and_with_the_response() {
        assert_eq!(step_ends([false, true, false, false]), [2, 4]);
        assert_eq!(step_ends([false, true]), [2]);
        assert_eq!(step_ends([true, true]), [1, 2]);
        assert!(step_ends([]).is_empty());
    }

    #[test]
    fn the_hardest_step_has_the_highest_mean_not_the_highest_token() {
        // Means .5, .6, .6: a long sure step with one unsure token loses, and the first of equals wins.
        assert_eq!(hardest_step(&[2, 3, 5], &[1.0, 0.0, 0.6, 0.6, 0.6]), Some((3, 0.6)));
        assert_eq!(hardest_step(&[], &[]), None);
        assert_eq!(hardest_step(&[4], &[1.0]), None);
    }
}
