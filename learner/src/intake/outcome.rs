//! What became of an acknowledged group.

use echo_protocol::run::version::PolicyVersion;
use serde::{Deserialize, Serialize};

/// Why an acknowledged group was not trained on. The names are those of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Older than the staleness budget allows when a batch was formed.
    Stale,
    /// The oldest when the buffer was full.
    Overflow,
    /// Its bytes on disk are not what was written.
    Damaged,
    /// The run ended before it was needed.
    RunEnded,
    /// The filter found all its rewards equal.
    NoSignal,
    /// The filter found its share of right responses outside the bounds.
    PassRate,
    /// It was in a database that is gone: the run went on from a checkpoint alone.
    Lost,
}

impl DropReason {
    /// The name used in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Overflow => "overflow",
            Self::Damaged => "damaged",
            Self::RunEnded => "run_ended",
            Self::NoSignal => "no_signal",
            Self::PassRate => "pass_rate",
            Self::Lost => "lost",
        }
    }
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStatus {
    /// Arrived, not durable yet.
    Staged,
    /// Durable, and waits for a batch.
    Waiting,
    /// In the batch of this update, which no settled checkpoint covers yet.
    Batched {
        /// The policy version that the batch was formed at.
        update: PolicyVersion,
    },
    /// In the batch of an update that a settled checkpoint covers.
    Trained {
        /// The policy version that the batch was formed at.
        update: PolicyVersion,
    },
    /// Not trained on, ever.
    Dropped {
        /// The reason, as the account of [`Totals`](crate::intake::buffer::Totals) has it.
        reason: DropReason,
    },
}
