//! The one place that reads a clock. Drivers call it and hand the result to the machines.

use crate::time::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock now; the epoch itself when the system's clock is set before 1970.
#[allow(clippy::disallowed_methods)] // The ban exists so that this stays the only reader.
pub fn now() -> UnixMillis {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}
