//! `[evaluation]`

use serde::{Deserialize, Serialize};

/// `[evaluation]`: how the policy is measured on held-out orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSection {
    /// Held-out orders, one response each at the run's sampling settings.
    pub orders: u64,
    /// Updates between evaluations; 0: at the start and at the end.
    pub every: u64,
}

impl Default for EvaluationSection {
    fn default() -> Self {
        Self { orders: 512, every: 0 }
    }
}
