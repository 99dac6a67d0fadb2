//! What an update computed, and how long it scored before its first step.

use echo_policy::model::config::ModelConfig;
use echo_policy::training::flops::ScoringWork;

/// What an update computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Tokens that went forward and backward.
    pub trained: ScoringWork,
    /// Forward only: by the policy at the start of the update, and by the reference.
    pub scored: ScoringWork,
    /// Seconds of scoring by the policy at the start of the update.
    pub proximal_s: f64,
    /// Seconds of scoring by the reference.
    pub reference_s: f64,
}

impl Effort {
    /// Model FLOPs; see [`echo_policy::training::flops`] for what counts.
    #[must_use]
    pub fn flops(&self, model: &ModelConfig) -> f64 {
        model.training_flops(&self.trained) + model.forward_flops(&self.scored)
    }
}
