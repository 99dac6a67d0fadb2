//! Objectives: what an update minimises, as a function of per-token log-probabilities.
//!
//! An objective is put together from parts, one file each: an advantage rule ([`advantage`]), an importance
//! weight ([`weight`]), a gradient term ([`clip`]) and an aggregation ([`aggregate`]). [`gepo`] and
//! [`decoupled_ppo`] are two such compositions. Adding an objective means adding a part or a composition and a
//! line in [`preset`]; the trainer only knows the [`Objective`] trait.
//!
//! Conventions that every part keeps:
//!
//! - `N` responses, `T` positions. Only positions where the mask is non-zero count; whatever stands elsewhere
//!   (even NaN) reaches neither loss nor gradient.
//! - Every log-ratio is clamped to ±[`weight::LOG_RATIO_LIMIT`] before it is exponentiated, so weights are finite
//!   for any finite input; beyond the limit the gradient is zero.
//! - A response without a trained token adds nothing to a loss, yet still counts in a mean over responses.
//! - Losses are to be minimised.

pub mod advantage;
pub mod aggregate;
mod checked;
pub mod clip;
pub mod decoupled_ppo;
mod error;
pub mod gepo;
mod off;
pub mod preset;
pub mod stats;
pub mod vectors;
pub mod weight;

use candle_core::Tensor;

pub use advantage::AdvantageRule;
pub use aggregate::Aggregation;
pub use clip::Clip;
pub use decoupled_ppo::DecoupledPpo;
pub use error::ObjectiveError;
pub use gepo::Gepo;
pub use preset::Preset;
pub use stats::ObjectiveStats;

/// One (micro-)batch as an objective sees it. All tensors share one device.
#[derive(Debug, Clone)]
pub struct ObjectiveInput {
    /// log π_θ of the taken tokens, `[N, T]`, f32 or f64; the only tensor that is differentiated.
    pub logp: Tensor,
    /// log-probabilities reported by the policy that sampled the tokens, `[N, T]`, finite where masked in.
    pub behaviour_logp: Tensor,
    /// log-probabilities under the weights at the start of the step, `[N, T]`, for objectives that need them.
    pub proximal_logp: Option<Tensor>,
    /// Non-zero for tokens that are trained on, `[N, T]`, any dtype.
    pub mask: Tensor,
    /// Advantage of each response, `[N]`, finite.
    pub advantages: Tensor,
    /// The group (prompt) of each response, `N` entries. Members need not be adjacent.
    pub groups: Vec<usize>,
    /// Entropy in nats of the policy's distribution at each position, `[N, T]`; only reported, never trained on.
    pub entropy: Option<Tensor>,
}

/// What an objective returns.
#[derive(Debug, Clone)]
pub struct ObjectiveOutput {
    /// Scalar (rank 0) to be minimised, in the dtype of [`ObjectiveInput::logp`] and on its device.
    pub loss: Tensor,
    /// Figures for the metrics, computed in f64 on the host.
    pub stats: ObjectiveStats,
}

/// A loss over log-probabilities. Implementations are deterministic: equal inputs give bit-identical results.
pub trait Objective: Send + Sync {
    /// The name in run files and metrics, in snake case.
    fn name(&self) -> &'static str;

    /// The mean the loss ends in, which says how the losses of micro-batches add up to the loss of the batch.
    fn aggregation(&self) -> Aggregation;

    /// How rewards become the advantages that this objective expects.
    fn advantage_rule(&self) -> AdvantageRule;

    /// Whether [`ObjectiveInput::proximal_logp`] must be present.
    fn needs_proximal(&self) -> bool;

    /// The loss and its figures.
    ///
    /// # Errors
    /// [`ObjectiveError`] when shapes or dtypes disagree, a needed tensor is missing, or a value that counts is
    /// not finite.
    fn loss(&self, input: &ObjectiveInput) -> Result<ObjectiveOutput, ObjectiveError>;
}

#[cfg(test)]
mod tests;
