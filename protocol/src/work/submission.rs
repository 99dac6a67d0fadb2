//! What the learner answers to a submitted group.

use crate::wire::signed::Signed;
use crate::work::order::OrderCounter;
use crate::work::receipt::Receipt;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest encoded answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1024;

/// The learner's answer to one group; sent only after what it says is durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Which order; `None` when the message was too broken to tell.
    pub counter: Option<OrderCounter>,
    /// What became of it.
    pub outcome: Outcome,
    /// The receipt of a group that is accepted, now or before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<Signed<Receipt>>>,
}

/// What became of a submitted group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Durable at the learner: it will be trained on, or dropped with a recorded reason. The
    /// node may forget it.
    Accepted,
    /// Will never be accepted; sending it again is pointless.
    Refused {
        /// The stage at which the group failed.
        reason: RefuseReason,
        /// Details for the node's owner.
        detail: String,
    },
    /// The learner could not decide now (a full disk, say). Nothing is held against the node;
    /// it sends again later.
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
    /// Lengths, ranges, versions or what is declared contradict each other or the charter.
    /// Or, which is nobody's lie, the learner does not take a declared precision any more
    /// that the charter lists.
    Schema,
    /// The node holds no such lease.
    Lease,
    /// The order has already been delivered.
    Duplicate,
    /// Names a version that was never published.
    UnknownVersion,
    /// Older than the staleness budget allows.
    Stale,
    /// The response breaks a rule of its task: wrong termination, no text. Or, which is nobody's
    /// lie, its task cannot judge it.
    TaskRules,
    /// The reward is not what the response earns.
    Reward,
    /// The tokens are not those that the policy and the order's randomness give, or their
    /// log-probabilities are not the policy's. Or, which is nobody's lie, they were computed in a
    /// way that the learner cannot audit.
    Sampling,
    /// A verifier vouched for a lie, or called the truth one. Stands in records only: no group
    /// is refused for it.
    FalseVerdict,
    /// The node, or its network, has lied too often and is not heard for some time. The
    /// detail says until when.
    Suspended,
    /// The node is not heard any more, until the run's operator pardons it.
    Banned,
}

impl Answer {
    /// An answer without a receipt.
    pub fn new(counter: Option<OrderCounter>, outcome: Outcome) -> Self {
        Self { counter, outcome, receipt: None }
    }

    /// The same for a node that speaks version 1, which knows neither receipts nor
    /// suspensions nor the audit. Who is not heard holds no lease, so this is what it is
    /// told; the detail says the rest.
    #[must_use]
    pub fn in_version_1(self) -> Self {
        let outcome = match self.outcome {
            Outcome::Refused { reason: RefuseReason::Suspended | RefuseReason::Banned, detail } => {
                Outcome::Refused { reason: RefuseReason::Lease, detail }
            }
            Outcome::Refused { reason: RefuseReason::Sampling, detail } => {
                Outcome::Refused { reason: RefuseReason::Reward, detail }
            }
            other => other,
        };
        Self::new(self.counter, outcome)
    }
}

impl RefuseReason {
    /// Every reason, each once.
    pub const ALL: [Self; 16] = [
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
        Self::FalseVerdict,
        Self::Suspended,
        Self::Banned,
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
            Self::FalseVerdict => "false_verdict",
            Self::Suspended => "suspended",
            Self::Banned => "banned",
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

    /// Longest encoded answer that a node of version 1 reads, in bytes.
    const MAX_ANSWER_1_BYTES: usize = 512;

    #[test]
    fn names_are_the_names_on_the_wire() {
        for reason in RefuseReason::ALL {
            let bytes = crate::wire::codec::encode(&reason, 64).unwrap();
            assert_eq!(crate::wire::codec::decode::<String>(&bytes, 64).unwrap(), reason.name());
        }
    }

    #[test]
    fn answers_fit_their_limit() {
        let refused = Outcome::Refused { reason: RefuseReason::FrameTooLarge, detail: "x".repeat(300) };
        let answer = Answer::new(Some(OrderCounter(u64::MAX)), refused);
        let bytes = crate::wire::codec::encode(&answer, MAX_ANSWER_1_BYTES).unwrap();
        assert_eq!(crate::wire::codec::decode::<Answer>(&bytes, MAX_ANSWER_BYTES).unwrap(), answer);
    }

    #[test]
    fn who_speaks_version_1_is_told_only_what_it_knows() {
        /// As version 1 reads it.
        #[derive(Debug, PartialEq, Deserialize)]
        struct Answer1 {
            counter: Option<OrderCounter>,
            outcome: Outcome1,
        }
        #[derive(Debug, PartialEq, Deserialize)]
        enum Outcome1 {
            Accepted,
            Refused { reason: String, detail: String },
            Retry,
        }
        let detail = "until tomorrow".to_owned();
        for reason in [RefuseReason::Suspended, RefuseReason::Banned] {
            let outcome = Outcome::Refused { reason, detail: detail.clone() };
            let answer = Answer::new(Some(OrderCounter(7)), outcome).in_version_1();
            let bytes = crate::wire::codec::encode(&answer, MAX_ANSWER_1_BYTES).unwrap();
            let read: Answer1 = crate::wire::codec::decode(&bytes, MAX_ANSWER_1_BYTES).unwrap();
            let expected = Outcome1::Refused { reason: "lease".into(), detail: detail.clone() };
            assert_eq!(read, Answer1 { counter: Some(OrderCounter(7)), outcome: expected });
        }
        for (outcome, expected) in
            [(Outcome::Accepted, Outcome1::Accepted), (Outcome::Retry, Outcome1::Retry)]
        {
            let bytes = crate::wire::codec::encode(&Answer::new(None, outcome).in_version_1(), 512).unwrap();
            assert_eq!(crate::wire::codec::decode::<Answer1>(&bytes, 512).unwrap().outcome, expected);
        }
    }
}
