//! Figures about a batch, kept as sums so that those of micro-batches can be merged.

use super::known::Known;
use super::ratio::LOG_RATIO_LIMIT;
use super::surrogate::Side;

/// Figures of one batch. A "term" is what carries one weight: a response in GEPO and GSPO, a
/// token in the others.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ObjectiveStats {
    terms: u64,
    tokens: u64,
    clipped_low: u64,
    clipped_high: u64,
    weight_sum: f64,
    weight_square_sum: f64,
    weight_max: f64,
    k1_sum: f64,
    k3_sum: f64,
    reference_k3_sum: Option<f64>,
    entropy_sum: Option<f64>,
    echo_clips: u64,
    echo_tokens: u64,
}

impl ObjectiveStats {
    /// One importance weight before its clip, and where the clip cut.
    pub(super) fn add_term(&mut self, weight: f64, clipped: Option<Side>) {
        self.terms += 1;
        self.clipped_low += u64::from(clipped == Some(Side::Low));
        self.clipped_high += u64::from(clipped == Some(Side::High));
        self.weight_sum += weight;
        self.weight_square_sum += weight * weight;
        self.weight_max = self.weight_max.max(weight);
    }

    /// Distances and entropies of one response.
    pub(super) fn add_tokens(&mut self, known: &Known, logp: &[f64], entropy: &[f64]) {
        // k3 of KL(a ‖ b) from tokens of a: b/a - 1 - log(b/a).
        let k3 = |a: &[f64], b: &[f64]| -> f64 {
            let of_token = |(a, b): (&f64, &f64)| {
                let d = (b - a).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
                (d.exp_m1() - d).max(0.0)
            };
            a.iter().zip(b).map(of_token).sum()
        };
        let of_response = Self {
            tokens: logp.len() as u64,
            k1_sum: known.behaviour.iter().zip(logp).map(|(q, p)| q - p).sum(),
            k3_sum: k3(&known.behaviour, logp),
            reference_k3_sum: known.reference.as_deref().map(|reference| k3(logp, reference)),
            entropy_sum: (entropy.len() == logp.len()).then(|| entropy.iter().sum()),
            ..Self::default()
        };
        self.merge(&of_response);
    }

    /// One EchoClip of so many tokens.
    pub(super) fn add_echo(&mut self, tokens: usize) {
        self.echo_clips += 1;
        self.echo_tokens += tokens as u64;
    }

    /// Adds the figures of another part of the same batch.
    pub fn merge(&mut self, other: &Self) {
        // Known for a part only, a mean over all tokens would be wrong.
        let (mine, others) = (self.tokens > 0, other.tokens > 0);
        let both = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (None, b) if !mine => b,
            (a, None) if !others => a,
            _ => None,
        };
        self.entropy_sum = both(self.entropy_sum, other.entropy_sum);
        self.reference_k3_sum = both(self.reference_k3_sum, other.reference_k3_sum);
        self.terms += other.terms;
        self.tokens += other.tokens;
        self.clipped_low += other.clipped_low;
        self.clipped_high += other.clipped_high;
        self.weight_sum += other.weight_sum;
        self.weight_square_sum += other.weight_square_sum;
        self.weight_max = self.weight_max.max(other.weight_max);
        self.k1_sum += other.k1_sum;
        self.k3_sum += other.k3_sum;
        self.echo_clips += other.echo_clips;
        self.echo_tokens += other.echo_tokens;
    }

    /// Tokens that were scored and trained on.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Share of terms that the clip cut, 0 to 1.
    #[must_use]
    pub fn clip_share(&self) -> f64 {
        self.clip_share_low() + self.clip_share_high()
    }

    /// Share of terms that the clip cut below one.
    #[must_use]
    pub fn clip_share_low(&self) -> f64 {
        ratio(self.clipped_low as f64, self.terms)
    }

    /// Share of terms that the clip cut above one.
    #[must_use]
    pub fn clip_share_high(&self) -> f64 {
        ratio(self.clipped_high as f64, self.terms)
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

    /// k3 estimate in nats a token of KL(current ‖ reference), when the
    /// responses had reference log-probabilities.
    #[must_use]
    pub fn kl_reference(&self) -> Option<f64> {
        self.reference_k3_sum.map(|sum| ratio(sum, self.tokens))
    }

    /// EchoClips, and their mean length in tokens.
    #[must_use]
    pub fn echo_clips(&self) -> (u64, f64) {
        (self.echo_clips, ratio(self.echo_tokens as f64, self.echo_clips))
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
