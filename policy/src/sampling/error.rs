//! What choosing a token can fail with.

/// A token that cannot be chosen or looked up.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// A token id outside of the vocabulary.
    #[error(
        "token {token} is outside of the vocabulary of {vocab}; the tokenizer and the model do not belong together"
    )]
    Token {
        /// Id that is outside of the vocabulary.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// Sampling parameters out of range.
    #[error("sampling parameter `{name}` is {value}; it must be {wanted}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Value that was given.
        value: f64,
        /// Range of values that are allowed.
        wanted: &'static str,
    },
    /// The model's output cannot be sampled from.
    #[error("the logits contain {found}; the policy's weights are broken: install another version")]
    Logits {
        /// What makes them unusable: infinity, NaN, or no token.
        found: &'static str,
    },
}
