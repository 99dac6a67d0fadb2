//! The divergence guard: which gradients are not stepped on.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::OptimizerError;
use super::norms::Norms;

/// A gradient norm above this is treated like one that is not finite: its square would overflow f32 moments.
pub const MAX_GRADIENT_NORM: f64 = 1e18;
/// Why no step was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipCause {
    /// The batch had no group left that could be read.
    Empty,
    /// The policy gave log-probabilities that are not finite, so there was no gradient at all.
    Logp,
    /// The gradient was not finite, or its norm above [`MAX_GRADIENT_NORM`].
    Gradient,
    /// The gradient's norm was above one of the guard's bounds.
    Exploding,
}

impl SkipCause {
    /// The name used in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Logp => "logp",
            Self::Gradient => "gradient",
            Self::Exploding => "exploding",
        }
    }
}

/// Says what happened, and what to do.
impl fmt::Display for SkipCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no group of the batch could be read: check the disk of the database",
            Self::Logp => {
                "the policy's log-probabilities were not finite: its weights have diverged. Lower [train.schedule] peak, \
                 and resume: the run goes on from its last checkpoint"
            }
            Self::Gradient => {
                "the gradients were not finite: lower [train.schedule] peak or [train] max_grad_norm, and resume"
            }
            Self::Exploding => {
                "the gradient norm was above the bound that [train.guard] sets: lower [train.schedule] peak, or raise \
                 max_norm or max_norm_ratio if norms of this size are right, and resume"
            }
        })
    }
}

/// Bounds on the gradient norm. What is not finite is refused always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guard {
    /// Largest norm that is stepped on.
    pub max_norm: Option<f64>,
    /// The same as a multiple of the median of the last [`NORM_WINDOW`](super::NORM_WINDOW)
    /// updates' norms, once there are eight. A norm that is refused does not enter the median.
    pub max_norm_ratio: Option<f64>,
}

impl Guard {
    /// Refuses bounds that would refuse every gradient, or are not finite.
    ///
    /// # Errors
    /// [`OptimizerError::Setting`] names the setting and its domain.
    pub fn validate(&self) -> Result<(), OptimizerError> {
        let settings =
            [("guard.max_norm", self.max_norm, 0.0), ("guard.max_norm_ratio", self.max_norm_ratio, 1.0)];
        for (setting, value, above) in settings {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value > above)) {
                let domain = if above > 0.0 { "above 1 and finite" } else { "above 0 and finite" };
                return Err(OptimizerError::Setting { setting, value, domain });
            }
        }
        Ok(())
    }

    /// Whether it looks at earlier norms.
    pub(super) fn compares(&self) -> bool {
        self.max_norm_ratio.is_some()
    }

    pub(super) fn refuses(&self, norm: f64, earlier: &Norms) -> Option<SkipCause> {
        // Written so that NaN is refused too.
        let usable = norm <= MAX_GRADIENT_NORM;
        if !usable {
            return Some(SkipCause::Gradient);
        }
        let relative = self.max_norm_ratio.zip(earlier.median()).map(|(ratio, median)| ratio * median);
        let bounds = [self.max_norm, relative];
        bounds.into_iter().flatten().any(|bound| norm > bound).then_some(SkipCause::Exploding)
    }
}

#[cfg(test)]
mod tests {
    use super::super::norms::{MIN_NORMS, NORM_WINDOW};
    use super::*;

    fn norms(values: impl IntoIterator<Item = f64>) -> Norms {
        let mut norms = Norms::default();
        values.into_iter().for_each(|norm| norms.push(norm));
        norms
    }

    #[test]
    fn what_is_not_finite_is_refused_always() {
        let guard = Guard::default();
        for norm in [f64::NAN, f64::INFINITY, 2.0 * MAX_GRADIENT_NORM] {
            assert_eq!(guard.refuses(norm, &norms([])), Some(SkipCause::Gradient));
        }
        assert_eq!(guard.refuses(1e17, &norms([1.0; NORM_WINDOW])), None, "no bound is set");
    }

    #[test]
    fn bounds_hold_each_for_itself() {
        let guard = Guard { max_norm: Some(5.0), max_norm_ratio: Some(10.0) };
        assert_eq!(guard.refuses(5.0, &norms([])), None);
        assert_eq!(guard.refuses(5.1, &norms([])), Some(SkipCause::Exploding));
        let calm = || norms((0..9).map(|i| if i == 4 { 4.0 } else { 0.1 }));
        assert_eq!(guard.refuses(0.9, &calm()), None);
        assert_eq!(
            guard.refuses(1.1, &calm()),
            Some(SkipCause::Exploding),
            "one spike does not move the median"
        );
        assert_eq!(guard.refuses(1.1, &norms([0.1; MIN_NORMS - 1])), None, "too few to compare with");
    }

    #[test]
    fn old_norms_are_forgotten() {
        let recent = norms([100.0; NORM_WINDOW].into_iter().chain([1.0; NORM_WINDOW]));
        assert_eq!((recent.0.len(), recent.median()), (NORM_WINDOW, Some(1.0)));
    }

    #[test]
    fn settings_have_domains() {
        assert!(Guard { max_norm: Some(0.0), ..Guard::default() }.validate().is_err());
        let ratio = Guard { max_norm_ratio: Some(1.0), ..Guard::default() };
        assert!(ratio.validate().unwrap_err().to_string().contains("guard.max_norm_ratio"));
        assert!(Guard { max_norm: Some(1.0), max_norm_ratio: Some(1.5) }.validate().is_ok());
    }
}
