//! What is stored about a group.

use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::OrderCounter;
use serde::{Deserialize, Serialize};

use super::totals::Count;
use crate::intake::outcome::{DropReason, OrderStatus};
use crate::intake::stored_group::StoredGroup;
use crate::storage::unseal;

/// What the index knows about a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupEntry {
    pub(super) counter: OrderCounter,
    pub(super) arrival: u64,
    pub(super) oldest: PolicyVersion,
    pub(super) newest: PolicyVersion,
    pub(super) trajectories: u32,
    /// Length of the stored group.
    pub(super) bytes: u64,
}

impl GroupEntry {
    /// The entry of `group`; `None` when no token has a version.
    pub(super) fn of(group: &StoredGroup, bytes: u64) -> Option<Self> {
        Some(Self {
            counter: group.group.counter,
            arrival: group.arrival,
            oldest: group.group.oldest_version()?,
            newest: group.group.newest_version()?,
            trajectories: u32::try_from(group.group.trajectories.len()).ok()?,
            bytes,
        })
    }

    /// Oldest first: by the oldest token's version, then by the order's number.
    pub(super) fn age(&self) -> (PolicyVersion, OrderCounter) {
        (self.oldest, self.counter)
    }

    pub(super) fn key(&self) -> [u8; 8] {
        self.counter.0.to_be_bytes()
    }

    pub(super) fn count(&self) -> Count {
        Count { groups: 1, trajectories: u64::from(self.trajectories) }
    }

    /// Whether it may be trained on in the batch that is formed at `version`.
    pub(super) fn ready(&self, version: PolicyVersion, staleness: &Staleness) -> bool {
        self.newest <= version && staleness.admits(self.oldest, version)
    }

    /// Whether it can never be trained on again. A version from the future waits for the learner to catch up.
    pub(super) fn stale(&self, version: PolicyVersion, staleness: &Staleness) -> bool {
        self.oldest <= version && !staleness.admits(self.oldest, version)
    }
}

/// What became of a group in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Final {
    /// The update it was trained at, or why it was dropped.
    pub(super) outcome: Result<PolicyVersion, DropReason>,
    pub(super) trajectories: u32,
}

/// The status that a record of the tree of final outcomes says.
pub(super) fn final_status(record: &[u8]) -> OrderStatus {
    match unseal::<Final>(record).map(|end| end.outcome) {
        Some(Ok(update)) => OrderStatus::Trained { update },
        Some(Err(reason)) => OrderStatus::Dropped { reason },
        None => OrderStatus::Dropped { reason: DropReason::Damaged },
    }
}

/// The number that a key of the buffer's trees is.
pub(super) fn counter(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}
