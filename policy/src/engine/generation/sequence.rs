//! The state of one response, and of the group of responses to one prompt.

use super::{Completion, SampleRequest};
use crate::engine::backend::Backend;
use crate::sampler::Sampled;

/// One response on its way.
pub(super) struct Sequence<C> {
    pub(super) sample: u32,
    /// The prompt's last token, then the response so far: what is fed after the group's shared prefix.
    pub(super) said: Vec<u32>,
    /// How many of `said` are in the cache.
    pub(super) fed: usize,
    /// Present while the response is in flight and its prompt computed.
    pub(super) cache: Option<C>,
    /// The lists beside the tokens, which are filled in at the end.
    pub(super) completion: Completion,
    pub(super) finished: bool,
}

impl<C> Sequence<C> {
    pub(super) fn push(&mut self, request: &SampleRequest, drawn: Sampled, version: u64) {
        self.said.push(drawn.token);
        self.completion.logprobs.push(drawn.logprob);
        self.completion.raw_logprobs.push(drawn.raw_logprob);
        self.completion.versions.push(version);
        self.completion.stopped = request.stop_ids.contains(&drawn.token);
        let full = self.completion.versions.len() >= request.params.max_new_tokens as usize;
        self.finished = self.completion.stopped || full;
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
            fed: 0,
            cache: None,
            completion: Completion::default(),
            finished: false,
        });
        Self { sequences: sequences.collect(), prefix: None, request }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.sequences.iter().all(|sequence| sequence.finished)
    }

    /// Tokens in the caches when every response is as long as it may be.
    pub(super) fn most_cached_tokens(&self) -> usize {
        let each = self.request.params.max_new_tokens as usize;
        self.request.prompt.len().saturating_add(self.sequences.len().saturating_mul(each))
    }

    pub(super) fn needs_prefill(&self) -> bool {
        self.sequences.iter().any(|sequence| !sequence.finished && sequence.cache.is_none())
    }

    /// Gives every sequence in flight a continuation of the prefix.
    pub(super) fn share_prefix(&mut self, backend: &B) {
        let Some(mut prefix) = self.prefix.take() else { return };
        backend.freeze(&mut prefix);
        for sequence in self.sequences.iter_mut().filter(|sequence| !sequence.finished) {
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
        let complete = |sequence: Sequence<B::Cache>| {
            let tokens = sequence.said[1..].to_vec();
            Completion { tokens, ..sequence.completion }
        };
        self.sequences.into_iter().map(complete).collect()
    }
}
