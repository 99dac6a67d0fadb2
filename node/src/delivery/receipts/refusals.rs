//! Counts of refused groups, from start to start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::RefuseReason;
use serde::{Deserialize, Serialize};

use crate::state::state_file;
use crate::state::state_file::StateError;

/// Longest detail that is kept, in characters.
const MAX_DETAIL: usize = 300;

/// Groups that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedGroups {
    /// Groups refused for this reason, over all starts.
    pub groups: u64,
    /// When the last one was.
    pub last_at: UnixMillis,
    /// The order of the last one.
    pub last_order: OrderCounter,
    /// What the learner said of it.
    pub detail: String,
}

/// The counts of a run, by reason, and their file.
#[derive(Debug)]
pub(super) struct RefusalCounts {
    path: PathBuf,
    counts: BTreeMap<String, RefusedGroups>,
}

impl RefusalCounts {
    pub(super) fn open(path: PathBuf) -> Result<Self, StateError> {
        let counts = match state_file::read(&path) {
            Ok(counts) => counts.unwrap_or_default(),
            Err(error @ StateError::Damaged { .. }) => {
                tracing::warn!(%error, "refused groups are counted anew");
                BTreeMap::new()
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path, counts })
    }

    pub(super) fn add(
        &mut self,
        now: UnixMillis,
        counter: OrderCounter,
        reason: RefuseReason,
        detail: &str,
    ) -> Result<(), StateError> {
        let before = self.counts.get(reason.name()).map_or(0, |refused| refused.groups);
        let detail = detail.chars().take(MAX_DETAIL).collect();
        let refused = RefusedGroups { groups: before + 1, last_at: now, last_order: counter, detail };
        self.counts.insert(reason.name().to_owned(), refused);
        state_file::write(&self.path, &self.counts, false)
    }
}
