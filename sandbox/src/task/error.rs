//! Failures of the judging itself, which are never rewards.

use std::fmt::Display;

/// A failure to judge. It is never a reward: the work order is done again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The infrastructure failed, whatever the response was worth.
    #[error(
        "task {task} could not judge a response: {reason}; discard the trajectory and lease its order again"
    )]
    Internal {
        /// The name of the task that failed to judge.
        task: &'static str,
        /// The cause in words, for the operator.
        reason: String,
    },
}

impl TaskError {
    /// An infrastructure failure of `task`.
    pub fn internal(task: &'static str, reason: impl Display) -> Self {
        Self::Internal { task, reason: reason.to_string() }
    }
}
