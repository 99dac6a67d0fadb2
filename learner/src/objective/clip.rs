//! PPO's clipped surrogate.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::ObjectiveError;

/// The trust region [1 - `low`, 1 + `high`] of an importance weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// ε below one, in (0, 1].
    pub low: f64,
    /// ε above one, positive.
    pub high: f64,
}

impl Default for Clip {
    /// ε = 0.2 on both sides, PPO's usual setting.
    fn default() -> Self {
        Self { low: 0.2, high: 0.2 }
    }
}

impl Clip {
    /// Checks the bounds.
    ///
    /// # Errors
    /// [`ObjectiveError::Setting`] when `low` is not in (0, 1] or `high` is not positive and finite.
    pub fn validate(&self) -> Result<(), ObjectiveError> {
        if !(self.low > 0.0 && self.low <= 1.0) {
            return Err(ObjectiveError::Setting {
                setting: "clip.low",
                value: self.low,
                domain: "above 0 and at most 1",
            });
        }
        if !(self.high > 0.0 && self.high.is_finite()) {
            return Err(ObjectiveError::Setting {
                setting: "clip.high",
                value: self.high,
                domain: "above 0 and finite",
            });
        }
        Ok(())
    }

    /// Whether the clip removes the gradient of a term with this weight and advantage.
    #[must_use]
    pub fn cuts(&self, weight: f64, advantage: f64) -> bool {
        (advantage > 0.0 && weight > 1.0 + self.high) || (advantage < 0.0 && weight < 1.0 - self.low)
    }
}

/// min(w·A, clip(w, 1 - low, 1 + high)·A), or w·A without a clip. `weight` and `advantage` broadcast.
pub(super) fn surrogate(
    weight: &Tensor,
    advantage: &Tensor,
    clip: Option<&Clip>,
) -> Result<Tensor, ObjectiveError> {
    let plain = weight.broadcast_mul(advantage)?;
    let Some(clip) = clip else { return Ok(plain) };
    let clipped = weight.clamp(1.0 - clip.low, 1.0 + clip.high)?.broadcast_mul(advantage)?;
    Ok(plain.minimum(&clipped)?)
}
