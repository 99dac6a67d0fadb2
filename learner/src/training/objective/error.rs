//! What can be wrong with an objective or its input.

use thiserror::Error;

/// Why a loss could not be computed.
#[derive(Debug, Error, PartialEq)]
pub enum ObjectiveError {
    /// A list does not have one entry a trained token.
    #[error(
        "objective input `{what}` has {found} entries in response {row}, expected {expected}: build all from one batch"
    )]
    Lengths {
        /// The list's name, such as `behaviour` or `advantage`.
        what: &'static str,
        /// Index of the response.
        row: usize,
        /// Entries that the list has.
        found: usize,
        /// Entries that it should have: one for each trained token.
        expected: usize,
    },
    /// A list that the objective needs is missing.
    #[error("the objective needs `{what}`, and response {row} has none")]
    Missing {
        /// The list's name, such as `proximal` or `reference`.
        what: &'static str,
        /// Index of the response.
        row: usize,
    },
    /// A response that the plan does not know.
    #[error("response {row} is none of the batch's {responses}")]
    Unknown {
        /// The index that was asked for, from 0.
        row: usize,
        /// Responses of the batch.
        responses: usize,
    },
    /// A group was evaluated in parts, but the objective compares its responses with each other.
    #[error(
        "group {group} was scored in parts: echo_clip compares all of its successful responses, keep it whole"
    )]
    SplitGroup {
        /// The tag of the group that was not whole.
        group: usize,
    },
    /// The batch has no response.
    #[error("the batch is empty: form a batch before asking for its loss")]
    Empty,
    /// A value that counts is NaN or infinite.
    #[error("objective input `{what}` is not finite in response {row}: drop its group, or skip the update")]
    NonFinite {
        /// The list's name, such as `behaviour` or `rewards`.
        what: &'static str,
        /// Index of the response.
        row: usize,
    },
    /// A setting is outside its domain.
    #[error("objective setting `{setting}` is {value}: it must be {domain}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// The value that the run file gives it.
        value: f64,
        /// The values that are allowed, in words.
        domain: &'static str,
    },
}

/// Refuses a setting that is not above zero and finite.
pub(super) fn finite_above_zero(setting: &'static str, value: f64) -> Result<(), ObjectiveError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(ObjectiveError::Setting { setting, value, domain: "above 0 and finite" })
}

/// Refuses a setting that is negative or not finite.
pub(super) fn finite_from_zero(setting: &'static str, value: f64) -> Result<(), ObjectiveError> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(ObjectiveError::Setting { setting, value, domain: "0 or above, and finite" })
}
