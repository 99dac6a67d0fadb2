//! Rotary position embedding: inverse frequencies and their scalings.

use super::ModelConfigError;

/// How rotary frequencies are stretched beyond the length the model was pre-trained with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Frequencies stay as `rope_theta` gives them.
    Default,
    /// All frequencies divided by `factor`.
    Linear {
        /// The divisor, at least 1.
        factor: f64,
    },
    /// Llama 3: low frequencies divided by `factor`, high ones kept, those between interpolated.
    Llama3 {
        /// The divisor of low frequencies, at least 1.
        factor: f64,
        /// Wavelengths above `original_positions / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original_positions / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Positions of the original pre-training.
        original_positions: usize,
    },
}

impl RopeScaling {
    pub(super) fn validate(&self) -> Result<(), ModelConfigError> {
        let ok = match *self {
            Self::Default => true,
            Self::Linear { factor } => factor.is_finite() && factor >= 1.0,
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
                factor.is_finite()
                    && factor >= 1.0
                    && low_freq_factor > 0.0
                    && high_freq_factor.is_finite()
                    && high_freq_factor > low_freq_factor
                    && (1..=super::MAX_POSITIONS).contains(&original_positions)
            }
        };
        if ok {
            Ok(())
        } else {
            Err(ModelConfigError::Inconsistent(format!(
                "rope scaling {self:?} is out of range: factor >= 1 and 0 < low_freq_factor < high_freq_factor"
            )))
        }
    }
}

/// Inverse frequencies `[head_dim / 2]`. All arithmetic is in f32, because transformers' is.
pub(super) fn inv_freq(head_dim: usize, theta: f64, scaling: &RopeScaling) -> Vec<f32> {
    (0..head_dim / 2)
        .map(|i| {
            let exponent = (2 * i) as f32 / head_dim as f32;
            // Not the system's `pow`, which may end in another bit elsewhere.
            let plain = 1.0f32 / libm::pow(theta, f64::from(exponent)) as f32;
            match *scaling {
                RopeScaling::Default => plain,
                RopeScaling::Linear { factor } => plain / factor as f32,
                RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
                    let factor = factor as f32;
                    let (low, high) = (low_freq_factor as f32, high_freq_factor as f32);
                    let original = original_positions as f32;
                    let wavelength = 2.0 * std::f32::consts::PI / plain;
                    if wavelength > original / low {
                        plain / factor
                    } else if wavelength < original / high {
                        plain
                    } else {
                        let smooth = (original / wavelength - low) / (high - low);
                        (1.0 - smooth) * plain / factor + smooth * plain
                    }
                }
            }
        })
        .collect()
}
