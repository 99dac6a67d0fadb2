//! The learning rate as a function of the update.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What happens after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decay {
    /// The peak for ever. A variant with fields, as serde takes any key beside one without.
    Constant {},
    /// Half a cosine from the peak to `floor` · peak, reached after `updates` updates (warm-up
    /// included) and kept from then on.
    Cosine {
        /// Updates until the floor is reached.
        updates: u64,
        /// Final rate as a share of the peak, 0 to 1.
        floor: f64,
    },
}

/// Linear warm-up to a peak, then [`Decay`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The largest learning rate.
    pub peak: f64,
    /// Updates of warm-up: update `k` (from zero) runs at (k + 1) / warmup · peak. Zero starts at the peak.
    #[serde(default)]
    pub warmup: u64,
    /// What follows after the warm-up.
    pub decay: Decay,
}

/// Why a schedule is refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ScheduleError {
    /// The peak is not a usable rate.
    #[error("learning rate {0} is not usable: it must be positive and finite")]
    Peak(f64),
    /// The floor is not a share.
    #[error("cosine floor {0} is not a share of the peak: it must lie in 0..=1")]
    Floor(f64),
    /// The decay would end before it starts.
    #[error("cosine decay over {updates} updates ends within its warm-up of {warmup}: lengthen the decay")]
    Length {
        /// Length of the decay, warm-up included.
        updates: u64,
        /// Length of the warm-up.
        warmup: u64,
    },
}

impl Schedule {
    /// A constant rate after `warmup` updates.
    #[must_use]
    pub fn constant(peak: f64, warmup: u64) -> Self {
        Self { peak, warmup, decay: Decay::Constant {} }
    }

    /// Refuses a rate or a share that is out of its domain.
    ///
    /// # Errors
    /// [`ScheduleError`] names the setting that is out of its domain.
    pub fn validate(&self) -> Result<(), ScheduleError> {
        if !(self.peak > 0.0 && self.peak.is_finite()) {
            return Err(ScheduleError::Peak(self.peak));
        }
        if let Decay::Cosine { updates, floor } = self.decay {
            if !(0.0..=1.0).contains(&floor) {
                return Err(ScheduleError::Floor(floor));
            }
            if updates <= self.warmup {
                return Err(ScheduleError::Length { updates, warmup: self.warmup });
            }
        }
        Ok(())
    }

    /// The learning rate of the update that follows `updates_done` updates.
    #[must_use]
    pub fn learning_rate(&self, updates_done: u64) -> f64 {
        if updates_done < self.warmup {
            return self.peak * (updates_done + 1) as f64 / self.warmup as f64;
        }
        match self.decay {
            Decay::Constant {} => self.peak,
            Decay::Cosine { updates, floor } => {
                let length = updates.saturating_sub(self.warmup).max(1) as f64;
                let progress = ((updates_done - self.warmup) as f64 / length).min(1.0);
                self.peak * (floor + (1.0 - floor) * 0.5 * (1.0 + (PI * progress).cos()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warms_up_linearly_and_never_starts_at_zero() {
        let schedule = Schedule::constant(0.4, 4);
        let rates: Vec<f64> = (0..6).map(|k| schedule.learning_rate(k)).collect();
        assert_eq!(rates, [0.1, 0.2, 0.30000000000000004, 0.4, 0.4, 0.4]);
        assert_eq!(Schedule::constant(0.4, 0).learning_rate(0), 0.4);
    }

    #[test]
    fn cosine_falls_from_the_peak_to_the_floor_and_stays() {
        let schedule = Schedule { peak: 1.0, warmup: 10, decay: Decay::Cosine { updates: 110, floor: 0.1 } };
        schedule.validate().unwrap();
        assert_eq!(schedule.learning_rate(10), 1.0);
        assert!((schedule.learning_rate(60) - 0.55).abs() < 1e-12);
        assert!((schedule.learning_rate(110) - 0.1).abs() < 1e-12);
        assert_eq!(schedule.learning_rate(u64::MAX), schedule.learning_rate(110));
    }

    #[test]
    fn refuses_what_cannot_be_followed() {
        assert!(matches!(Schedule::constant(f64::NAN, 0).validate(), Err(ScheduleError::Peak(_))));
        let cosine =
            |updates, floor| Schedule { peak: 1.0, warmup: 5, decay: Decay::Cosine { updates, floor } };
        assert_eq!(cosine(5, 0.0).validate(), Err(ScheduleError::Length { updates: 5, warmup: 5 }));
        assert_eq!(cosine(9, 1.5).validate(), Err(ScheduleError::Floor(1.5)));
    }

    #[test]
    fn a_key_that_the_shape_does_not_have_is_refused() {
        let decay = |text: &str| toml::from_str::<Schedule>(&format!("peak = 1e-4\ndecay = {text}"));
        assert_eq!(decay("{ shape = 'constant' }").unwrap(), Schedule::constant(1e-4, 0));
        let refused = decay("{ shape = 'constant', updates = 9 }").unwrap_err().to_string();
        assert!(refused.contains("updates"), "{refused}");
        assert!(decay("{ shape = 'cosine', updates = 9, floor = 0.1 }").is_ok());
        let written = toml::to_string(&Schedule::constant(1e-4, 0)).unwrap();
        assert_eq!(toml::from_str::<Schedule>(&written).unwrap(), Schedule::constant(1e-4, 0));
    }
}
