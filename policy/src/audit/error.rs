//! Why an audit says nothing.

use super::CannotAudit;
use crate::generation::EngineError;

/// Why samples were not audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Not these, and not here.
    #[error(transparent)]
    Cannot(#[from] CannotAudit),
    /// A policy could not be loaded or asked.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
