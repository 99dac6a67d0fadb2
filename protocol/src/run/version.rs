//! Policy versions.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of learner updates that a set of weights has seen (v in the papers). Every token carries
/// the version that produced it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PolicyVersion(pub u64);

impl PolicyVersion {
    /// The version after one more update.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Updates from `older` to this version (Δ in ECHO-2 §3.2); 0 when `older` is newer.
    pub fn lag_behind(self, older: Self) -> u64 {
        self.0.saturating_sub(older.0)
    }
}

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}
