//! What the training pass can fail with.

use crate::model::weights::WeightsError;

/// A failure of the training pass.
#[derive(Debug, thiserror::Error)]
pub enum DecoderError {
    /// The parameters given are not those of the configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A sequence is longer than the model's positions.
    #[error("a sequence of {found} tokens; the model has {limit} positions: ask for shorter sequences")]
    TooLong {
        /// Tokens of the sequence.
        found: usize,
        /// `max_position_embeddings` of the model.
        limit: usize,
    },
    /// A token id, in a sequence or as a target, outside of the vocabulary.
    #[error(
        "token {token} at row {row} is outside of the vocabulary of {vocab}; the tokenizer and the model do not belong together"
    )]
    Token {
        /// Id that is outside of the vocabulary.
        token: u32,
        /// Row of the pack.
        row: usize,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// The rows of the targets are not rows of the pack in ascending order.
    #[error(
        "target {index} is of row {row}, in a pack of {rows} rows; give each row once, in ascending order"
    )]
    TargetRow {
        /// Index of the target.
        index: usize,
        /// Row that the target names.
        row: usize,
        /// Rows of the pack.
        rows: usize,
    },
    /// More logits asked for at once than anyone should hold.
    #[error("{found} logits at once, the limit is {limit}; ask for fewer rows")]
    TooManyLogits {
        /// Rows asked for, times the vocabulary.
        found: usize,
        /// Most logits at once: [`crate::training::decoder::MAX_LOGITS`].
        limit: usize,
    },
    /// The derivatives given are not one per scored token.
    #[error("{found} values of `{what}`, {expected} tokens were scored; give one for each")]
    Derivatives {
        /// Name of the slice: `d_logp` or `d_entropy`.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// Targets that were scored.
        expected: usize,
    },
    /// The gradients to add to are not those of this decoder's parameters.
    #[error(
        "the gradients belong to another model or device; make them with Gradients::zeros of this decoder"
    )]
    ForeignGradients,
    /// The graph did not reach a parameter.
    #[error("parameter `{name}` got no gradient: an operation without a backward pass severed the graph")]
    MissingGradient {
        /// Its Hugging Face name.
        name: String,
    },
    /// A fused kernel was given a parameter that it cannot read in place.
    #[error("parameter `{name}` is not contiguous f32 on the CPU; rebuild the decoder from its weights")]
    NotHost {
        /// Its Hugging Face name.
        name: String,
    },
    /// candle reported an error (shape, device or memory).
    #[error("tensor operation failed: {0}")]
    Candle(#[from] candle_core::Error),
}
