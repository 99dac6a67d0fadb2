//! `[warmup]`

use crate::common::option_error::{OptionError, above_zero, refused, setting};
use serde::{Deserialize, Serialize};

/// `[warmup]`: supervised updates on the tasks' own solutions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmupSection {
    /// Supervised updates, if no goal ends them earlier; at least 1.
    pub updates: u64,
    /// Examples in a batch.
    pub batch: usize,
    /// Peak learning rate, above 0; a tenth of the updates warm up to it.
    pub learning_rate: f64,
    /// Ends the warm-up early, once this share of fresh orders is answered right; left out,
    /// all updates are made.
    pub until_accuracy: Option<f64>,
}

impl WarmupSection {
    /// What is outside its domain.
    pub(super) fn problems(&self) -> Vec<OptionError> {
        let rate = self.learning_rate;
        let right = rate > 0.0 && rate.is_finite();
        let goal = self.until_accuracy.unwrap_or(1.0);
        let rule = "it is a share of right answers: above 0, at most 1";
        refused([
            above_zero("warmup.updates", self.updates),
            above_zero("warmup.batch", self.batch as u64),
            setting("warmup.learning_rate", rate, right, "it has to be above 0, and finite"),
            setting("warmup.until_accuracy", goal, goal > 0.0 && goal <= 1.0, rule),
        ])
    }
}
