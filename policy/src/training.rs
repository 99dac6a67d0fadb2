//! The training pass: log-probs and entropies of packed sequences, and gradients of a loss.
//!
//! May import `model`, `sampling` (for `logprob`) and `math`.
//!
//! ```text
//! sequences -> packed::Packed
//! Packed and targets -> decoder::Decoder::score_for_training -> log-probs, entropies
//! derivatives of a loss -> decoder::ScoredPack::backward -> decoder::Gradients
//! flops::ScoringWork: the arithmetic that a batch needs
//! ```

pub mod decoder;
pub mod flops;
pub mod packed;
