//! What is asked of a generation, and what comes back.

use super::bounds::within;
use super::stop::StopStrings;
use crate::generation::EngineError;
use crate::model::config::ModelConfig;
use crate::sampling::{SamplingError, SamplingParams};

/// Most samples of one request.
pub const MAX_SAMPLES: usize = 1 << 10;
/// Most stop ids of one request.
pub const MAX_STOP_IDS: usize = 64;

/// What the caller knows a request by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A prompt, and how many responses to it are wanted.
///
/// `max_new_tokens` bounds all turns of a response together.
#[derive(Debug, Clone)]
pub struct SampleRequest {
    /// Token ids, at least one.
    pub prompt: Vec<u32>,
    /// Decides every draw, together with sample and position: see [`crate::sampling::uniform`].
    pub seed: [u8; 32],
    /// Responses wanted (the group size G); they share one prefill.
    pub samples: u32,
    /// A turn ends after one of these.
    pub stop_ids: Vec<u32>,
    /// A turn ends after the token with which its text comes to hold one of these.
    pub stop_strings: Option<StopStrings>,
    /// Most tokens of each sample, each 1 to `max_new_tokens`; empty where that bounds them all.
    pub limits: Vec<u32>,
    /// Most tokens that a response hears between its turns, all of them together; 0 where there is only one.
    pub max_heard: u32,
    /// How tokens are drawn.
    pub params: SamplingParams,
}

impl SampleRequest {
    /// Most tokens that the policy says in one response.
    pub(super) fn limit(&self, sample: u32) -> usize {
        self.limits.get(sample as usize).copied().unwrap_or(self.params.max_new_tokens) as usize
    }

    /// Most tokens that come after the prompt in one response.
    pub(super) fn most_behind_prompt(&self, sample: u32) -> usize {
        self.limit(sample).saturating_add(self.max_heard as usize)
    }
}

/// One response. `tokens`, `logprobs`, `raw_logprobs` and `versions` have one entry a token; what
/// was heard is in none of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completion {
    /// Token ids of all turns, stop tokens included where they were drawn.
    pub tokens: Vec<u32>,
    /// How many tokens each turn has.
    pub turns: Vec<u32>,
    /// Log-prob of each token under the distribution it was drawn from.
    pub logprobs: Vec<f32>,
    /// Log-prob of each token at temperature 1 without truncation.
    pub raw_logprobs: Vec<f32>,
    /// Policy version that produced each token.
    pub versions: Vec<u64>,
    /// Indices of tokens before whose draw everything was computed anew, where that matters: what
    /// was in the cache came of another version. With [`super::PolicyTakeover::Recompute`] these
    /// are the places at which the version changes; where it changes at another place, the cache of
    /// the version before was kept.
    pub recomputed: Vec<u32>,
    /// Whether a stop token or a stop string ended its last turn; otherwise the length did, or
    /// the generation was abandoned.
    pub stopped: bool,
}

impl Completion {
    /// Whether tokens were drawn from a cache that an older version had filled: see
    /// [`super::PolicyTakeover::Keep`].
    pub fn has_kept_caches(&self) -> bool {
        let mut changes = (1..self.versions.len()).filter(|&at| self.versions[at] != self.versions[at - 1]);
        changes.any(|at| !self.recomputed.contains(&(at as u32)))
    }
}

/// A turn that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedTurn<'a> {
    /// Request that the response belongs to.
    pub ticket: Ticket,
    /// Index of the response within the request.
    pub sample: usize,
    /// Its tokens, the stop token included if it was drawn.
    pub tokens: &'a [u32],
    /// Whether a stop token or a stop string ended it; otherwise the length did.
    pub stopped: bool,
    /// How many tokens the response may still have.
    pub left: usize,
}

/// Whether the request can be carried out by a model of this shape.
pub(super) fn check(
    config: &ModelConfig,
    ticket: Ticket,
    request: &SampleRequest,
) -> Result<(), EngineError> {
    request.params.validate()?;
    let samples = request.samples as usize;
    within("samples", samples, MAX_SAMPLES)?;
    within("stop_ids", request.stop_ids.len(), MAX_STOP_IDS)?;
    within("limits of samples", request.limits.len(), samples)?;
    let most = request.params.max_new_tokens;
    if let Some(bad) = request.limits.iter().find(|limit| !(1..=most).contains(limit)) {
        let wanted = "between 1 and max_new_tokens";
        return Err(SamplingError::Parameter { name: "limits", value: f64::from(*bad), wanted }.into());
    }
    if request.prompt.is_empty() {
        return Err(EngineError::EmptyPrompt { request: ticket.0 as usize });
    }
    check_tokens(&request.prompt, config.vocab_size)?;
    let behind = (most as usize).saturating_add(request.max_heard as usize);
    let (tokens, limit) = (request.prompt.len().saturating_add(behind), config.max_position_embeddings);
    if tokens > limit { Err(EngineError::TooLong { tokens, limit }) } else { Ok(()) }
}

pub(super) fn check_tokens(tokens: &[u32], vocab: usize) -> Result<(), EngineError> {
    match tokens.iter().find(|token| **token as usize >= vocab) {
        Some(token) => Err(EngineError::Token { token: *token, vocab }),
        None => Ok(()),
    }
}
