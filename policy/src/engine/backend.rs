//! What a device must be able to do for generation.

use crate::config::ModelConfig;
use crate::error::EngineError;

/// Most tokens in one [`Backend::forward`] call: bounds the memory of activations and logits.
pub const MAX_CALL_TOKENS: usize = 512;

/// New tokens for one sequence.
pub struct Feed<'a, C> {
    /// The tokens, at least one, following those already in the cache.
    pub tokens: &'a [u32],
    /// The sequence's cache; the tokens are appended to it.
    pub cache: &'a mut C,
}

/// Which logits a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// None: the caches are filled and nothing else.
    Nothing,
    /// One row per sequence: those after its last token.
    Last,
    /// One row per token, sequence after sequence.
    All,
}

/// Rows of logits, `[rows, vocab]`.
#[derive(Debug, Clone)]
pub struct Logits {
    vocab: usize,
    values: Vec<f32>,
}

impl Logits {
    /// Takes `[rows, vocab]` values.
    pub fn new(vocab: usize, values: Vec<f32>) -> Self {
        debug_assert!(values.len().is_multiple_of(vocab));
        Self { vocab, values }
    }

    /// The rows in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.vocab)
    }
}

/// A model loaded on a device. Immutable: a new policy version is a new backend value.
pub trait Backend: Send + Sync {
    /// Keys and values of one sequence. Cloning gives an independent continuation of the same tokens.
    type Cache: Clone + Send;

    /// The model's shape.
    fn config(&self) -> &ModelConfig;

    /// A cache without tokens.
    fn new_cache(&self) -> Self::Cache;

    /// Makes the tokens cached so far cheap to share: clones made afterwards do not copy them.
    fn freeze(&self, cache: &mut Self::Cache);

    /// Tokens that a cache holds.
    fn cached_tokens(&self, cache: &Self::Cache) -> usize;

    /// Bytes that one cached token takes.
    fn cache_bytes_per_token(&self) -> usize;

    /// Feeds tokens to sequences, at most [`MAX_CALL_TOKENS`] altogether, and returns the logits asked for.
    ///
    /// # Errors
    /// When a token is outside of the vocabulary, a sequence outgrows the model's positions, a cache is foreign or there
    /// are too many tokens. Nothing is changed then.
    fn forward(&self, feeds: &mut [Feed<'_, Self::Cache>], want: Want) -> Result<Logits, EngineError>;
}
