//! The gradient term: what becomes of a ratio and an advantage.

use serde::{Deserialize, Serialize};

use super::ObjectiveError;
use super::error::{finite_above_zero, finite_from_zero};
use super::ratio::exp_clamped;

/// The surrogate J of a ratio r and an advantage A, to be maximised. ℓ is log π_θ of the token, or
/// its mean over the response where the ratio is one number a response; sg stops the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Surrogate {
    /// r A, without a trust region: GEPO eq. 1 as published; GMPO, whose ratio is clipped already.
    Ratio {},
    /// min(r A, clip(r, 1 - low, 1 + high) A): PPO.
    PpoClip {
        /// ε below one, in (0, 1].
        low: f64,
        /// ε above one, 0 or above.
        high: f64,
        /// Where A < 0, J is at least `dual` · A, so that a ratio that exploded does not rule the
        /// update; above one. `None` (`false`): no such bound.
        #[serde(default, with = "super::off")]
        dual: Option<f64>,
    },
    /// sg(clip(r, 1 - low, 1 + high)) A ℓ: CISPO. What is clipped keeps its gradient.
    Cispo {
        /// ε below one; 1 leaves no lower bound.
        low: f64,
        /// ε above one: weights over 1 + ε are cut to it.
        high: f64,
    },
    /// A ℓ: REINFORCE, GPG.
    LogProb {},
    /// (4/τ) σ(τ (r - 1)) A with τ by the sign of A: a soft gate in the place of the clip (SAPO).
    Sapo {
        /// τ for A ≥ 0.
        tau_positive: f64,
        /// τ for A < 0.
        tau_negative: f64,
    },
    /// Nothing: the regularisers alone.
    None {},
}

/// One term of a loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Term {
    /// J of this term, without its weight in the loss.
    pub(super) value: f64,
    /// dJ/dℓ = dJ/d log r.
    pub(super) slope: f64,
    /// The ratio, before clipping.
    pub(super) ratio: f64,
    /// Where a clip took the gradient or, in CISPO, changed the weight.
    pub(super) clipped: Option<Side>,
}

/// The side of a trust region on which a ratio left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

impl Surrogate {
    /// Refuses numbers of a surrogate that are out of their domain.
    pub(super) fn validate(&self) -> Result<(), ObjectiveError> {
        let below_one = |setting, value: f64| {
            if value > 0.0 && value <= 1.0 {
                return Ok(());
            }
            Err(ObjectiveError::Setting { setting, value, domain: "above 0 and at most 1" })
        };
        match *self {
            Self::Ratio {} | Self::LogProb {} | Self::None {} => Ok(()),
            Self::PpoClip { low, high, dual } => {
                below_one("surrogate.low", low)?;
                finite_from_zero("surrogate.high", high)?;
                match dual {
                    Some(value) if !(value > 1.0 && value.is_finite()) => {
                        let (setting, domain) = ("surrogate.dual", "above 1 and finite");
                        Err(ObjectiveError::Setting { setting, value, domain })
                    }
                    _ => Ok(()),
                }
            }
            Self::Cispo { low, high } => {
                below_one("surrogate.low", low)?;
                finite_from_zero("surrogate.high", high)
            }
            Self::Sapo { tau_positive, tau_negative } => {
                finite_above_zero("surrogate.tau_positive", tau_positive)?;
                finite_above_zero("surrogate.tau_negative", tau_negative)
            }
        }
    }

    /// Whether the gradient flows through ℓ itself, and not through the ratio.
    pub(super) fn is_through_logp(&self) -> bool {
        matches!(self, Self::Cispo { .. } | Self::LogProb {})
    }

    /// J and its derivative, for log r before any clamp.
    pub(super) fn term(&self, log_ratio: f64, advantage: f64, logp: f64) -> Term {
        let (ratio, moves) = exp_clamped(log_ratio);
        let free = Term {
            value: ratio * advantage,
            slope: if moves { ratio * advantage } else { 0.0 },
            ratio,
            clipped: None,
        };
        match *self {
            Self::Ratio {} => free,
            Self::PpoClip { low, high, dual } => {
                let cut = |bound: f64, side| Term {
                    value: bound * advantage,
                    slope: 0.0,
                    clipped: Some(side),
                    ..free
                };
                match dual {
                    _ if advantage > 0.0 && ratio > 1.0 + high => cut(1.0 + high, Side::High),
                    _ if advantage < 0.0 && ratio < 1.0 - low => cut(1.0 - low, Side::Low),
                    Some(dual) if advantage < 0.0 && ratio > dual => cut(dual, Side::High),
                    _ => free,
                }
            }
            Self::Cispo { low, high } => {
                let weight = ratio.clamp(1.0 - low, 1.0 + high);
                let clipped = match ratio {
                    r if r < weight => Some(Side::Low),
                    r if r > weight => Some(Side::High),
                    _ => None,
                };
                let slope = weight * advantage;
                Term { value: slope * logp, slope, ratio, clipped }
            }
            Self::LogProb {} => Term { value: advantage * logp, slope: advantage, ..free },
            Self::Sapo { tau_positive, tau_negative } => {
                let tau = if advantage < 0.0 { tau_negative } else { tau_positive };
                let gate = 1.0 / (1.0 + (-tau * (ratio - 1.0)).exp());
                let slope = if moves { 4.0 * gate * (1.0 - gate) * ratio * advantage } else { 0.0 };
                Term { value: 4.0 / tau * gate * advantage, slope, ..free }
            }
            Self::None {} => Term { value: 0.0, slope: 0.0, ..free },
        }
    }
}
