//! In which numbers a backend computes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the operands of a model's products are, between the embedding and the logits.
///
/// A precision is a whole recipe: what a backend that declares it does to weights, to activations and to keys and values alike, by rules
/// that whoever checks its tokens repeats. Half of a recipe under a whole one's name would move log-probabilities that nobody expects to
/// move. In every one of them norms, softmax, logits and draws are f32 or wider, and sums are f32 or exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Published weights, widened; activations, keys and values in f32. Nothing is rounded that the learner does not round.
    #[default]
    F32,
    /// Weights and activations rounded to bf16.
    Bf16,
    /// Weights in 8 bits with a scale for each block of inputs, activations in 8 bits with a scale for each block of a row.
    Int8,
    /// As [`Precision::Int8`], with weights in 4 bits; those of the output projection in 8.
    Int4,
}

/// A name that this engine knows no precision by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this version knows no precision {0:?}")]
pub struct UnknownPrecision(String);

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 4] = [Self::F32, Self::Bf16, Self::Int8, Self::Int4];

    /// The name by which run files, charters and groups of trajectories call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, UnknownPrecision> {
        let known = Self::ALL.into_iter().find(|precision| precision.name() == name);
        known.ok_or_else(|| UnknownPrecision(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_precision_has_one_name_everywhere() {
        for precision in Precision::ALL {
            assert_eq!(precision.name().parse(), Ok(precision));
            assert_eq!(serde_json::to_value(precision).unwrap(), precision.name());
        }
        assert!("F32".parse::<Precision>().is_err() && "fp8".parse::<Precision>().is_err());
    }
}
