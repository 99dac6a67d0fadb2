//! Numbers among the settings that have a range.

use std::ops::RangeInclusive;
use std::thread;

use super::Settings;

/// A setting whose number lies outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {found}; set it to {allowed}")]
pub struct OutOfRange {
    /// The setting's name, as in the settings file.
    pub setting: &'static str,
    /// The number that was found.
    pub found: u64,
    /// The range in words, such as `1 to 8`.
    pub allowed: String,
}

/// Checks that `found` lies within `range`.
pub(crate) fn within(
    setting: &'static str,
    found: u64,
    range: RangeInclusive<u64>,
) -> Result<(), OutOfRange> {
    if range.contains(&found) {
        return Ok(());
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(OutOfRange { setting, found, allowed })
}

/// The processor cores that this process may use, at least 1.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Settings {
    /// Whether there are as many cores as threads are asked for, and one at least is.
    pub(crate) fn check_threads(&self) -> Result<(), OutOfRange> {
        within("threads", self.threads as u64, 1..=cores() as u64)
    }
}
