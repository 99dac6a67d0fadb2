//! AdamW over f32 master weights, with decoupled weight decay, bias correction and clipping
//! of the global norm.
//!
//! With g the gradient, s = min(1, c / ‖g‖) the clip over all parameters together, η_t the scheduled rate
//! and t the number of applied updates including this one:
//!
//! ```text
//! m ← β₁ m + (1-β₁) s g          v ← β₂ v + (1-β₂) s² g²
//! p ← (1 - η_t λ) p - η_t · (m / (1-β₁ᵗ)) / (√(v / (1-β₂ᵗ)) + ε)
//! ```
//!
//! λ is zero for parameters that [`decays`] exempts. On the CPU each parameter is updated in place
//! in one pass, on all cores; other devices use tensor operations. Equal inputs give bit-identical
//! weights and moments, whatever the number of threads.

mod config;
mod error;
mod fused;
mod guard;
mod norms;
mod slot;
mod state;

use std::collections::BTreeSet;

use candle_core::{Device, Var};
use echo_policy::training::decoder::Gradient;

use crate::training::lr_schedule::Schedule;
pub use config::AdamWConfig;
pub use error::OptimizerError;
use fused::Coefficients;
pub use guard::{Guard, MAX_GRADIENT_NORM, SkipCause};
use norms::Norms;
pub use norms::{NORM_WINDOW, NORMS_NAME};
use slot::ParameterSlot;
pub use state::{FIRST_MOMENT_PREFIX, SECOND_MOMENT_PREFIX, STEP_NAME};

/// What became of a gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// The weights were updated.
    Applied,
    /// The gradient was dropped; weights, moments and the update counter are as before.
    Skipped(SkipCause),
}

/// One call of [`AdamW::step`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    /// Whether a step was made, and why not if none was.
    pub outcome: StepOutcome,
    /// Global L2 norm of the gradient before clipping; may be infinite or NaN when skipped.
    pub gradient_norm: f64,
    /// Factor the gradient was clipped by; 1 when it was not.
    pub clip_scale: f64,
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Updates applied so far, this one included.
    pub updates: u64,
}

/// The optimizer. It updates the given `Var`s in place; do not step while another thread reads them.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    schedule: Schedule,
    slots: Vec<ParameterSlot>,
    updates: u64,
    /// Of the last updates, where the guard compares with them.
    norms: Norms,
}

/// Whether weight decay applies: to matrices and embeddings, not to biases, norms or any other vector.
#[must_use]
pub fn decays(name: &str, rank: usize) -> bool {
    rank >= 2 && !name.ends_with("bias") && !name.contains("norm")
}

impl AdamW {
    /// An optimizer with zero moments. The order of `parameters` is the order of every sum, so it
    /// must be the same in every run that is to be reproduced.
    ///
    /// # Errors
    /// [`OptimizerError`] for settings out of their domain, a name used twice, no parameter at all,
    /// or a parameter that is not f32 and contiguous.
    pub fn new(
        parameters: Vec<(String, Var)>,
        config: AdamWConfig,
        schedule: Schedule,
    ) -> Result<Self, OptimizerError> {
        Self::with_fused_on(parameters, config, schedule, Device::is_cpu)
    }

    fn with_fused_on(
        parameters: Vec<(String, Var)>,
        config: AdamWConfig,
        schedule: Schedule,
        fused: impl Fn(&Device) -> bool,
    ) -> Result<Self, OptimizerError> {
        config.validate()?;
        schedule.validate()?;
        if parameters.is_empty() {
            return Err(OptimizerError::NoParameters);
        }
        let mut names = BTreeSet::new();
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(OptimizerError::DuplicateName { name: name.clone() });
        }
        let slots = parameters
            .into_iter()
            .map(|(name, var)| {
                let fused = fused(var.device());
                ParameterSlot::new(name, var, fused)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { config, schedule, slots, updates: 0, norms: Norms::default() })
    }

    /// Updates applied so far.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Names and variables of the parameters, in their fixed order.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &Var)> {
        self.slots.iter().map(ParameterSlot::named_var)
    }

    /// What to report where no step is made. Changes nothing.
    #[must_use]
    pub fn skip(&self, cause: SkipCause) -> StepReport {
        StepReport {
            outcome: StepOutcome::Skipped(cause),
            gradient_norm: f64::NAN,
            clip_scale: 1.0,
            learning_rate: self.schedule.learning_rate(self.updates),
            updates: self.updates,
        }
    }

    /// Updates the weights with a gradient: one buffer per parameter, in their order.
    ///
    /// # Errors
    /// [`OptimizerError::Gradient`] when a buffer does not fit its parameter; nothing is changed
    /// then. A gradient that the guard refuses is no error: see [`StepOutcome::Skipped`].
    pub fn step(&mut self, gradients: &[Gradient]) -> Result<StepReport, OptimizerError> {
        if gradients.len() != self.slots.len() {
            let (found, expected) = (gradients.len(), self.slots.len());
            return Err(OptimizerError::Gradients { found, expected });
        }
        let mut square = 0.0;
        for (slot, gradient) in self.slots.iter().zip(gradients) {
            slot.check(gradient)?;
            square += gradient.square_sum()?;
        }
        let gradient_norm = square.sqrt();
        if let Some(cause) = self.config.guard.refuses(gradient_norm, &self.norms) {
            return Ok(StepReport { gradient_norm, ..self.skip(cause) });
        }
        let learning_rate = self.schedule.learning_rate(self.updates);
        let clip_scale = if gradient_norm > self.config.max_gradient_norm {
            self.config.max_gradient_norm / gradient_norm
        } else {
            1.0
        };
        let coefficients =
            Coefficients::new(&self.config, learning_rate, clip_scale, self.updates.saturating_add(1));
        for (slot, gradient) in self.slots.iter_mut().zip(gradients) {
            slot.update(gradient, &coefficients)?;
        }
        self.updates += 1;
        if self.config.guard.compares() {
            self.norms.push(gradient_norm);
        }
        Ok(StepReport {
            outcome: StepOutcome::Applied,
            gradient_norm,
            clip_scale,
            learning_rate,
            updates: self.updates,
        })
    }
}

#[cfg(test)]
mod tests;
