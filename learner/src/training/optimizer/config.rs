//! AdamW's settings.

use serde::{Deserialize, Serialize};

use super::{Guard, OptimizerError};

/// Settings of [`AdamW`](super::AdamW); the learning rate is a
/// [`Schedule`](crate::training::lr_schedule::Schedule) of its own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// β₁, decay of the first moment, in [0, 1).
    pub beta1: f64,
    /// β₂, decay of the second moment, in [0, 1).
    pub beta2: f64,
    /// ε, added to the root of the second moment; positive.
    pub epsilon: f64,
    /// λ, decoupled weight decay; zero or above.
    pub weight_decay: f64,
    /// Largest global gradient norm; a larger gradient is scaled down to it. `inf` never clips.
    pub max_gradient_norm: f64,
    /// Which gradients are not stepped on at all.
    pub guard: Guard,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
            max_gradient_norm: 1.0,
            guard: Guard::default(),
        }
    }
}

impl AdamWConfig {
    /// Refuses settings that are out of their domain, the guard's included.
    ///
    /// # Errors
    /// [`OptimizerError::Setting`] names the setting and its domain.
    pub fn validate(&self) -> Result<(), OptimizerError> {
        let unit = 0.0..1.0;
        let checks = [
            ("beta1", self.beta1, unit.contains(&self.beta1), "at least 0 and below 1"),
            ("beta2", self.beta2, unit.contains(&self.beta2), "at least 0 and below 1"),
            // Below f32's smallest normal number it would vanish and 0/0 would follow.
            (
                "epsilon",
                self.epsilon,
                self.epsilon >= f64::from(f32::MIN_POSITIVE) && self.epsilon.is_finite(),
                "at least 1.2e-38 and finite",
            ),
            (
                "weight_decay",
                self.weight_decay,
                self.weight_decay >= 0.0 && self.weight_decay.is_finite(),
                "zero or above, and finite",
            ),
            ("max_gradient_norm", self.max_gradient_norm, self.max_gradient_norm > 0.0, "above 0"),
        ];
        self.guard.validate()?;
        match checks.into_iter().find(|&(_, _, holds, _)| !holds) {
            Some((setting, value, _, domain)) => Err(OptimizerError::Setting { setting, value, domain }),
            None => Ok(()),
        }
    }
}
