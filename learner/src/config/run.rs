//! `[run]`

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[run]`: the run's name, place and length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    /// A name for people.
    pub name: String,
    /// The run directory; relative paths are relative to the run file.
    pub dir: PathBuf,
    /// Updates after which the run is finished; at least 1.
    pub updates: u64,
    /// Seed of the random starting weights.
    #[serde(default)]
    pub seed: u64,
}
