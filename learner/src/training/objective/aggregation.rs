//! Aggregation: the weight of each token in the loss.

use serde::{Deserialize, Serialize};

use super::ObjectiveError;

/// How the terms of a batch's tokens become one number. N is the number of responses, |y| the
/// tokens of one that are trained on.
///
/// A term that belongs to a whole response (GSPO, GEPO) counts as if each of its tokens carried it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Aggregation {
    /// (1/N) Σ_i (1/|y_i|) Σ_t: every response counts the same. Responses without a trained token
    /// count in N. GRPO, GSPO, GEPO.
    PerResponse {},
    /// Σ_i Σ_t / Σ_i |y_i| over the whole batch: every token counts the same. DAPO, decoupled PPO.
    PerToken {},
    /// The mean over groups of Σ_i Σ_t / Σ_i |y_i| within each group: every prompt counts the same (RLAX).
    PerGroup {},
    /// Σ_i Σ_t / (N · length): no bias towards short or long responses. Dr. GRPO.
    MaxLength {
        /// The divisor in tokens; 0: the longest response that the run allows.
        length: usize,
    },
    /// (1/N) Σ_i Σ_t: a response counts by its length (seq-mean-token-sum).
    TokenSum {},
}

/// What an aggregation counts.
pub(super) struct TokenCounts<'a> {
    /// Trained tokens of each response.
    pub(super) tokens: &'a [usize],
    /// Group of each response.
    pub(super) groups: &'a [usize],
    /// The longest response that the run allows, in tokens.
    pub(super) response_limit: usize,
}

impl Aggregation {
    /// The weight of every token of each response, `[N]`; zero for a response without trained tokens.
    pub(super) fn coefficients(self, counts: &TokenCounts<'_>) -> Result<Vec<f64>, ObjectiveError> {
        let &TokenCounts { tokens, groups, response_limit } = counts;
        let responses = tokens.len() as f64;
        let total = tokens.iter().sum::<usize>() as f64;
        let of_groups = super::advantage::members(groups.iter().copied());
        let per_length = |length: usize| match if length == 0 { response_limit } else { length } {
            0 => {
                let (setting, domain) = ("aggregation.length", "set, as the batch names no limit");
                Err(ObjectiveError::Setting { setting, value: 0.0, domain })
            }
            length => Ok(1.0 / (responses * length as f64)),
        };
        let weight = |row: usize| -> Result<f64, ObjectiveError> {
            Ok(match self {
                _ if tokens[row] == 0 => 0.0,
                Self::PerResponse {} => 1.0 / (responses * tokens[row] as f64),
                Self::PerToken {} => 1.0 / total,
                Self::PerGroup {} => {
                    let of_group: usize = of_groups[&groups[row]].iter().map(|&i| tokens[i]).sum();
                    1.0 / (of_groups.len() as f64 * of_group as f64)
                }
                Self::MaxLength { length } => per_length(length)?,
                Self::TokenSum {} => 1.0 / responses,
            })
        };
        (0..tokens.len()).map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_two_groups_by_hand() {
        let counts = TokenCounts { tokens: &[4, 0, 2, 2], groups: &[5, 5, 9, 9], response_limit: 10 };
        for (aggregation, expected) in [
            (Aggregation::PerResponse {}, [1.0 / 16.0, 0.0, 1.0 / 8.0, 1.0 / 8.0]),
            (Aggregation::PerToken {}, [1.0 / 8.0, 0.0, 1.0 / 8.0, 1.0 / 8.0]),
            (Aggregation::PerGroup {}, [1.0 / 8.0, 0.0, 1.0 / 8.0, 1.0 / 8.0]),
            (Aggregation::MaxLength { length: 0 }, [1.0 / 40.0, 0.0, 1.0 / 40.0, 1.0 / 40.0]),
            (Aggregation::MaxLength { length: 5 }, [1.0 / 20.0, 0.0, 1.0 / 20.0, 1.0 / 20.0]),
            (Aggregation::TokenSum {}, [0.25, 0.0, 0.25, 0.25]),
        ] {
            assert_eq!(aggregation.coefficients(&counts).unwrap(), expected, "{aggregation:?}");
        }
    }

    #[test]
    fn a_length_that_nobody_names_is_refused() {
        let counts = TokenCounts { tokens: &[4], groups: &[0], response_limit: 0 };
        assert!(Aggregation::MaxLength { length: 0 }.coefficients(&counts).is_err());
    }
}
