//! What generation and scoring can fail with.

use crate::model::precision::Precision;
use crate::model::weights::WeightsError;
use crate::sampling::SamplingError;

/// A failure of generation, sampling or scoring.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
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
    /// A prompt or sequence without tokens.
    #[error("request {request}: the prompt is empty; give at least one token")]
    EmptyPrompt {
        /// Index of the request.
        request: usize,
    },
    /// Prompt and response do not fit into the model's positions.
    #[error(
        "{tokens} tokens do not fit into the {limit} positions of the model; shorten the prompt or max_new_tokens"
    )]
    TooLong {
        /// Tokens of prompt and response together.
        tokens: usize,
        /// `max_position_embeddings` of the model.
        limit: usize,
    },
    /// A request beyond one of the engine's limits.
    #[error("`{what}` is {value}, the limit is {limit}; split the work")]
    Limit {
        /// Quantity that is beyond its limit.
        what: &'static str,
        /// The value asked for.
        value: usize,
        /// Most that is allowed of it.
        limit: usize,
    },
    /// The parameters are out of range, or the logits cannot be sampled from.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The new policy has another shape than the one in use.
    #[error(
        "policy version {version} has another configuration than the one in flight; start a new generation"
    )]
    OtherConfig {
        /// Version of the new policy.
        version: u64,
    },
    /// The device has no room for what a call adds to the caches. Nothing is changed; with fewer
    /// sequences in flight it goes on.
    #[error(
        "the device is out of memory: {wanted} bytes are wanted, {free} are free; lower the memory or the number of sequences in the settings"
    )]
    Memory {
        /// Bytes that the call needs.
        wanted: usize,
        /// Bytes that are left; 0 where the device does not tell.
        free: usize,
    },
    /// The device does not answer any more: whatever was loaded on it is gone.
    #[error("{device} was lost: {why}; load the policy on it again, or on another device")]
    DeviceLost {
        /// Device that was lost, as people call it.
        device: String,
        /// What its driver said.
        why: String,
    },
    /// The backend does not compute in this precision.
    #[error("this backend does not compute in {precision}; choose {wanted}")]
    Precision {
        /// The one asked for.
        precision: Precision,
        /// Those that there are.
        wanted: &'static str,
    },
    /// The cache handed in is not of this backend and configuration.
    #[error("the key-value cache belongs to another model; start with an empty cache")]
    ForeignCache,
    /// The thread pool exists already with another size.
    #[error(
        "the thread pool already has {existing} threads, {wanted} were asked for; call set_threads before anything is computed"
    )]
    Threads {
        /// Size of the pool.
        existing: usize,
        /// Size that was asked for.
        wanted: usize,
    },
    /// The weights could not be loaded into the backend.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl EngineError {
    /// Whether it is one request's own fault, so that others may be generated without it.
    #[must_use]
    pub fn is_of_request(&self) -> bool {
        matches!(
            self,
            Self::Token { .. }
                | Self::EmptyPrompt { .. }
                | Self::TooLong { .. }
                | Self::Sampling(SamplingError::Token { .. })
        )
    }
}
