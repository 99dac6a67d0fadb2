//! `[buffer]`: how much may wait to be trained on.

use crate::common::option_error::OptionError;
use crate::intake::buffer::BufferLimits;
use crate::storage::MAX_VALUE_BYTES;
use serde::{Deserialize, Serialize};

/// `[buffer]`: groups that wait for a batch. Beyond either bound the oldest are dropped, on the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BufferSection {
    /// Most bytes of them on disk.
    pub max_bytes: u64,
    /// Most groups that may wait; at least `train.groups_per_update`.
    pub max_groups: usize,
}

impl Default for BufferSection {
    fn default() -> Self {
        let BufferLimits { max_bytes, max_groups, .. } = BufferLimits::default();
        Self { max_bytes, max_groups }
    }
}

impl BufferSection {
    /// The same in the buffer's words.
    pub fn limits(&self) -> BufferLimits {
        let Self { max_bytes, max_groups } = *self;
        BufferLimits { max_bytes, max_groups, ..BufferLimits::default() }
    }

    /// What is outside its domain, beside batches of so many groups.
    pub(crate) fn problems(&self, groups_per_update: usize) -> Vec<OptionError> {
        let mut problems = Vec::new();
        if self.max_groups < groups_per_update {
            let (field, found) = ("buffer.max_groups", self.max_groups as u64);
            let rule = "less than train.groups_per_update: no batch would ever come together";
            problems.push(OptionError::Number { field, found, rule });
        }
        if self.max_bytes < MAX_VALUE_BYTES as u64 {
            let (field, found) = ("buffer.max_bytes", self.max_bytes);
            let rule = "it has to be at least 16777216, for the largest group";
            problems.push(OptionError::Number { field, found, rule });
        }
        problems
    }
}
