//! Corrections for what was sampled by another policy: weights without a gradient.

mod second_moment;

use serde::{Deserialize, Serialize};

use super::ObjectiveError;
use super::error::{finite_above_zero, finite_from_zero};
use super::ratio::{exp_clamped, mean};

pub(super) use second_moment::keep_below;

/// A weight of each token by π_prox / π_behaviour, constant in θ (the importance weight of RLAX eq.
/// 3; AReaL eq. 5). π_prox is the policy at the start of the step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// What one weight covers.
    pub level: Level,
    /// How far a weight may go.
    pub bound: WeightBound,
}

/// What one weight covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// One token: exp(log π_prox - log π_behaviour).
    Token,
    /// A response: the product over its tokens.
    Sequence,
    /// A response: the geometric mean over its tokens.
    SequenceMean,
    /// Every weight is one: the bound only decides, by token, what is masked.
    Mask,
}

/// How far a weight w may go.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum WeightBound {
    /// No bound but [`LOG_RATIO_LIMIT`](super::LOG_RATIO_LIMIT), which always holds.
    Unbounded {},
    /// min(w, cap): truncated importance sampling (ECHO-2 eq. 24; AReaL).
    Truncate {
        /// C, the largest weight; above 0 and finite.
        cap: f64,
    },
    /// w clamped to \[low, high\].
    Clamp {
        /// Weights below this count as this; 0 or above.
        low: f64,
        /// Weights above this count as this; at least `low`.
        high: f64,
    },
    /// Zero outside of \[low, high\]: such tokens add nothing, and still count in the means. Where
    /// the ratio is one number a response, the weights of its tokens are added up, so that one
    /// masked token takes its share of the whole response's weight.
    Mask {
        /// Smallest weight that stays.
        low: f64,
        /// Largest weight that stays.
        high: f64,
    },
    /// M2PO: of the whole batch (with several minibatches, of each) the tokens with the
    /// largest (log w)² are masked until the mean of the rest is at most `threshold`. Decided
    /// by token, whatever the level.
    SecondMoment {
        /// The largest second moment, nats²; its authors use 0.04.
        threshold: f64,
    },
}

impl Correction {
    /// Refuses bounds that are negative, crossed or not finite.
    pub(super) fn validate(&self) -> Result<(), ObjectiveError> {
        match self.bound {
            WeightBound::Unbounded {} => Ok(()),
            WeightBound::Truncate { cap } => finite_above_zero("correction.bound.cap", cap),
            WeightBound::Clamp { low, high } | WeightBound::Mask { low, high } => {
                finite_from_zero("correction.bound.low", low)?;
                if high >= low && high.is_finite() {
                    return Ok(());
                }
                let (setting, domain) = ("correction.bound.high", "at least `low`, and finite");
                Err(ObjectiveError::Setting { setting, value: high, domain })
            }
            WeightBound::SecondMoment { threshold } => {
                finite_above_zero("correction.bound.threshold", threshold)
            }
        }
    }

    /// Whether weights depend on other responses of the batch.
    pub(super) fn spans_the_batch(&self) -> bool {
        matches!(self.bound, WeightBound::SecondMoment { .. })
    }

    /// The weights of one response's tokens, and the weights before the bound.
    /// [`WeightBound::SecondMoment`] is left to [`keep_below`], which sees the batch.
    pub(super) fn weights(&self, proximal: &[f64], behaviour: &[f64]) -> TokenWeights {
        let logs: Vec<f64> = proximal.iter().zip(behaviour).map(|(p, q)| p - q).collect();
        let raw: Vec<f64> = match self.level {
            Level::Token | Level::Mask => logs.iter().map(|&log| exp_clamped(log).0).collect(),
            Level::Sequence => vec![exp_clamped(logs.iter().sum()).0; logs.len()],
            Level::SequenceMean => vec![exp_clamped(mean(&logs)).0; logs.len()],
        };
        let bounded = raw.iter().map(|&w| match (self.bound, self.level) {
            (WeightBound::Mask { low, high }, _) if w < low || w > high => 0.0,
            (_, Level::Mask) => 1.0,
            (WeightBound::Truncate { cap }, _) => w.min(cap),
            (WeightBound::Clamp { low, high }, _) => w.clamp(low, high),
            (WeightBound::Unbounded {} | WeightBound::Mask { .. } | WeightBound::SecondMoment { .. }, _) => w,
        });
        TokenWeights { bounded: bounded.collect(), raw }
    }
}

/// Weights of one response's tokens.
pub(super) struct TokenWeights {
    pub(super) bounded: Vec<f64>,
    pub(super) raw: Vec<f64>,
}
