//! Objectives: what an update minimises, as a function of per-token log-probabilities.
//!
//! An objective is put together from parts (RLAX §4, eq. 3), one file each:
//!
//! loss = -Σ_i Σ_t a_i c_{i,t} ( J(r_{i,t}, A_i) - β KL_{i,t} + η H_{i,t} ) + λ EchoClip
//!
//! | | part | gradient |
//! |---|---|---|
//! | a | [`Aggregation`]: the weight of a token | none |
//! | c | [`Correction`]: for what another policy sampled | none |
//! | r | [`Ratio`]: of the policy to another, by token, response or group | yes |
//! | A | [`Advantage`] | none |
//! | J | [`Surrogate`]: what becomes of ratio and advantage | yes |
//! | KL | [`Kl`]: distance from another policy | yes |
//! | EchoClip | [`EchoClip`] | yes |
//!
//! GEPO, the default, is the ratio [`Ratio::Group`], with its group expectation in `ratio.rs`.
//! `plan.rs` computes loss and gradients of every objective.
//!
//! [`Preset`] names well-known compositions. Adding an objective means adding a part, or a line to
//! the presets: the trainer only gives log-probabilities and takes back their gradients.
//!
//! An objective sees no tensors. A batch is planned once ([`Objective::plan`]): that fixes all that
//! is constant in θ, such as weights of tokens, group expectations and masks. Any part of it is
//! then evaluated ([`ObjectivePlan::evaluate`]), in f64, from the log-probabilities of its tokens; the parts
//! add up to the batch, however it is split. Derivatives are written out by hand, and compared with
//! finite differences and with what other implementations compute.
//!
//! Conventions that every part keeps:
//!
//! - Only tokens that are trained on appear; a response without any adds nothing, yet still counts
//!   in a mean over responses.
//! - Every log-ratio is clamped to ± [`LOG_RATIO_LIMIT`] before it is exponentiated, so weights are
//!   finite for any finite input; beyond the limit the gradient is zero.
//! - Losses are to be minimised. Equal inputs give equal bits.

mod advantage;
mod aggregation;
mod choice;
mod correction;
mod echo_clip;
mod error;
mod kl;
mod known;
mod off;
mod plan;
mod preset;
mod ratio;
mod stats;
mod surrogate;
pub mod vectors;

use serde::{Deserialize, Serialize};

pub use advantage::{Advantage, Baseline, Degenerate, Overlong, RewardedResponse, STD_FLOOR, Scale, gae};
pub use aggregation::Aggregation;
pub use choice::ObjectiveChoice;
pub use correction::{Correction, Level, WeightBound};
pub use echo_clip::{EchoClip, step_ends};
pub use error::ObjectiveError;
pub use kl::{Anchor, Estimator, Kl};
pub use known::Known;
pub use plan::{Evaluation, ObjectivePlan, ScoredResponse};
pub use preset::Preset;
pub use ratio::{Against, LOG_RATIO_LIMIT, Ratio, SEQUENCE_LOG_RATIO_LIMIT};
pub use stats::ObjectiveStats;
pub use surrogate::Surrogate;

/// An objective: its parts. `None` is written as `false` in a run file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// The weight of a token in the loss.
    pub aggregation: Aggregation,
    /// How rewards become advantages.
    pub advantage: Advantage,
    /// r: the ratio that is differentiated, and what it is measured against.
    pub ratio: Ratio,
    /// What becomes of ratio and advantage.
    pub surrogate: Surrogate,
    /// Weights without a gradient for what another policy sampled.
    #[serde(with = "off")]
    pub correction: Option<Correction>,
    /// A penalty on the distance from another policy.
    #[serde(with = "off")]
    pub kl: Option<Kl>,
    /// η: what a nat of entropy is worth, per token; zero or above.
    pub entropy_bonus: f64,
    /// The auxiliary target from what a group got right. `true` in a run file is its defaults.
    #[serde(serialize_with = "off::serialize", deserialize_with = "off::deserialize_or_default")]
    pub echo_clip: Option<EchoClip>,
}

impl Objective {
    /// Checks the settings, so that a run is refused at its start rather than at its first update.
    ///
    /// # Errors
    /// [`ObjectiveError::Setting`] names the setting and its domain.
    pub fn validate(&self) -> Result<(), ObjectiveError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Of every part the first setting that is outside its domain.
    #[must_use]
    pub fn problems(&self) -> Vec<ObjectiveError> {
        let parts = [
            self.advantage.validate(),
            self.ratio.validate(),
            self.surrogate.validate(),
            self.correction.map_or(Ok(()), |part| part.validate()),
            self.kl.map_or(Ok(()), |part| part.validate()),
            self.echo_clip.map_or(Ok(()), |part| part.validate()),
            error::finite_from_zero("entropy_bonus", self.entropy_bonus),
        ];
        parts.into_iter().filter_map(Result::err).collect()
    }

    /// Whether anything is measured against the policy at the start of the step ([`Known::proximal`]).
    #[must_use]
    pub fn needs_proximal(&self) -> bool {
        self.ratio.is_proximal() || self.correction.is_some()
    }

    /// Whether anything is measured against the run's first policy ([`Known::reference`]).
    #[must_use]
    pub fn needs_reference(&self) -> bool {
        self.kl.is_some_and(|kl| kl.anchor == Anchor::Reference)
    }

    /// Whether [`Known::proximal`] must be computed before the batch is planned: something depends
    /// on all of it.
    #[must_use]
    pub fn plans_with_proximal(&self) -> bool {
        self.correction.is_some_and(|correction| correction.spans_the_batch())
    }

    /// Whether entropies enter the loss ([`ScoredResponse::entropy`]).
    #[must_use]
    pub fn needs_entropy(&self) -> bool {
        self.entropy_bonus > 0.0 || self.echo_clip.is_some()
    }

    /// Whether the responses of a group must be evaluated together.
    #[must_use]
    pub fn needs_whole_groups(&self) -> bool {
        self.echo_clip.is_some()
    }
}

#[cfg(test)]
mod tests;
