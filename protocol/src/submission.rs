//! What the learner answers to a submitted group.

use crate::order::OrderCounter;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest encoded answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 512;

/// The learner's answer to one group; sent only after what it says is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Which order; `None` when the message was too broken to tell.
    pub counter: Option<OrderCounter>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a submitted group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Durable at the learner: it will be trained on, or dropped with a recorded reason. The node may forget it.
    Accepted,
    /// Will never be accepted; sending it again is pointless.
    Refused {
        /// Why.
        reason: RefuseReason,
        /// Details for the node's owner.
        detail: String,
    },
    /// The learner could not decide now (a full disk, say). Nothing is held against the node; it sends again later.
    Retry,
}

/// Why a group is refused. The names are those of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefuseReason {
    /// The frame claims more bytes than a group may have.
    FrameTooLarge,
    /// Not CBOR, or not a group.
    Malformed,
    /// The signature does not match the bytes.
    Signature,
    /// Signed by, or naming, somebody else than the peer that sent it.
    Identity,
    /// Belongs to another run.
    Run,
    /// Lengths, ranges or versions contradict each other or the charter.
    Schema,
    /// The node holds no such lease.
    Lease,
    /// The order has already been delivered.
    Duplicate,
    /// Names a version that was never published.
    UnknownVersion,
    /// Older than the staleness budget allows.
    Stale,
    /// The response breaks a rule of its task: wrong termination, no text.
    TaskRules,
    /// The reward is not what the response earns.
    Reward,
    /// The tokens are not those that the policy and the order's randomness give, or their log-probabilities are not the policy's.
    Sampling,
}

impl RefuseReason {
    /// Every reason.
    pub const ALL: [Self; 13] = [
        Self::FrameTooLarge,
        Self::Malformed,
        Self::Signature,
        Self::Identity,
        Self::Run,
        Self::Schema,
        Self::Lease,
        Self::Duplicate,
        Self::UnknownVersion,
        Self::Stale,
        Self::TaskRules,
        Self::Reward,
        Self::Sampling,
    ];

    /// The name used in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::FrameTooLarge => "frame_too_large",
            Self::Malformed => "malformed",
            Self::Signature => "signature",
            Self::Identity => "identity",
            Self::Run => "run",
            Self::Schema => "schema",
            Self::Lease => "lease",
            Self::Duplicate => "duplicate",
            Self::UnknownVersion => "unknown_version",
            Self::Stale => "stale",
            Self::TaskRules => "task_rules",
            Self::Reward => "reward",
            Self::Sampling => "sampling",
        }
    }
}

impl fmt::Display for RefuseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_names_on_the_wire() {
        for reason in RefuseReason::ALL {
            let bytes = crate::codec::encode(&reason, 64).unwrap();
            assert_eq!(crate::codec::decode::<String>(&bytes, 64).unwrap(), reason.name());
        }
    }

    #[test]
    fn answers_fit_their_limit() {
        let refused = Outcome::Refused { reason: RefuseReason::FrameTooLarge, detail: "x".repeat(300) };
        let answer = Answer { counter: Some(OrderCounter(u64::MAX)), outcome: refused };
        let bytes = crate::codec::encode(&answer, MAX_ANSWER_BYTES).unwrap();
        assert_eq!(crate::codec::decode::<Answer>(&bytes, MAX_ANSWER_BYTES).unwrap(), answer);
    }
}
