//! What can be wrong with a batch.

use thiserror::Error;

use super::{MAX_SEQUENCE_TOKENS, MAX_SEQUENCES};
use echo_policy::training::packed::PackedError;

/// Why a batch could not be built.
#[derive(Debug, Error)]
pub enum BatchError {
    /// There is no sequence.
    #[error("the batch has no sequence: wait for rollouts before forming it")]
    Empty,
    /// More sequences than the limit.
    #[error("the batch has {sequences} sequences, the limit is {MAX_SEQUENCES}: form smaller batches")]
    TooManySequences {
        /// Sequences that were to be in it.
        sequences: usize,
    },
    /// A sequence longer than the limit.
    #[error("sequence {row} has {tokens} tokens, the limit is {MAX_SEQUENCE_TOKENS}: drop it")]
    SequenceTooLong {
        /// Index of the sequence.
        row: usize,
        /// Tokens of prompt, response and what was heard.
        tokens: usize,
    },
    /// A sequence without a prompt, or of one token.
    #[error("sequence {row} has nothing to predict: it needs a prompt token and one token more")]
    NothingToPredict {
        /// Index of the sequence.
        row: usize,
    },
    /// Something was heard before the first turn, after the last, or in disorder.
    #[error("sequence {row} does not say between which turns the policy heard what: drop it")]
    Turns {
        /// Index of the sequence.
        row: usize,
    },
    /// The sequences cannot be packed.
    #[error(transparent)]
    Packed(#[from] PackedError),
}
