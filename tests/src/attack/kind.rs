//! The kinds of lies.

use echo_protocol::work::submission::RefuseReason;

/// One way of lying. All but the first few are told with a group that would be accepted, of which
/// one thing is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LieKind {
    /// Nested CBOR that is no group.
    Malformed,
    /// A frame of a gigabyte, announced.
    Oversized,
    /// Somebody else's signature over the group.
    ForgedSignature,
    /// A token altered after signing.
    AlteredAfterSigning,
    /// Somebody else's key over our signature.
    BorrowedKey,
    /// Somebody else named as the node.
    BorrowedName,
    /// A group of somebody else, which the learner has accepted from them.
    Stolen,
    /// A group of our own that the learner has accepted.
    Replay,
    /// A group that names another run than the one it was leased by.
    WrongRun,
    /// One sample fewer than the order asks for.
    WrongSize,
    /// A lease that was never granted.
    NoLease,
    /// An order that our lease does not cover.
    PoachedOrder,
    /// A version of the future.
    UnknownVersion,
    /// A version that is too old.
    StaleVersion,
    /// One response under another version than the others of its group, drawn for it alone.
    OtherSchedule,
    /// A response that says it ended otherwise than it did.
    WrongEnd,
    /// A reward that the response does not earn.
    InflatedReward,
    /// A reward that is smaller than what the response earns.
    WithheldReward,
    /// A token edited, with the log-probabilities and the reward that the edited response has.
    EditedToken,
    /// Log-probabilities that the policy did not give.
    MadeUpLogprobs,
    /// The task's solution in place of every sample, with the policy's log-probabilities of it.
    CopiedAnswer,
    /// Samples drawn at another temperature, with the log-probabilities that the
    /// order's temperature gives them.
    OtherTemperature,
    /// Of every four draws the one with the best reward: randomness that is not the order's.
    BestOfFour,
}

impl LieKind {
    /// Every kind, in the order in which a liar tells them.
    pub const ALL: [Self; 23] = [
        Self::Malformed,
        Self::InflatedReward,
        Self::EditedToken,
        Self::ForgedSignature,
        Self::UnknownVersion,
        Self::CopiedAnswer,
        Self::BorrowedName,
        Self::Oversized,
        Self::BestOfFour,
        Self::NoLease,
        Self::MadeUpLogprobs,
        Self::Replay,
        Self::WrongSize,
        Self::AlteredAfterSigning,
        Self::OtherTemperature,
        Self::Stolen,
        Self::StaleVersion,
        Self::OtherSchedule,
        Self::WrongEnd,
        Self::WithheldReward,
        Self::BorrowedKey,
        Self::PoachedOrder,
        Self::WrongRun,
    ];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Oversized => "oversized",
            Self::ForgedSignature => "forged_signature",
            Self::AlteredAfterSigning => "altered_after_signing",
            Self::BorrowedKey => "borrowed_key",
            Self::BorrowedName => "borrowed_name",
            Self::Stolen => "stolen",
            Self::Replay => "replay",
            Self::WrongRun => "wrong_run",
            Self::WrongSize => "wrong_size",
            Self::NoLease => "no_lease",
            Self::PoachedOrder => "poached_order",
            Self::UnknownVersion => "unknown_version",
            Self::StaleVersion => "stale_version",
            Self::OtherSchedule => "other_schedule",
            Self::WrongEnd => "wrong_end",
            Self::InflatedReward => "inflated_reward",
            Self::WithheldReward => "withheld_reward",
            Self::EditedToken => "edited_token",
            Self::MadeUpLogprobs => "made_up_logprobs",
            Self::CopiedAnswer => "copied_answer",
            Self::OtherTemperature => "other_temperature",
            Self::BestOfFour => "best_of_four",
        }
    }

    /// What a learner that hears the liar has to say.
    #[must_use]
    pub fn reason(self) -> RefuseReason {
        match self {
            Self::Malformed => RefuseReason::Malformed,
            Self::Oversized => RefuseReason::FrameTooLarge,
            Self::ForgedSignature | Self::AlteredAfterSigning => RefuseReason::Signature,
            Self::BorrowedKey | Self::BorrowedName | Self::Stolen => RefuseReason::Identity,
            Self::Replay => RefuseReason::Duplicate,
            Self::WrongRun => RefuseReason::Run,
            Self::WrongSize | Self::OtherSchedule => RefuseReason::Schema,
            Self::NoLease | Self::PoachedOrder => RefuseReason::Lease,
            Self::UnknownVersion => RefuseReason::UnknownVersion,
            Self::StaleVersion => RefuseReason::Stale,
            Self::WrongEnd => RefuseReason::TaskRules,
            Self::InflatedReward | Self::WithheldReward => RefuseReason::Reward,
            Self::EditedToken
            | Self::MadeUpLogprobs
            | Self::CopiedAnswer
            | Self::OtherTemperature
            | Self::BestOfFour => RefuseReason::Sampling,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_is_told_and_named_once() {
        let names: BTreeSet<_> = LieKind::ALL.iter().map(|kind| kind.name()).collect();
        let kinds: BTreeSet<_> = LieKind::ALL.iter().collect();
        assert_eq!((names.len(), kinds.len()), (LieKind::ALL.len(), LieKind::ALL.len()));
    }
}
