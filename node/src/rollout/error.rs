//! Why orders in flight come to nothing.

use echo_policy::generation::EngineError;

use crate::delivery::outbox::OutboxError;
use crate::workload::NodeWorkloadError;

/// Why what was in flight came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RolloutError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Workload(#[from] NodeWorkloadError),
    #[error(transparent)]
    Outbox(#[from] OutboxError),
}

impl RolloutError {
    /// Whether it is one order's own fault: a prompt without tokens, or with too many.
    pub(crate) fn is_of_order(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_of_request(),
            Self::Workload(NodeWorkloadError::Tokenizer(error)) => error.is_of_text(),
            Self::Workload(_) | Self::Outbox(_) => false,
        }
    }
}
