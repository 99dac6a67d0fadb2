//! Log-probability and entropy of next-token distributions, from logits that may come in pieces.
//!
//! A piece of the vocabulary at a time is enough, so that nobody needs the logits of all tokens at once.

use crate::math;

/// Log-probability of `target` and entropy, in nats, under the logits of one position. None when
/// `target` is outside of the vocabulary.
///
/// Stable for logits of any finite size: the maximum is subtracted first. A NaN among the
/// logits makes both NaN.
#[must_use]
pub fn of_token(logits: &[f32], target: u32) -> Option<(f32, f32)> {
    let logit = *logits.get(target as usize)?;
    let mut distribution = Distribution::default();
    math::wide(
        #[inline(always)]
        || distribution.absorb(logits),
    );
    Some((distribution.logprob(logit), distribution.entropy()))
}

/// What is to be known of a distribution whose logits have been seen in part or as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Distribution {
    /// Largest logit so far.
    top: f32,
    /// Σ exp(x − top).
    total: f64,
    /// Σ exp(x − top) · (x − top).
    moment: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { top: f32::NEG_INFINITY, total: 0.0, moment: 0.0 }
    }
}

impl Distribution {
    /// Takes in the logits of more tokens.
    #[inline(always)]
    pub(crate) fn absorb(&mut self, logits: &[f32]) {
        let top = self.top.max(math::max(logits));
        if self.total > 0.0 {
            let shift = f64::from(self.top) - f64::from(top);
            let factor = libm::exp(shift);
            self.moment = factor * (self.moment + shift * self.total);
            self.total *= factor;
        }
        self.top = top;
        let [total, moment] = math::sums(
            logits,
            #[inline(always)]
            |x| {
                let weight = math::exp(x - top);
                // A token ruled out with −∞ adds nothing to the moment, rather than NaN.
                [weight, weight * (x - top).max(-87.0)]
            },
        );
        self.total += total;
        self.moment += moment;
    }

    /// log Σ exp(x): what to subtract from a logit for its log-probability.
    pub(crate) fn normaliser(&self) -> f32 {
        (f64::from(self.top) + libm::log(self.total)) as f32
    }

    /// Log-probability of the token with this logit.
    pub(crate) fn logprob(&self, logit: f32) -> f32 {
        (f64::from(logit) - f64::from(self.top) - libm::log(self.total)) as f32
    }

    /// −Σ p log p.
    pub(crate) fn entropy(&self) -> f32 {
        (libm::log(self.total) - self.moment / self.total) as f32
    }
}

/// The gradient of one position's scores with respect to its logits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slope {
    /// Logarithm that [`Distribution::normaliser`] gives.
    pub(crate) normaliser: f32,
    /// Nats that [`Distribution::entropy`] gives.
    pub(crate) entropy: f32,
    /// d loss / d log-probability of the target.
    pub(crate) d_logp: f32,
    /// d loss / d entropy.
    pub(crate) d_entropy: f32,
}

impl Slope {
    /// Turns logits into d loss / d logit, for tokens other than the target; the target's has
    /// `d_logp` added to it.
    ///
    /// With ℓ = log p: dℓₜ/dxᵢ = [i = t] − pᵢ and dH/dxᵢ = −pᵢ (ℓᵢ + H).
    #[inline(always)]
    pub(crate) fn apply(&self, logits: &mut [f32]) {
        for x in logits {
            let logprob = (*x - self.normaliser).max(-87.0);
            // Of the difference itself, in which a NaN stays one.
            let probability = math::exp(*x - self.normaliser);
            *x = -probability * (self.d_logp + self.d_entropy * (logprob + self.entropy));
        }
    }
}

#[cfg(test)]
mod tests;
