//! How many groups got in, and why the others did not.

use std::collections::BTreeMap;

use echo_protocol::work::submission::{Outcome, RefuseReason};
use serde::{Deserialize, Serialize};

/// Counts of answers, in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionTally {
    /// Groups accepted since the run began, as far as it is on record.
    pub accepted: u64,
    /// Refused, by reason; reasons that never occurred are absent.
    pub refused: BTreeMap<RefuseReason, u64>,
    /// Asked to come again.
    pub retried: u64,
    /// What became of those that were right but for their tokens, which cost most to look at.
    #[serde(default)]
    pub looks: Looks,
}

/// How groups were looked at whose rewards were right, in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Looks {
    /// Taken by their nodes' records, but for one trajectory of each.
    pub skipped: u64,
    /// Audited by the learner at once.
    pub audited: u64,
    /// Taken by the word of a panel, but for one trajectory of each.
    pub vouched: u64,
    /// Audited by the learner after a panel: its verifiers disagreed, or too few said something,
    /// or by a draw.
    pub settled: u64,
    /// Of these, those on which a verifier had said the opposite of what was found.
    pub overturned: u64,
}

/// How one group was looked at; each variant is a count of [`Looks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Counted in [`Looks::skipped`]: the record asked for no full audit.
    Skipped,
    /// Counted in [`Looks::audited`]: the learner looked before it answered.
    Audited,
    /// Counted in [`Looks::vouched`]: a panel's word was enough.
    Vouched,
    /// Counted in [`Looks::settled`]: the learner looked after a panel.
    Settled {
        /// Whether it counts in [`Looks::overturned`] too.
        overturned: bool,
    },
}

impl Looks {
    /// Counts one group that was looked at in this way.
    pub fn record(&mut self, look: Look) {
        match look {
            Look::Skipped => self.skipped += 1,
            Look::Audited => self.audited += 1,
            Look::Vouched => self.vouched += 1,
            Look::Settled { overturned } => {
                self.settled += 1;
                self.overturned += u64::from(overturned);
            }
        }
    }
}

impl AdmissionTally {
    /// Counts one answer to a node; duplicates count as refused.
    pub fn record(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted => self.accepted += 1,
            Outcome::Refused { reason, .. } => *self.refused.entry(*reason).or_default() += 1,
            Outcome::Retry => self.retried += 1,
        }
    }

    /// Refused for whatever reason.
    #[cfg(test)]
    pub(crate) fn refused_in_all(&self) -> u64 {
        self.refused.values().sum()
    }
}
