//! The state of one response, and of the group of responses to one prompt.

use super::{Completion, SampleRequest, Turn, within};
use crate::engine::backend::Backend;
use crate::error::EngineError;
use crate::sampler::Sampled;

/// One response on its way.
pub(super) struct Sequence<C> {
    pub(super) sample: u32,
    /// The prompt's last token, then the response so far, with what was heard between its turns: what is fed after the group's shared
    /// prefix.
    pub(super) said: Vec<u32>,
    /// How many of `said` were heard.
    heard: usize,
    /// How many of `said` are in the cache.
    pub(super) fed: usize,
    /// Present while the response is in flight and its prompt computed.
    pub(super) cache: Option<C>,
    pub(super) completion: Completion,
    /// Whether its turn has ended.
    pub(super) finished: bool,
    /// Whether the environment knows that.
    pub(super) told: bool,
}

impl<C> Sequence<C> {
    pub(super) fn push(&mut self, request: &SampleRequest, drawn: Sampled, version: u64) {
        self.said.push(drawn.token);
        self.completion.tokens.push(drawn.token);
        if let Some(turn) = self.completion.turns.last_mut() {
            *turn += 1;
        }
        self.completion.logprobs.push(drawn.logprob);
        self.completion.raw_logprobs.push(drawn.raw_logprob);
        self.completion.versions.push(version);
        self.completion.stopped = request.stop_ids.contains(&drawn.token);
        self.finished = self.completion.stopped || self.left(request) == 0;
    }

    fn left(&self, request: &SampleRequest) -> usize {
        (request.params.max_new_tokens as usize).saturating_sub(self.completion.tokens.len())
    }

    /// The turn that has ended, of the request with this index.
    pub(super) fn turn(&self, index: usize, request: &SampleRequest) -> Turn<'_> {
        let Completion { tokens, turns, stopped, .. } = &self.completion;
        let length = turns.last().map_or(0, |&length| length as usize);
        Turn {
            request: index,
            sample: self.sample as usize,
            tokens: &tokens[tokens.len() - length..],
            stopped: *stopped,
            left: self.left(request),
        }
    }

    /// Begins another turn, behind what was heard.
    pub(super) fn hear(&mut self, request: &SampleRequest, heard: &[u32]) -> Result<(), EngineError> {
        let limit = request.params.max_new_tokens as usize;
        within("response tokens", self.completion.tokens.len() + 1, limit)?;
        within("tokens heard", self.heard.saturating_add(heard.len()), request.max_heard as usize)?;
        self.said.extend(heard);
        self.heard += heard.len();
        self.completion.turns.push(0);
        self.completion.stopped = false;
        (self.finished, self.told) = (false, false);
        Ok(())
    }
}

/// A request and its responses.
pub(super) struct Group<B: Backend> {
    pub(super) request: SampleRequest,
    pub(super) sequences: Vec<Sequence<B::Cache>>,
    /// Cache of the prompt without its last token, between prefill and hand-out.
    pub(super) prefix: Option<B::Cache>,
}

impl<B: Backend> Group<B> {
    pub(super) fn new(request: SampleRequest) -> Self {
        let last = *request.prompt.last().expect("an empty prompt was refused");
        let sequences = (0..request.samples).map(|sample| Sequence {
            sample,
            said: vec![last],
            heard: 0,
            fed: 0,
            cache: None,
            completion: Completion { turns: vec![0], ..Completion::default() },
            finished: false,
            told: false,
        });
        Self { sequences: sequences.collect(), prefix: None, request }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.sequences.iter().all(|sequence| sequence.finished)
    }

    /// Tokens in the caches when every response is as long as it may be.
    pub(super) fn most_cached_tokens(&self) -> usize {
        let each = self.request.most_behind_prompt();
        self.request.prompt.len().saturating_add(self.sequences.len().saturating_mul(each))
    }

    pub(super) fn needs_prefill(&self) -> bool {
        self.sequences.iter().any(|sequence| !sequence.finished && sequence.cache.is_none())
    }

    /// Gives every sequence in flight that has no cache a continuation of the prefix.
    pub(super) fn share_prefix(&mut self, backend: &B) {
        let Some(mut prefix) = self.prefix.take() else { return };
        backend.freeze(&mut prefix);
        let waiting = |sequence: &&mut Sequence<B::Cache>| !sequence.finished && sequence.cache.is_none();
        for sequence in self.sequences.iter_mut().filter(waiting) {
            sequence.cache = Some(prefix.clone());
            sequence.fed = 0;
        }
    }

    /// Drops every cache: they belong to a policy that is no longer in use.
    pub(super) fn forget(&mut self) {
        self.sequences.iter_mut().for_each(|sequence| sequence.cache = None);
    }

    /// Frees the caches of finished responses.
    pub(super) fn release_finished(&mut self) {
        for sequence in self.sequences.iter_mut().filter(|sequence| sequence.finished) {
            sequence.cache = None;
        }
    }

    pub(super) fn into_completions(self) -> Vec<Completion> {
        self.sequences.into_iter().map(|sequence| sequence.completion).collect()
    }
}
