//! In which numbers a backend computes.

use std::fmt;

/// What the operands of a model's products are, between the embedding and the logits.
///
/// A precision is a whole recipe: what a backend that declares it does to weights, to activations and to keys and values alike, by rules
/// that whoever checks its tokens repeats. Half of a recipe under a whole one's name would move log-probabilities that nobody expects to
/// move. In every one of them norms, softmax, logits and draws are f32 or wider, and sums are f32 or exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        })
    }
}
