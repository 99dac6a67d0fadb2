//! Which refusals are lies.

use echo_protocol::work::submission::RefuseReason;

/// Whether an honest node may come to send what was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It may: it was slow, was cut off, sent again what it had no answer to, or met a learner that
    /// had begun another run.
    Innocent,
    /// It may not: connections are authenticated and encrypted, outboxes are checked, and an honest
    /// node signs nothing but its own work under its own leases.
    Lie,
}

impl Fault {
    /// What a refusal for `reason` says, if nothing more is known.
    pub fn of(reason: RefuseReason) -> Self {
        match reason {
            RefuseReason::FrameTooLarge
            | RefuseReason::Malformed
            | RefuseReason::Signature
            | RefuseReason::Identity
            | RefuseReason::Schema
            | RefuseReason::UnknownVersion
            | RefuseReason::TaskRules
            | RefuseReason::Reward
            | RefuseReason::Sampling
            | RefuseReason::FalseVerdict => Self::Lie,
            RefuseReason::Run
            | RefuseReason::Lease
            | RefuseReason::Duplicate
            | RefuseReason::Stale
            | RefuseReason::Suspended
            | RefuseReason::Banned => Self::Innocent,
        }
    }
}
