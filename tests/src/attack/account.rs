//! Who said what, and what the learner answered.

use super::acceptance_times::Waits;
use super::kind::LieKind;
use echo_protocol::work::submission::{Outcome, RefuseReason};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrameOutcome {
    /// The learner accepted it as a valid group.
    Accepted,
    /// It was refused for this.
    Refused(RefuseReason),
    /// It should come again, and did not.
    PutOff,
    /// The learner closed the stream, or did not answer in time.
    CutOff,
}

/// What happened to streams that were held open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Held {
    /// Streams that were opened, by all lorises together.
    pub streams: u64,
    /// Those that the learner closed.
    pub closed: u64,
    /// The longest that one was held, in seconds.
    pub longest_s: f64,
}

/// What colluding verifiers did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collusion {
    /// Keys that they used.
    pub keys: u64,
    /// Groups that they were asked about.
    pub asked: u64,
    /// Groups of liars, for which they vouched.
    pub vouched: u64,
    /// Groups of others that they called lies.
    pub denounced: u64,
}

/// The account of an attack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttackAccount {
    /// Lies, by kind and by outcome.
    pub lies: BTreeMap<LieKind, BTreeMap<FrameOutcome, u64>>,
    /// Keys that each liar used, one after the other.
    pub identities: BTreeMap<usize, u64>,
    /// Honest groups that liars delivered to look honest, by outcome.
    pub feigned: BTreeMap<FrameOutcome, u64>,
    /// Frames of floods, by outcome; those without an answer are not here.
    pub flood: BTreeMap<FrameOutcome, u64>,
    /// Frames of floods that were sent.
    pub flooded: u64,
    /// Streams that were held open.
    pub held: Held,
    /// What verifiers said who collude with liars.
    pub collusion: Collusion,
    /// Groups of the honest member in the lab's process, by outcome.
    pub honest: BTreeMap<FrameOutcome, u64>,
    /// How long groups of volunteers took to be decided.
    pub waits: Waits,
}

impl FrameOutcome {
    /// What an answer says.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Accepted => Self::Accepted,
            Outcome::Refused { reason, .. } => Self::Refused(*reason),
            Outcome::Retry => Self::PutOff,
        }
    }

    /// The name used in reports: a refusal's is that of its reason.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused(reason) => reason.name(),
            Self::PutOff => "put_off",
            Self::CutOff => "cut_off",
        }
    }

    /// Whether the learner did not look at what it was sent, because of who sent it.
    #[must_use]
    pub fn is_unheard(self) -> bool {
        self.is_silenced() || self == Self::CutOff
    }

    /// Whether the learner hears nothing of whoever sent it.
    #[must_use]
    pub fn is_silenced(self) -> bool {
        matches!(self, Self::Refused(RefuseReason::Suspended | RefuseReason::Banned))
    }
}

impl Held {
    /// Notes that a stream has been open for so long.
    pub(super) fn lasts(&mut self, time: Duration) {
        self.longest_s = self.longest_s.max(time.as_secs_f64());
    }
}

impl Collusion {
    /// Counts one verdict: whether it was of a liar's group, and whether it called the group a lie.
    pub(super) fn say(&mut self, of_friend: bool, denounced: bool) {
        self.asked += 1;
        self.vouched += u64::from(of_friend);
        self.denounced += u64::from(denounced);
    }
}

impl AttackAccount {
    /// Counts one lie by its kind and by what the learner answered.
    pub(super) fn lie(&mut self, kind: LieKind, outcome: FrameOutcome) {
        *self.lies.entry(kind).or_default().entry(outcome).or_default() += 1;
    }

    /// How many lies were told, of all kinds; floods are not among them.
    #[must_use]
    pub fn lies_told(&self) -> u64 {
        self.lies.values().flat_map(BTreeMap::values).sum()
    }

    /// Lies that the learner looked at.
    #[must_use]
    pub fn heard(&self) -> u64 {
        let answers = self.lies.values().flatten();
        answers.filter(|(outcome, _)| !outcome.is_unheard()).map(|(_, count)| count).sum()
    }

    /// Lies that were accepted, frames of floods among them.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        let lies = self.lies.values().filter_map(|outcomes| outcomes.get(&FrameOutcome::Accepted));
        lies.chain(self.flood.get(&FrameOutcome::Accepted)).sum()
    }

    /// Kinds that were never told the reason that is theirs.
    #[must_use]
    pub fn unanswered(&self) -> Vec<LieKind> {
        let answered = |kind: &LieKind| {
            let outcomes = self.lies.get(kind);
            outcomes.is_some_and(|outcomes| outcomes.contains_key(&FrameOutcome::Refused(kind.reason())))
        };
        LieKind::ALL.into_iter().filter(|kind| !answered(kind)).collect()
    }
}

/// Counts by the names of outcomes.
pub(super) fn named(outcomes: &BTreeMap<FrameOutcome, u64>) -> BTreeMap<&'static str, u64> {
    outcomes.iter().map(|(outcome, count)| (outcome.name(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_says_nothing_about_its_kind() {
        let mut account = AttackAccount::default();
        assert_eq!((account.lies_told(), account.unanswered().len()), (0, LieKind::ALL.len()));
        account.lie(LieKind::Stolen, FrameOutcome::Refused(RefuseReason::Suspended));
        account.lie(LieKind::Stolen, FrameOutcome::CutOff);
        assert_eq!((account.lies_told(), account.heard(), account.accepted()), (2, 0, 0));
        assert!(account.unanswered().contains(&LieKind::Stolen));
        account.lie(LieKind::Stolen, FrameOutcome::Refused(RefuseReason::Identity));
        account.lie(LieKind::EditedToken, FrameOutcome::Accepted);
        account.flood.insert(FrameOutcome::Accepted, 2);
        assert_eq!((account.lies_told(), account.heard(), account.accepted()), (4, 2, 3));
        assert!(!account.unanswered().contains(&LieKind::Stolen));
        assert!(account.unanswered().contains(&LieKind::EditedToken), "an accepted lie has no reason");
    }
}
