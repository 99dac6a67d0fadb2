//! Whether a response was drawn from a policy as its order says.
//!
//! Every draw has its own number u ([`sampler::uniform`]), so whoever has the policy's weights and the finished response can tell for
//! each token whether u selects it, with one prefill instead of a decode for every token. Another machine computes slightly other
//! logits, so a token counts as drawn when u is within [`Tolerance::border`] of its interval; and the log-probability that was
//! reported for it has to be near the policy's own.
//!
//! What this finds: another policy or version, another temperature, tokens that somebody chose (edited ones, a copied answer, the best of
//! several samples), and made-up log-probabilities. For an honest node that computes in f32 the differences are rounding: 1e-5 and less
//! in a log-probability. A token that u does not select is missed only when its interval happens to lie within the tolerance of u, which
//! for a random token of probability p has the chance p + 2 · border; so an edited response of n tokens passes with the product of
//! those, and is as good as always found.

use crate::engine::backend::{Backend, Feed, MAX_CALL_TOKENS, Want};
use crate::engine::policy::Policy;
use crate::error::EngineError;
use crate::sampler::{self, SamplingParams};

/// Rows of logits computed at once: bounds memory at large vocabularies.
const ROWS_PER_CALL: usize = 256;
const _: () = assert!(ROWS_PER_CALL <= MAX_CALL_TOKENS);

/// A token that somebody says they drew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// Where it stands in the sequence, at least 1: the tokens before it are what it was drawn after.
    pub at: usize,
    /// Its number among the sample's draws: `t` of [`sampler::uniform`].
    pub position: u32,
    /// The log-probability that was reported, under the sampling distribution.
    pub logprob: f32,
}

/// The draws of one sample that one policy version is said to have made.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Prompt and response, and whatever else the policy saw, as one sequence.
    pub sequence: &'a [u32],
    /// Tokens of it that were drawn, in order.
    pub draws: &'a [Draw],
    /// The order's seed.
    pub seed: &'a [u8; 32],
    /// Which sample of the order.
    pub sample: u32,
    /// How tokens are drawn.
    pub params: &'a SamplingParams,
}

/// What an audit saw, of one claim or of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Distance of u from each token's interval, in probability.
    distances: Vec<f64>,
    /// |Δ log p| of each token.
    differences: Vec<f32>,
}

/// How far an honest node may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Probability by which u may miss a token's interval.
    pub border: f64,
    /// Share of tokens that may be further off.
    pub off: f64,
    /// Mean of |Δ log p|.
    pub mean: f64,
    /// Largest |Δ log p|.
    pub max: f32,
}

impl Tolerance {
    /// For nodes that compute in f32, as all do today. Between two of them differences of 1e-5 were seen, so that both limits leave two
    /// orders of magnitude, and no honest token is ever off.
    pub const F32: Self = Self { border: 1e-3, off: 0.0, mean: 1e-3, max: 1e-2 };
}

/// What is wrong with a claim.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Tokens that the order's randomness does not select.
    #[error("{off} of {tokens} tokens are not those that the policy and the order's randomness select")]
    Tokens {
        /// How many.
        off: usize,
        /// Of how many.
        tokens: usize,
    },
    /// Log-probabilities of another distribution.
    #[error("log-probabilities are not the policy's: off by {mean:.1e} in the mean, {max:.1e} at most")]
    Logprobs {
        /// Mean of |Δ log p|.
        mean: f64,
        /// Largest.
        max: f32,
    },
}

/// Computes what `policy` says of a claim.
///
/// # Errors
/// When the sequence does not fit the model, or a draw is not in it.
pub fn audit<B: Backend>(policy: &Policy<B>, claim: &Claim<'_>) -> Result<Evidence, EngineError> {
    let mut evidence = Evidence::default();
    let Some(last) = claim.draws.iter().map(|draw| draw.at).max() else { return Ok(evidence) };
    let (tokens, limit) = (last, claim.sequence.len().saturating_sub(1));
    if last > limit || claim.draws.iter().any(|draw| draw.at == 0) {
        return Err(EngineError::TooLong { tokens, limit });
    }
    let backend = policy.backend();
    let mut cache = backend.new_cache();
    let mut draws = claim.draws.iter().peekable();
    for (chunk, inputs) in claim.sequence[..last].chunks(ROWS_PER_CALL).enumerate() {
        let first = chunk * ROWS_PER_CALL;
        let logits = backend.forward(&mut [Feed { tokens: inputs, cache: &mut cache }], Want::All)?;
        for (row, logits) in (first..).zip(logits.rows()) {
            if let Some(draw) = draws.next_if(|draw| draw.at == row + 1) {
                let u = sampler::uniform(claim.seed, claim.sample, draw.position);
                let interval = sampler::interval(logits, claim.params, claim.sequence[draw.at])?;
                evidence.distances.push(interval.distance(u));
                evidence.differences.push((interval.logprob - draw.logprob).abs());
            }
        }
    }
    Ok(evidence)
}

impl Evidence {
    /// Takes what was seen of another claim in.
    pub fn add(&mut self, other: Self) {
        self.distances.extend(other.distances);
        self.differences.extend(other.differences);
    }

    /// Tokens that were looked at.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.distances.len()
    }

    /// Share of tokens whose interval u misses by more than `border`; 0 without tokens.
    #[must_use]
    pub fn share_off(&self, border: f64) -> f64 {
        self.off(border) as f64 / self.tokens().max(1) as f64
    }

    fn off(&self, border: f64) -> usize {
        self.distances.iter().filter(|distance| **distance > border).count()
    }

    /// Mean of |Δ log p|; 0 without tokens.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.differences.iter().map(|d| f64::from(*d)).sum::<f64>() / self.tokens().max(1) as f64
    }

    /// The |Δ log p| that `share` of the tokens do not exceed; 0 without tokens.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f32 {
        let mut sorted = self.differences.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// What is wrong with what was seen, if anything is.
    #[must_use]
    pub fn fault(&self, tolerance: &Tolerance) -> Option<Fault> {
        if self.share_off(tolerance.border) > tolerance.off {
            return Some(Fault::Tokens { off: self.off(tolerance.border), tokens: self.tokens() });
        }
        let (mean, max) = (self.mean(), self.quantile(1.0));
        // Not `mean > limit`: what is no number is no log-probability.
        let near = mean <= tolerance.mean && max <= tolerance.max;
        (!near).then_some(Fault::Logprobs { mean, max })
    }
}

#[cfg(test)]
mod tests;
