//! Groups of responses, generated token by token; the policy may be replaced between any two tokens.
//!
//! A response may have several turns. When one ends, [`Generation::converse`] asks the caller's environment what the policy hears, and
//! the next turn goes on from the same cache: nothing is computed twice, and no turn waits for the turns of others. Positions count the
//! response's own tokens through all turns, so its draws are those of one long response.

mod sequence;

use std::sync::Arc;

use super::backend::{Backend, Feed, MAX_CALL_TOKENS, Want};
use super::cpu::CpuBackend;
use super::policy::Policy;
use crate::error::EngineError;
use crate::sampler::{self, SamplingParams};
use sequence::{Group, Sequence};

/// Most requests in one generation.
pub const MAX_REQUESTS: usize = 1 << 14;
/// Most samples of one request.
pub const MAX_SAMPLES: usize = 1 << 10;
/// Most stop ids of one request.
pub const MAX_STOP_IDS: usize = 64;
/// Bytes of key-value caches in use at once, unless [`Generation::with_cache_budget`] says otherwise.
pub const DEFAULT_CACHE_BUDGET: usize = 2 << 30;
/// Sequences decoded in one call: bounds the logits in memory at large vocabularies.
const DECODE_BATCH: usize = 256;
const _: () = assert!(DECODE_BATCH <= MAX_CALL_TOKENS);

/// A prompt, and how many responses to it are wanted.
///
/// `max_new_tokens` bounds all turns of a response together.
#[derive(Debug, Clone)]
pub struct SampleRequest {
    /// Token ids, at least one.
    pub prompt: Vec<u32>,
    /// Decides every draw, together with sample and position: see [`sampler::uniform`].
    pub seed: [u8; 32],
    /// Responses wanted (the group size G); they share one prefill.
    pub samples: u32,
    /// A turn ends after one of these.
    pub stop_ids: Vec<u32>,
    /// Most tokens that a response hears between its turns, all of them together; 0 where there is only one.
    pub max_heard: u32,
    /// How tokens are drawn.
    pub params: SamplingParams,
}

impl SampleRequest {
    /// Most tokens that come behind the prompt in one response.
    fn most_behind_prompt(&self) -> usize {
        (self.params.max_new_tokens as usize).saturating_add(self.max_heard as usize)
    }
}

/// One response. All lists but `turns` have one entry a token; what was heard is in none of them.
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
    /// Whether a stop token ended its last turn; otherwise the length did, or the generation was abandoned.
    pub stopped: bool,
}

/// A turn that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<'a> {
    /// Index of its request.
    pub request: usize,
    /// Index of the response within the request.
    pub sample: usize,
    /// Its tokens, the stop token included if it was drawn.
    pub tokens: &'a [u32],
    /// Whether a stop token ended it; otherwise the length did.
    pub stopped: bool,
    /// How many tokens the response may still have.
    pub left: usize,
}

/// A batch of requests on its way. Each [`Generation::step`] adds one token to every sequence in flight.
///
/// Requests are taken up in order, as many at once as the cache budget holds (always at least one). The result does not
/// depend on how they are batched: every draw has its own number, and the backend's numbers do not depend on neighbours.
///
/// All responses to a request begin together, and a turn that ends is answered before the next step: those that are not over have equally
/// many tokens of their own at any time. So a [`Generation::swap`] falls on the same place in each, which learners rely on.
pub struct Generation<B: Backend = CpuBackend> {
    policy: Arc<Policy<B>>,
    groups: Vec<Group<B>>,
    /// Index of the first group that was not taken up yet.
    next: usize,
    cache_budget: usize,
}

impl<B: Backend> Generation<B> {
    /// Accepts requests; nothing is computed yet.
    ///
    /// # Errors
    /// When a request is empty, beyond a limit, does not fit the model's positions or has parameters out of range.
    pub fn start(policy: Arc<Policy<B>>, requests: Vec<SampleRequest>) -> Result<Self, EngineError> {
        within("requests", requests.len(), MAX_REQUESTS)?;
        for (index, request) in requests.iter().enumerate() {
            check(&policy, index, request)?;
        }
        let groups = requests.into_iter().map(Group::new).collect();
        Ok(Self { policy, groups, next: 0, cache_budget: DEFAULT_CACHE_BUDGET })
    }

