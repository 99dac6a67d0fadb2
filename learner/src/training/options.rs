//! `[train]`

use crate::intake::filter::Filter;
use crate::intake::filter::options::FilterSection;
use crate::training::device::TrainDevice;
use crate::training::lr_schedule::Schedule;
use crate::training::objective::{ObjectiveChoice, Preset};
use crate::training::optimizer::Guard;
use crate::training::precision_weights::PrecisionWeights;
use crate::training::trainer::grouping::GroupBy;
use echo_policy::training::decoder::{Activations, Compute};
use serde::{Deserialize, Serialize};

/// `[train]`: objective, batch, optimizer, device and what is not trained on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSection {
    /// The objective and its settings.
    pub objective: ObjectiveChoice,
    /// Which responses a reward is compared with: `order` (those to the same order), `private_hand`
    /// (those of the batch in which the policy was dealt the same hand) or `batch`.
    pub group_by: GroupBy,
    /// Work orders (prompts) in a batch: R = this × G trajectories.
    pub groups_per_update: usize,
    /// Optimizer steps of an update, each on its own share of the batch's groups (AReaL's PPO minibatches).
    pub minibatches: usize,
    /// The learning rate, by optimizer step.
    pub schedule: Schedule,
    /// AdamW's decoupled weight decay.
    pub weight_decay: f64,
    /// Largest global gradient norm.
    pub max_grad_norm: f64,
    /// Tokens in one forward pass, at most; a batch is split to stay below. Memory grows with this,
    /// and with the longest sequence (with EchoClip, the longest group) where that is longer.
    pub micro_batch_tokens: usize,
    /// What is held in memory between forward and backward: `keep`, or `recompute` for less memory
    /// and a third more computing.
    pub activations: Activations,
    /// Where the policy is trained: `auto`, `cpu`, `cuda` or `cuda:N`.
    pub device: TrainDevice,
    /// Precision of matrix products: `f32`, or `bf16` on a GPU.
    pub compute: Compute,
    /// Updates in a row without a step, after which the run stops.
    pub max_skipped: u32,
    /// Which gradients are not stepped on.
    pub guard: Guard,
    /// Which groups are not trained on.
    pub filter: FilterSection,
    /// What responses weigh by the precision in which they were computed.
    pub precision_weight: PrecisionWeights,
}

impl Default for TrainSection {
    fn default() -> Self {
        Self {
            objective: ObjectiveChoice::default(),
            group_by: GroupBy::default(),
            groups_per_update: 16,
            minibatches: 1,
            schedule: Schedule::constant(1e-6, 10),
            weight_decay: 0.0,
            max_grad_norm: 1.0,
            micro_batch_tokens: 16 << 10,
            activations: Activations::Keep,
            device: TrainDevice::default(),
            compute: Compute::default(),
            max_skipped: 20,
            guard: Guard::default(),
            filter: FilterSection::default(),
            precision_weight: PrecisionWeights::default(),
        }
    }
}

impl TrainSection {
    /// The filter that the settings come to.
    #[must_use]
    pub fn filter(&self) -> Filter {
        let dynamic = self.filter.dynamic.unwrap_or(self.objective.preset == Preset::Dapo);
        let echo_clip = self.objective.objective.echo_clip.is_some();
        Filter { no_signal: dynamic, echo_clip, pass_rate: self.filter.pass_rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_compared_within_an_order_unless_the_file_says_otherwise() {
        let group_by = |train: &str| toml::from_str::<TrainSection>(train).map(|section| section.group_by);
        assert_eq!(group_by("").unwrap(), GroupBy::Order);
        assert_eq!(group_by("group_by = 'private_hand'").unwrap(), GroupBy::PrivateHand);
        assert_eq!(group_by("group_by = 'batch'").unwrap(), GroupBy::Batch);
        assert!(group_by("group_by = 'prompt'").is_err());
    }

    #[test]
    fn dynamic_sampling_belongs_to_dapo() {
        let filter = |train: &str| toml::from_str::<TrainSection>(train).unwrap().filter();
        assert_eq!(filter(""), Filter::default());
        assert!(filter("objective = { name = 'dapo' }").no_signal);
        assert!(!filter("objective = { name = 'dapo' }\nfilter = { dynamic = false }").no_signal);
        let echo =
            "objective = { name = 'grpo', echo_clip = { lambda = 0.001 } }\nfilter = { dynamic = true }";
        assert_eq!(filter(echo), Filter { no_signal: true, echo_clip: true, pass_rate: None });
    }
}
