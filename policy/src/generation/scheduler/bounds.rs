//! Limits that requests are held to.

use crate::generation::EngineError;

/// Refuses what is beyond its limit, and says what it is.
pub(super) fn within(what: &'static str, value: usize, limit: usize) -> Result<(), EngineError> {
    if value <= limit { Ok(()) } else { Err(EngineError::Limit { what, value, limit }) }
}
