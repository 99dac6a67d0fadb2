//! Regularisers: estimators of the KL divergence from another policy.

use serde::{Deserialize, Serialize};

use super::ObjectiveError;
use super::error::{finite_above_zero, finite_from_zero};
use super::ratio::LOG_RATIO_LIMIT;

/// β times an estimate of KL(π_θ ‖ π), added to the loss of each token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kl {
    /// How the distance of one token is estimated.
    pub estimator: Estimator,
    /// β, zero or above.
    pub beta: f64,
    /// π: the policy that the distance is measured from.
    pub anchor: Anchor,
    /// An estimate beyond ± this counts as this and has no gradient; `None` (`false`): no such bound.
    #[serde(default, with = "super::off")]
    pub cap: Option<f64>,
}

/// The policy that θ is kept near to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchor {
    /// The run's first policy.
    Reference,
    /// The policy that sampled the token; with [`Estimator::K3`] this is CPPO-KL as GEPO uses it.
    Behaviour,
}

/// Estimators of KL from one sample, with d = log π - log π_θ of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// -d: unbiased, and its gradient has zero mean.
    K1,
    /// d²/2: never negative, and biased.
    K2,
    /// e^d - d - 1, with d clamped to ± [`LOG_RATIO_LIMIT`].
    K3,
}

impl Kl {
    /// Refuses a β below 0 and a cap that is not above 0.
    pub(super) fn validate(&self) -> Result<(), ObjectiveError> {
        finite_from_zero("kl.beta", self.beta)?;
        self.cap.map_or(Ok(()), |cap| finite_above_zero("kl.cap", cap))
    }

    /// The estimate for one token, without β, and its derivative by log π_θ.
    pub(super) fn term(&self, logp: f64, anchor: f64) -> (f64, f64) {
        let d = anchor - logp;
        let (value, slope) = match self.estimator {
            Estimator::K1 => (-d, 1.0),
            Estimator::K2 => (0.5 * d * d, -d),
            Estimator::K3 => {
                let clamped = d.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
                let slope = if clamped == d { 1.0 - clamped.exp() } else { 0.0 };
                (clamped.exp_m1() - clamped, slope)
            }
        };
        match self.cap {
            Some(cap) if value.abs() > cap => (value.clamp(-cap, cap), 0.0),
            _ => (value, slope),
        }
    }
}
