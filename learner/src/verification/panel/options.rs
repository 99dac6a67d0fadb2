//! `[verify]`

use crate::common::option_error::OptionError;
use crate::reputation::owner::Owners;
use crate::verification::panel::{MAX_MEMBERS, PanelConfig};
use serde::{Deserialize, Serialize};

/// Longest time for verifiers, in seconds: a node takes a learner for dead that answers nothing for twenty.
const MAX_WITHIN_S: u64 = 15;

/// `[verify]`: how volunteers look at the groups of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifySection {
    /// Verifiers that are asked about a group; 0: none are.
    pub n: usize,
    /// How many of them have to vouch for it, and nobody may denounce it, lest the learner looks itself.
    pub k: usize,
    /// Seconds that they have.
    pub within_s: u64,
    /// What counts as one owner: `network` or `key`.
    pub owners: Owners,
}

impl Default for VerifySection {
    fn default() -> Self {
        let PanelConfig { n, k, within_ms, owners } = PanelConfig::default();
        Self { n, k, within_s: within_ms / 1_000, owners }
    }
}

impl VerifySection {
    /// An n above 16, a k above n, and times outside of 1 to 15 seconds.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        let most = self.n.min(MAX_MEMBERS);
        let checks = [
            ("verify.n", self.n as u64, self.n <= MAX_MEMBERS, "it has to be at most 16; 0 asks no verifier"),
            (
                "verify.k",
                self.k as u64,
                self.n == 0 || (1..=most).contains(&self.k),
                "it has to be 1 to verify.n",
            ),
            (
                "verify.within_s",
                self.within_s,
                (1..=MAX_WITHIN_S).contains(&self.within_s),
                "it has to be 1 to 15: nodes take a learner for dead that answers nothing for 20 seconds",
            ),
        ];
        let wrong = checks.into_iter().filter(|(_, _, holds, _)| !holds);
        wrong.map(|(field, found, _, rule)| OptionError::Number { field, found, rule }).collect()
    }

    /// The same for the panel.
    pub fn config(&self) -> PanelConfig {
        let Self { n, k, within_s, owners } = *self;
        PanelConfig { n, k, within_ms: within_s.saturating_mul(1_000), owners }
    }
}
