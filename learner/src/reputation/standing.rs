//! Whether a key or a network is heard, and for how long it is not.

use echo_protocol::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};

use super::{MAX_REASON_BYTES, MAX_SUSPENSION_MS};

/// Whether somebody is heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Its groups are accepted; the standing of everybody at first.
    #[default]
    Good,
    /// Not before this time.
    Suspended(UnixMillis),
    /// Not before it is pardoned.
    Banned,
}

/// The `nth` suspension, counted from 1: each is twice as long as the one before.
pub(super) fn doubled(first_ms: u64, nth: u32) -> u64 {
    let factor = 1u64.checked_shl(nth.saturating_sub(1)).unwrap_or(u64::MAX);
    first_ms.saturating_mul(factor).min(MAX_SUSPENSION_MS)
}

/// An operator's reason, as long as it may be.
pub(super) fn short(reason: &str) -> String {
    reason[..reason.floor_char_boundary(MAX_REASON_BYTES)].to_owned()
}
