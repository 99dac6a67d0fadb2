//! What attackers did, and what they were told.

use crate::attack::account::FrameOutcome;
use echo_protocol::wire::identity::PublicKey;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// How many sleepers there are.
pub(super) const SLEEPERS: usize = 2;
/// Groups of each that are accepted before it lies: far behind any newcomer's time.
const HONEST_FIRST: u64 = 700;

/// Counts that all attackers of a course add to.
#[derive(Default)]
pub(super) struct Tally(Mutex<Counts>);

/// All counts at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Keys that were used.
    pub(super) keys: BTreeSet<PublicKey>,
    /// What was done, by its name.
    pub(super) done: BTreeMap<&'static str, u64>,
    /// False groups by what the learner made of them.
    pub(super) lies: BTreeMap<FrameOutcome, u64>,
    /// Honest groups of each sleeper that were accepted before it lied.
    pub(super) rested: BTreeMap<usize, u64>,
}

impl Tally {
    /// Notes a key that attacks.
    pub(super) fn key(&self, key: PublicKey) {
        self.0.lock().keys.insert(key);
    }

    /// Counts something that was done to others, or by them.
    pub(super) fn count(&self, what: &'static str, times: u64) {
        *self.0.lock().done.entry(what).or_default() += times;
    }

    /// Counts a false group.
    pub(super) fn lie(&self, outcome: FrameOutcome) {
        *self.0.lock().lies.entry(outcome).or_default() += 1;
    }

    /// Counts an honest group of a sleeper that was accepted.
    pub(super) fn rest(&self, sleeper: usize) {
        *self.0.lock().rested.entry(sleeper).or_default() += 1;
    }

    /// All that was counted so far.
    pub(super) fn counts(&self) -> Counts {
        self.0.lock().clone()
    }
}

impl Counts {
    /// Whether every sleeper has its record.
    pub(super) fn are_rested(&self) -> bool {
        (0..SLEEPERS).all(|sleeper| self.rested.get(&sleeper).is_some_and(|count| *count >= HONEST_FIRST))
    }

    /// False groups that the learner looked at, and those of them that it accepted.
    pub(super) fn heard_and_accepted(&self) -> (u64, u64) {
        let heard = self.lies.iter().filter(|(outcome, _)| !outcome.is_unheard());
        let accepted = self.lies.get(&FrameOutcome::Accepted).copied();
        (heard.map(|(_, count)| count).sum(), accepted.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::work::submission::RefuseReason;

    #[test]
    fn only_what_is_looked_at_counts_as_a_lie() {
        let tally = Tally::default();
        tally.lie(FrameOutcome::Accepted);
        tally.lie(FrameOutcome::Refused(RefuseReason::Sampling));
        tally.lie(FrameOutcome::Refused(RefuseReason::Suspended));
        tally.lie(FrameOutcome::CutOff);
        assert_eq!(tally.counts().heard_and_accepted(), (2, 1));
    }

    #[test]
    fn all_sleepers_have_to_have_their_record() {
        let tally = Tally::default();
        for sleeper in 0..SLEEPERS {
            assert!(!tally.counts().are_rested());
            (0..HONEST_FIRST).for_each(|_| tally.rest(sleeper));
        }
        assert!(tally.counts().are_rested());
    }
}
