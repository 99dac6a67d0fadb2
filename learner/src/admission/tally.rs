//! How many groups got in, and why the others did not.

use std::collections::BTreeMap;

use echo_protocol::submission::{Outcome, RefuseReason};
use serde::{Deserialize, Serialize};

/// Counts of answers, in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Accepted.
    pub accepted: u64,
    /// Refused, by reason; reasons that never occurred are absent.
    pub refused: BTreeMap<RefuseReason, u64>,
    /// Asked to come again.
    pub retried: u64,
}

impl Tally {
    /// Counts one answer.
    pub fn record(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted => self.accepted += 1,
            Outcome::Refused { reason, .. } => *self.refused.entry(*reason).or_default() += 1,
            Outcome::Retry => self.retried += 1,
        }
    }

    /// Refused for whatever reason.
    pub fn refused_in_all(&self) -> u64 {
        self.refused.values().sum()
    }
}
