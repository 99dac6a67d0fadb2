//! What a device must be able to do for generation.

use super::EngineError;
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::sampling;
use crate::sampling::{Interval, Sampled, SamplingParams};

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

/// How one token is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick<'a> {
    /// Makes the distribution of the logits.
    pub params: &'a SamplingParams,
    /// The number in [0, 1) that decides: see [`crate::sampling::uniform`].
    pub u: f64,
}

/// A token that is said to follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenClaim<'a> {
    /// From which distribution it was drawn.
    pub params: &'a SamplingParams,
    /// Id that is said to follow.
    pub token: u32,
    /// The number that decided: see [`Pick::u`]. Where tokens do not race, no answer depends on it.
    pub u: f64,
}

/// A model loaded on a device. Immutable: a new policy version is a new backend value.
pub trait Backend: Send + Sync {
    /// Keys and values of one sequence. Cloning gives an independent continuation of the same
    /// tokens, and copies few of them.
    type Cache: Clone + Send;

    /// Shape of the model that is loaded.
    fn config(&self) -> &ModelConfig;

    /// The recipe by which it computes.
    fn precision(&self) -> Precision {
        Precision::F32
    }

    /// A cache without tokens.
    fn new_cache(&self) -> Self::Cache;

    /// Tokens that a cache holds.
    fn cached_tokens(&self, cache: &Self::Cache) -> usize;

    /// Bytes that one cached token takes.
    fn cache_bytes_per_token(&self) -> usize;

    /// Caches take room for whole multiples of so many tokens, and share whole ones with their clones.
    fn cache_granule(&self) -> usize {
        1
    }

    /// Bytes that caches may still grow by; `usize::MAX` where nothing is known but that an
    /// allocation would have to fail.
    fn free_cache_bytes(&self) -> usize {
        usize::MAX
    }

    /// Whether a cache that another version filled may go on here: it is of the same device and shape.
    fn accepts(&self, cache: &Self::Cache) -> bool;

    /// Feeds tokens to sequences, at most [`MAX_CALL_TOKENS`] altogether, and returns the logits asked for.
    ///
    /// # Errors
    /// When a token is outside of the vocabulary, a sequence outgrows the model's positions,
    /// a cache is foreign, there are too many tokens, or the device has no room for them.
    /// Nothing is changed then.
    fn forward(&self, feeds: &mut [Feed<'_, Self::Cache>], want: Want) -> Result<Logits, EngineError>;

    /// Feeds tokens to sequences as [`Backend::forward`] does where no logits are wanted, beside
    /// another version from which others draw meanwhile: weights that a file has too are held in
    /// memory no longer than they are read, so that there need not be room for two versions.
    ///
    /// # Errors
    /// Those that [`Backend::forward`] fails with.
    fn forward_beside(&self, feeds: &mut [Feed<'_, Self::Cache>]) -> Result<(), EngineError> {
        self.forward(feeds, Want::Nothing).map(drop)
    }

    /// Feeds tokens to sequences as [`Backend::forward`] does, and draws the one after each feed.
    /// `picks` has one entry a feed.
    ///
    /// # Errors
    /// As [`Backend::forward`]; and [`EngineError::Sampling`] when there is nothing to draw from:
    /// the tokens are in the caches then.
    fn draw(
        &self,
        feeds: &mut [Feed<'_, Self::Cache>],
        picks: &[Pick<'_>],
    ) -> Result<Vec<Sampled>, EngineError> {
        debug_assert_eq!(feeds.len(), picks.len());
        let logits = self.forward(feeds, Want::Last)?;
        logits.rows().zip(picks).map(|(row, pick)| Ok(sampling::sample(row, pick.params, pick.u)?)).collect()
    }

    /// Feeds tokens to sequences as [`Backend::forward`] does, and tells where the claimed ones
    /// lie. `claims` has one entry a token fed, feed after feed: what is said to follow it.
    ///
    /// # Errors
    /// As [`Backend::draw`], and when a claimed token is outside of the vocabulary.
    fn place(
        &self,
        feeds: &mut [Feed<'_, Self::Cache>],
        claims: &[TokenClaim<'_>],
    ) -> Result<Vec<Interval>, EngineError> {
        debug_assert_eq!(feeds.iter().map(|feed| feed.tokens.len()).sum::<usize>(), claims.len());
        let logits = self.forward(feeds, Want::All)?;
        logits
            .rows()
            .zip(claims)
            .map(|(row, claim)| Ok(sampling::place(row, claim.params, claim.token, claim.u)?))
            .collect()
    }
}
