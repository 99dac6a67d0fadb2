//! `[snapshot]`

use crate::common::option_error::OptionError;
use echo_protocol::snapshot::manifest::TensorType;
use serde::{Deserialize, Serialize};

/// Most published versions that may be kept.
pub const MAX_KEEP_VERSIONS: usize = 16;

/// `[snapshot]`: the form in which policies are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotSection {
    /// Element type of published tensors: `f32`, `bf16` or `f16`.
    pub dtype: TensorType,
    /// Size of a chunk in bytes.
    pub chunk_bytes: u32,
    /// K: published versions that are kept, so that nodes which hold any of them need only deltas.
    pub keep_versions: usize,
}

impl Default for SnapshotSection {
    fn default() -> Self {
        Self { dtype: TensorType::Bf16, chunk_bytes: 4 << 20, keep_versions: 3 }
    }
}

impl SnapshotSection {
    pub(crate) fn validate(&self) -> Result<(), OptionError> {
        if (1..=MAX_KEEP_VERSIONS).contains(&self.keep_versions) {
            return Ok(());
        }
        let (field, found) = ("snapshot.keep_versions", self.keep_versions as u64);
        Err(OptionError::Number { field, found, rule: "it has to be 1 to 16" })
    }
}
