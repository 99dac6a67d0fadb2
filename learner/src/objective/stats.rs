//! Figures about a batch, kept as sums so that those of micro-batches can be merged.

use super::ObjectiveError;
use super::checked::{Checked, host};
use super::weight::host_exp_clamped;

/// One importance weight as an objective used it.
pub(super) struct WeightTerm {
    /// The factor before the advantage, before clipping.
    pub(super) weight: f64,
    /// Whether the clip removed this term's gradient.
    pub(super) clipped: bool,
}

/// Figures of one batch. A "term" is what carries one weight: a response in GEPO, a token in decoupled PPO.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ObjectiveStats {
    terms: u64,
    tokens: u64,
    clipped: u64,
    weight_sum: f64,
    weight_square_sum: f64,
    weight_max: f64,
    k1_sum: f64,
    k3_sum: f64,
    entropy_sum: Option<f64>,
}

impl ObjectiveStats {
    pub(super) fn new(
        checked: &Checked<'_>,
        weights: impl Iterator<Item = WeightTerm>,
    ) -> Result<Self, ObjectiveError> {
        let mut stats = Self { tokens: checked.tokens() as u64, ..Self::default() };
        for WeightTerm { weight, clipped } in weights {
            stats.terms += 1;
            stats.clipped += u64::from(clipped);
            stats.weight_sum += weight;
            stats.weight_square_sum += weight * weight;
            stats.weight_max = stats.weight_max.max(weight);
        }
        for (_, at) in checked.trained_tokens() {
            let log_ratio = checked.logp[at] - checked.behaviour[at];
            stats.k1_sum -= log_ratio;
            stats.k3_sum += host_exp_clamped(log_ratio) - 1.0 - log_ratio;
        }
        if let Some(entropy) = &checked.input.entropy {
            if entropy.dims() != checked.input.logp.dims() {
                return Err(ObjectiveError::Shape {
                    what: "entropy",
                    found: entropy.dims().to_vec(),
                    expected: checked.input.logp.dims().to_vec(),
                });
            }
            let values = host(entropy)?;
            stats.entropy_sum = Some(checked.trained_tokens().map(|(_, at)| values[at]).sum());
        }
        Ok(stats)
    }

    /// Adds the figures of another part of the same batch.
    pub fn merge(&mut self, other: &Self) {
        let had_tokens = self.tokens > 0;
        self.entropy_sum = match (self.entropy_sum, other.entropy_sum) {
            (Some(a), Some(b)) => Some(a + b),
            (None, b) if !had_tokens => b,
            (a, None) if other.tokens == 0 => a,
            // Known for a part only: a mean over all tokens would be wrong.
            _ => None,
        };
        self.terms += other.terms;
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.weight_sum += other.weight_sum;
        self.weight_square_sum += other.weight_square_sum;
        self.weight_max = self.weight_max.max(other.weight_max);
        self.k1_sum += other.k1_sum;
        self.k3_sum += other.k3_sum;
    }

    /// Trained tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Share of terms whose gradient the clip removed, 0 to 1.
    #[must_use]
    pub fn clip_share(&self) -> f64 {
        ratio(self.clipped as f64, self.terms)
    }

    /// Mean importance weight before clipping.
    #[must_use]
    pub fn weight_mean(&self) -> f64 {
        ratio(self.weight_sum, self.terms)
    }

    /// Largest importance weight before clipping.
    #[must_use]
    pub fn weight_max(&self) -> f64 {
        self.weight_max
    }

    /// Population variance of the importance weight.
    #[must_use]
    pub fn weight_variance(&self) -> f64 {
        (ratio(self.weight_square_sum, self.terms) - self.weight_mean().powi(2)).max(0.0)
    }

    /// Effective sample size as a share of the terms, (Σw)² / (n Σw²): 1 when all weights are equal.
    #[must_use]
    pub fn ess(&self) -> f64 {
        if self.weight_square_sum > 0.0 {
            self.weight_sum * self.weight_sum / (self.weight_square_sum * self.terms as f64)
        } else {
            0.0
        }
    }

    /// k1 estimate in nats a token of KL(behaviour ‖ current): mean of log q - log p. May be negative.
    #[must_use]
    pub fn kl_k1(&self) -> f64 {
        ratio(self.k1_sum, self.tokens)
    }

    /// k3 estimate in nats a token of KL(behaviour ‖ current): mean of p/q - 1 - log(p/q). Never negative.
    #[must_use]
    pub fn kl_k3(&self) -> f64 {
        ratio(self.k3_sum, self.tokens)
    }

    /// Mean entropy in nats a token, when the input carried entropies.
    #[must_use]
    pub fn entropy(&self) -> Option<f64> {
        self.entropy_sum.map(|sum| ratio(sum, self.tokens))
    }
}

fn ratio(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}