    /// Bounds the bytes of key-value caches in use at once. A single request is always taken up, whatever it needs.
    #[must_use]
    pub fn with_cache_budget(mut self, bytes: usize) -> Self {
        self.cache_budget = bytes;
        self
    }

    /// Whether every response is complete.
    pub fn is_finished(&self) -> bool {
        self.next == self.groups.len() && self.groups.iter().all(Group::is_finished)
    }

    /// The policy in use.
    pub fn policy(&self) -> &Arc<Policy<B>> {
        &self.policy
    }

    /// Draws one token for every sequence in flight; true when every response is complete.
    ///
    /// # Errors
    /// When the policy's logits cannot be sampled from. Tokens drawn before stay valid.
    pub fn step(&mut self) -> Result<bool, EngineError> {
        // Not before the environment could say that a response goes on.
        for group in &mut self.groups[..self.next] {
            group.release_finished();
        }
        self.admit();
        self.prefill()?;
        self.catch_up()?;
        self.decode()?;
        Ok(self.is_finished())
    }

    /// Tells `environment` of every turn that has ended since the last call. Where it answers with tokens, the policy hears them and
    /// begins another turn; elsewhere the response is complete. Call it after each step, and look at [`Generation::is_finished`] then.
    ///
    /// # Errors
    /// Those of `environment`, and of an answer with unknown tokens, with more than [`SampleRequest::max_heard`] in all, or to a response
    /// that has no tokens left.
    pub fn converse<E: From<EngineError>>(
        &mut self,
        mut environment: impl FnMut(Turn<'_>) -> Result<Option<Vec<u32>>, E>,
    ) -> Result<(), E> {
        let vocab = self.policy.config().vocab_size;
        for (index, group) in self.groups[..self.next].iter_mut().enumerate() {
            let Group { request, sequences, .. } = group;
            for sequence in sequences.iter_mut().filter(|sequence| sequence.finished && !sequence.told) {
                sequence.told = true;
                if let Some(heard) = environment(sequence.turn(index, request))? {
                    check_tokens(&heard, vocab)?;
                    sequence.hear(request, &heard)?;
                }
            }
        }
        Ok(())
    }

    /// Goes on under a new policy version: caches are dropped, and recomputed from prompt and tokens at the next step.
    ///
    /// # Errors
    /// When the new policy has another configuration; the old one then stays in use.
    pub fn swap(&mut self, policy: Arc<Policy<B>>) -> Result<(), EngineError> {
        if policy.config() != self.policy.config() {
            return Err(EngineError::OtherConfig { version: policy.version() });
        }
        self.policy = policy;
        self.groups.iter_mut().for_each(Group::forget);
        Ok(())
    }

    /// Steps until every response is complete.
    ///
    /// # Errors
    /// As [`Generation::step`].
    pub fn run(mut self) -> Result<Vec<Vec<Completion>>, EngineError> {
        while !self.step()? {}
        Ok(self.into_completions())
    }

    /// The responses of each request as far as they have come: after an abort, the unfinished ones are partial.
    pub fn into_completions(self) -> Vec<Vec<Completion>> {
        self.groups.into_iter().map(Group::into_completions).collect()
    }

    fn admit(&mut self) {
        let per_token = self.policy.backend().cache_bytes_per_token();
        let bytes = |group: &Group<B>| group.most_cached_tokens().saturating_mul(per_token);
        let in_flight = self.groups[..self.next].iter().filter(|group| !group.is_finished());
        let mut used = in_flight.map(bytes).fold(0, usize::saturating_add);
        while let Some(group) = self.groups.get(self.next) {
            let wanted = used.saturating_add(bytes(group));
            if used > 0 && wanted > self.cache_budget {
                break;
            }
            used = wanted;
            self.next += 1;
        }
    }

    /// Computes the cache of every prompt that has none, without its last token, and hands it to the group's sequences.
    fn prefill(&mut self) -> Result<(), EngineError> {
        let backend = self.policy.backend();
        let mut waiting = Vec::new();
        for group in self.groups[..self.next].iter_mut().filter(|group| group.needs_prefill()) {
            let inputs = group.request.prompt.len() - 1;
            let cache = group.prefix.insert(backend.new_cache());
            waiting.push((&group.request.prompt[..inputs], cache));
        }
        feed_all(backend, waiting)?;
        for group in &mut self.groups[..self.next] {
            group.share_prefix(backend);
        }
        Ok(())
    }

    /// After a swap and after a turn: feeds every sequence what it has already said and heard, up to the token before the last.
    fn catch_up(&mut self) -> Result<(), EngineError> {
        let waiting = self.groups[..self.next].iter_mut().flat_map(|group| {
            group.sequences.iter_mut().filter_map(|sequence| {
                let Sequence { said, fed, cache: Some(cache), .. } = sequence else { return None };
                let behind = *fed..said.len() - 1;
                *fed = behind.end;
                Some((&said[behind], cache))
            })
        });
        feed_all(self.policy.backend(), waiting.collect())
    }

    fn decode(&mut self) -> Result<(), EngineError> {
        let (backend, version) = (self.policy.backend(), self.policy.version());
        let mut live = Vec::new();
        for group in &mut self.groups[..self.next] {
            let Group { request, sequences, .. } = group;
            live.extend(sequences.iter_mut().filter(|s| s.cache.is_some()).map(|s| (&*request, s)));
        }
        for batch in live.chunks_mut(DECODE_BATCH) {
            let mut feeds = Vec::with_capacity(batch.len());
            for (_, sequence) in batch.iter_mut() {
                let Sequence { said, fed, cache: Some(cache), .. } = &mut **sequence else { continue };
                feeds.push(Feed { tokens: &said[*fed..], cache });
                *fed = said.len();
            }
            let logits = backend.forward(&mut feeds, Want::Last)?;
            for ((request, sequence), row) in batch.iter_mut().zip(logits.rows()) {
                let position = sequence.completion.logprobs.len() as u32;
                let u = sampler::uniform(&request.seed, sequence.sample, position);
                let drawn = sampler::sample(row, &request.params, u)?;
                sequence.push(request, drawn, version);
            }
        }
        Ok(())
    }
}

/// Fills caches with the tokens beside them, any number of them, in calls of bounded size.
fn feed_all<B: Backend>(backend: &B, mut waiting: Vec<(&[u32], &mut B::Cache)>) -> Result<(), EngineError> {
    loop {
        waiting.retain(|(tokens, _)| !tokens.is_empty());
        if waiting.is_empty() {
            return Ok(());
        }
        let mut room = MAX_CALL_TOKENS;
        let mut feeds = Vec::new();
        for (tokens, cache) in waiting.iter_mut() {
            let (now, later) = tokens.split_at(tokens.len().min(room));
            if now.is_empty() {
                break;
            }
            room -= now.len();
            *tokens = later;
            feeds.push(Feed { tokens: now, cache: &mut **cache });
        }
        backend.forward(&mut feeds, Want::Nothing)?;
    }
}

fn within(what: &'static str, value: usize, limit: usize) -> Result<(), EngineError> {
    if value <= limit { Ok(()) } else { Err(EngineError::Limit { what, value, limit }) }
}

fn check<B: Backend>(policy: &Policy<B>, index: usize, request: &SampleRequest) -> Result<(), EngineError> {
    request.params.validate()?;
    within("samples", request.samples as usize, MAX_SAMPLES)?;
    within("stop_ids", request.stop_ids.len(), MAX_STOP_IDS)?;
    if request.prompt.is_empty() {
        return Err(EngineError::EmptyPrompt { request: index });
    }
    let (vocab, limit) = (policy.config().vocab_size, policy.config().max_position_embeddings);
    check_tokens(&request.prompt, vocab)?;
    let tokens = request.prompt.len().saturating_add(request.most_behind_prompt());
    if tokens > limit { Err(EngineError::TooLong { tokens, limit }) } else { Ok(()) }
}

fn check_tokens(tokens: &[u32], vocab: usize) -> Result<(), EngineError> {
    match tokens.iter().find(|token| **token as usize >= vocab) {
        Some(token) => Err(EngineError::Token { token: *token, vocab }),
        None => Ok(()),
    }
}
