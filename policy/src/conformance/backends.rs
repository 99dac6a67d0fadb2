//! How far a backend of the generation engine is from a reference, over random prompts of ragged lengths.
//!
//! The f32 reference is the training pass composed of candle's operations
//! ([`crate::training::decoder::Decoder::composed`]): it shares no kernel and no cache with any
//! backend. The CPU's backend is the other one: of a precision's recipe, as verifiers repeat it. A
//! backend is fed every prompt twice, many together in full calls: once as generation does, with
//! the end of half of the prompts a token a call, for whole distributions; and once in one go, as
//! an audit does, for the log-prob of a claimed next token at each place.

mod error;
mod expected;
mod feeding;
mod models;
mod prompts;
mod reference;

pub use error::AgreementError;
pub use models::{NamedModel, models};
pub use prompts::{ClaimedPrompt, prompts};
pub use reference::Reference;

use std::fmt;

use serde::Serialize;

use super::larger;
use crate::generation::Backend;
use crate::model::precision::Precision;
use expected::ExpectedScores;

/// Most prompts that are fed together.
const TOGETHER: usize = 128;
/// Most tokens of prompts that are fed together, but for a single prompt: bounds the memory
/// of the reference's distributions.
const TOGETHER_TOKENS: usize = 4096;

/// What was found of a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Agreement {
    /// How many prompts the backend was fed.
    pub prompts: u64,
    /// Tokens of theirs: after each, the distributions were compared, and two log-probs of the
    /// token that is said to follow.
    pub tokens: u64,
    /// Σ |Δ log p| of these log-probs.
    sum_dlogp: f64,
    /// The largest of them.
    max_dlogp: f64,
    /// Σ KL(reference ‖ backend), in nats.
    sum_kl: f64,
    /// The largest of them.
    max_kl: f64,
    /// Distributions whose likeliest token is the same.
    same_top: u64,
}

impl Agreement {
    /// Mean |Δ log p| of the claimed next tokens.
    #[must_use]
    pub fn mean_dlogp(&self) -> f64 {
        self.sum_dlogp / (2 * self.tokens) as f64
    }

    /// The largest |Δ log p| of a claimed next token.
    #[must_use]
    pub fn max_dlogp(&self) -> f64 {
        self.max_dlogp
    }

    /// Mean KL(reference ‖ backend) over the distributions, in nats.
    #[must_use]
    pub fn mean_kl(&self) -> f64 {
        self.sum_kl / self.tokens as f64
    }

    /// The largest KL(reference ‖ backend), in nats.
    #[must_use]
    pub fn max_kl(&self) -> f64 {
        self.max_kl
    }

    /// Share of the distributions whose likeliest token is the reference's.
    #[must_use]
    pub fn same_top(&self) -> f64 {
        self.same_top as f64 / self.tokens as f64
    }

    /// Takes in what was found over other prompts.
    pub fn add(&mut self, other: &Self) {
        self.prompts += other.prompts;
        self.tokens += other.tokens;
        self.sum_dlogp += other.sum_dlogp;
        self.max_dlogp = larger(self.max_dlogp, other.max_dlogp);
        self.sum_kl += other.sum_kl;
        self.max_kl = larger(self.max_kl, other.max_kl);
        self.same_top += other.same_top;
    }

    /// Whether a mean is beyond its limit, or is no number; nothing was compared then either.
    #[must_use]
    pub fn exceeds(&self, limits: AgreementLimits) -> bool {
        !(self.mean_dlogp() <= limits.mean_dlogp && self.mean_kl() <= limits.mean_kl)
    }

    fn saw_logprob(&mut self, expected: f64, found: f64) {
        let difference = (expected - found).abs();
        self.sum_dlogp += difference;
        self.max_dlogp = larger(self.max_dlogp, difference);
    }

    fn saw_distribution(&mut self, kl: f64, same_top: bool) {
        self.tokens += 1;
        self.sum_kl += kl;
        self.max_kl = larger(self.max_kl, kl);
        self.same_top += u64::from(same_top);
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prompts, tokens, max_dlogp, max_kl, .. } = self;
        write!(
            f,
            "{prompts} prompts, {tokens} tokens: |Δ log p| mean {:.2e}, max {max_dlogp:.2e}; KL mean {:.2e}, max {max_kl:.2e}; \
             same arg-max {:.3} %",
            self.mean_dlogp(),
            self.mean_kl(),
            100.0 * self.same_top()
        )
    }
}

/// How far a backend may be from the reference, on the average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgreementLimits {
    /// |Δ log p| of a claimed next token.
    pub mean_dlogp: f64,
    /// KL(reference ‖ backend), in nats.
    pub mean_kl: f64,
}

impl AgreementLimits {
    /// Those of a precision. Of f32 and bf16 they are what the engine promises; of the integers
    /// half as much again, and more, as the CPU's kernels were measured to be off by on the models
    /// here over 2,000 prompts: 0.020 and 3.5e-4 in int8, 0.21 and 0.038 in int4.
    #[must_use]
    pub fn of(precision: Precision) -> Self {
        let (mean_dlogp, mean_kl) = match precision {
            // A KL divergence is about half of the square of what log-probs are off by.
            Precision::F32 => (1e-4, 1e-8),
            Precision::Bf16 => (0.01, 1e-3),
            Precision::Int8 => (0.03, 1e-3),
            Precision::Int4 => (0.3, 0.1),
        };
        Self { mean_dlogp, mean_kl }
    }
}

/// Holds backends with the reference's weights against it, each over all of the prompts. Results
/// are in the order of the backends.
///
/// # Errors
/// When the reference or a backend fails.
pub fn compare<B: Backend>(
    reference: &impl Reference,
    backends: &[B],
    prompts: &[ClaimedPrompt],
) -> Result<Vec<Agreement>, AgreementError> {
    let mut found = vec![Agreement::default(); backends.len()];
    let mut rest = prompts;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(together(rest));
        rest = later;
        let expected = ExpectedScores::of(reference, batch)?;
        for (backend, found) in backends.iter().zip(&mut found) {
            found.prompts += batch.len() as u64;
            feeding::distributions(backend, batch, |row, logits| expected.compare(row, logits, found))?;
            feeding::claims(backend, batch, |row, logprob| expected.compare_claim(row, logprob, found))?;
        }
    }
    Ok(found)
}

/// How many of the prompts come next.
fn together(prompts: &[ClaimedPrompt]) -> usize {
    let fits = prompts.iter().take(TOGETHER).scan(0, |tokens, prompt| {
        *tokens += prompt.inputs().len();
        (*tokens <= TOGETHER_TOKENS).then_some(())
    });
    fits.count().max(1)
}

#[cfg(test)]
mod tests;
