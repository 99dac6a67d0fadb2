//! In which numbers a backend computes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the operands of a model's products with its weights are, between the embedding and the logits.
///
/// A precision is a whole recipe: what a backend that declares it does to weights and to
/// activations, by rules that whoever checks its tokens repeats. Half of a recipe under a whole
/// one's name would move log-probabilities that nobody expects to move.
///
/// In every one of them rows of the embedding, norms and biases are as they were published,
/// widened; queries, keys and values, caches, scores, softmax, the residual stream, logits and
/// draws are f32 or wider, and sums are f32 or exact. In which order a backend adds is its own
/// affair in f32 and bf16. Rounding is to the nearest, and to the even one where two are as near.
///
/// **What 8 and 4 bits are.** A row of a weight, or of activations, is cut into blocks of 32
/// inputs, the last one filled up with zeros. A block has a scale s, and a number x of it becomes
/// the integer nearest to x · (1 / s). Each of these operations is a single one of f32.
///
/// - Activations: s = m / 127, where m is the largest |x| of the block. Integers lie within ±127.
/// - Weights in 8 bits: the same, with s rounded to bf16 before it is used.
/// - Weights in 4 bits: s = e / -8, rounded to bf16, where e is the number whose size m is, the
///   positive one if there are two. Integers beyond -8 and 7 become these.
/// - An s nearer to zero than 2⁻¹²⁶ is zero, and so are the integers of its block. Where a number
///   is infinite or none, so are s and what is multiplied with the block.
///
/// Integers are multiplied and added up exactly, over a block or a part of it; each such sum is
/// multiplied with the product of the two scales, rounded to f32; and what these come to is added
/// up in f32. The order of these sums and of all others belongs to the recipe: it is that of
/// [`CpuBackend`](crate::generation::CpuBackend). Where activations are rounded to 255 values, what
/// is off in its last bit comes out a hundredth off a few layers later, too far to tell an honest
/// machine from a liar; so a backend that adds in another order computes in something else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Published weights, widened; activations in f32. Nothing is rounded that the learner does not round.
    #[default]
    F32,
    /// Weights and activations rounded to bf16; their products are exact in f32.
    Bf16,
    /// Weights in 8 bits with a scale for each block of inputs, activations in 8 bits with a scale
    /// for each block of a row.
    Int8,
    /// As [`Precision::Int8`], with weights in 4 bits; those of the output projection in 8.
    Int4,
}

/// A name that this engine knows no precision by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this version knows no precision {0:?}; it knows f32, bf16, int8 and int4")]
pub struct UnknownPrecision(String);

impl Precision {
    /// Every precision, the finest first.
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

    /// Whether its recipe leaves nothing open: whoever computes in it draws the same tokens, with
    /// the same log-probabilities, to the bit.
    #[must_use]
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Int8 | Self::Int4)
    }

    /// The precision of the output projection's weights.
    pub(crate) fn of_head(self) -> Self {
        if self == Self::Int4 { Self::Int8 } else { self }
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
