//! `[admission]`

use serde::{Deserialize, Serialize};

/// `[admission]`: how closely groups are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionSection {
    /// Whether tokens and log-probabilities are checked against the policy and the order's randomness. It holds a copy of each policy
    /// that nodes may still work under in memory, and costs about a tenth of generating on the learner's processor, less where nodes are known
    /// and where volunteers verify.
    pub audit: bool,
}

impl Default for AdmissionSection {
    fn default() -> Self {
        Self { audit: true }
    }
}
