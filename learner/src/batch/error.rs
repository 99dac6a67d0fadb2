//! What can be wrong with a batch.

use thiserror::Error;

use super::{MAX_PADDED_TOKENS, MAX_SEQUENCE_TOKENS, MAX_SEQUENCES};

/// Why a batch could not be built.
#[derive(Debug, Error)]
pub enum BatchError {
    /// There is no sequence.
    #[error("the batch has no sequence: wait for rollouts before forming it")]
    Empty,
    /// More sequences than the limit.
    #[error("the batch has {sequences} sequences, the limit is {MAX_SEQUENCES}: form smaller batches")]
    TooManySequences {
        /// Number of sequences.
        sequences: usize,
    },
    /// A sequence longer than the limit.
    #[error("sequence {row} has {tokens} tokens, the limit is {MAX_SEQUENCE_TOKENS}: drop it")]
    SequenceTooLong {
        /// Index of the sequence.
        row: usize,
        /// Its tokens.
        tokens: usize,
    },
    /// A padded batch larger than the limit.
    #[error("the padded batch has {padded} positions, the limit is {MAX_PADDED_TOKENS}: split it")]
    TooLarge {
        /// Positions, padding included.
        padded: usize,
    },
    /// A sequence without a prompt, or of one token.
    #[error("sequence {row} has nothing to predict: it needs a prompt token and one token more")]
    NothingToPredict {
        /// Index of the sequence.
        row: usize,
    },
    /// The tensor library refused an operation.
    #[error("tensor operation failed while building a batch: {0}")]
    Tensor(#[from] candle_core::Error),
}
