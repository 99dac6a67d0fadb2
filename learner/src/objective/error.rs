//! What can be wrong with an objective or its input.

use thiserror::Error;

/// Why a loss could not be computed.
#[derive(Debug, Error)]
pub enum ObjectiveError {
    /// A tensor does not have the shape that `logp` implies.
    #[error(
        "objective input `{what}` has shape {found:?}, expected {expected:?}: build all inputs from one batch"
    )]
    Shape {
        /// Field of the input.
        what: &'static str,
        /// Shape found.
        found: Vec<usize>,
        /// Shape expected.
        expected: Vec<usize>,
    },
    /// The log-probabilities are neither f32 nor f64.
    #[error("objective input `logp` is {found}: cast log-probabilities to f32 (or f64) before the objective")]
    Dtype {
        /// Dtype found.
        found: &'static str,
    },
    /// The batch has no response or no position.
    #[error("objective input is empty (shape {found:?}): form a batch before asking for its loss")]
    Empty {
        /// Shape of `logp`.
        found: Vec<usize>,
    },
    /// The objective needs proximal log-probabilities and got none.
    #[error(
        "objective `{objective}` needs `proximal_logp`: recompute it with the weights at the start of the step"
    )]
    MissingProximal {
        /// Name of the objective.
        objective: &'static str,
    },
    /// A value that counts is NaN or infinite.
    #[error("objective input `{what}` is not finite in response {row}: drop its group, or skip the update")]
    NonFinite {
        /// Field of the input.
        what: &'static str,
        /// Row of the first such value.
        row: usize,
    },
    /// A setting is outside its domain.
    #[error("objective setting `{setting}` is {value}: it must be {domain}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Value found.
        value: f64,
        /// What is allowed.
        domain: &'static str,
    },
    /// A list of rewards and a list of groups differ in length.
    #[error("{rewards} rewards for {groups} group tags: give one group tag to each reward")]
    Lengths {
        /// Number of rewards.
        rewards: usize,
        /// Number of group tags.
        groups: usize,
    },
    /// The tensor library refused an operation.
    #[error("tensor operation failed while computing an objective: {0}")]
    Tensor(#[from] candle_core::Error),
}
