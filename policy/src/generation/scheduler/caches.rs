//! The key-value caches of a group.

use std::sync::Arc;

use super::sequence::SampledSequence;
use crate::generation::backend::{Backend, Feed};
use crate::generation::policy::Policy;

/// What has been computed of a group. Either all of its responses that are not over have a
/// cache, or none has.
pub(super) struct GroupCaches<B: Backend> {
    /// Who goes on from them.
    policy: Arc<Policy<B>>,
    /// Of the prompt without its last token, as far as it has come, until it is handed out.
    prefix: Option<B::Cache>,
    /// One for each response; None where nothing is computed.
    own: Vec<Option<B::Cache>>,
}

impl<B: Backend> GroupCaches<B> {
    /// Nothing yet, of a group of so many samples.
    pub(super) fn new(policy: &Arc<Policy<B>>, samples: usize) -> Self {
        Self { policy: Arc::clone(policy), prefix: None, own: vec![None; samples] }
    }

    pub(super) fn policy(&self) -> &Arc<Policy<B>> {
        &self.policy
    }

    /// Whether a backend could go on from them: they are on its device.
    pub(super) fn are_accepted_by(&self, backend: &B) -> bool {
        // Also those of turns that have ended and may yet be answered.
        self.prefix.iter().chain(self.own.iter().flatten()).all(|cache| backend.accepts(cache))
    }

    /// Has another policy go on from them.
    pub(super) fn hand_over(&mut self, policy: &Arc<Policy<B>>) {
        self.policy = Arc::clone(policy);
    }

    /// Each response's, to be drawn from.
    pub(super) fn own(&mut self) -> &mut [Option<B::Cache>] {
        &mut self.own
    }

    /// Whether a response has one.
    pub(super) fn has(&self, sample: usize) -> bool {
        self.own[sample].is_some()
    }

    /// Frees that of a response which is over.
    pub(super) fn close(&mut self, sample: usize) {
        self.own[sample] = None;
    }

    /// Tokens of the prompt, as far as that is not handed out.
    pub(super) fn prefix_tokens(&self) -> usize {
        self.prefix.as_ref().map_or(0, |prefix| self.policy.backend().cached_tokens(prefix))
    }

    /// Tokens in all of them, those of the prompt counted once.
    pub(super) fn tokens(&self, inputs: usize) -> usize {
        let shared = if self.own.iter().any(Option::is_some) { inputs } else { 0 };
        let own = (0..self.own.len()).map(|sample| self.fed(sample, inputs)).sum::<usize>();
        shared + own + self.prefix_tokens()
    }

    /// How many tokens of a response there are, after `inputs` tokens of the prompt.
    pub(super) fn fed(&self, sample: usize, inputs: usize) -> usize {
        self.own[sample].as_ref().map_or(0, |cache| self.policy.backend().cached_tokens(cache) - inputs)
    }

    /// Makes a cache for the prompt if one is wanted; hands it out if it is filled.
    fn share_prefix(&mut self, sequences: &[SampledSequence], inputs: usize) {
        let Self { policy, prefix, own } = self;
        let live =
            || sequences.iter().enumerate().filter(|(_, sequence)| !sequence.finished).map(|(at, _)| at);
        if prefix.is_none() && live().any(|at| own[at].is_none()) {
            *prefix = Some(policy.backend().new_cache());
        }
        if let Some(prefix) = prefix.take_if(|prefix| policy.backend().cached_tokens(prefix) == inputs) {
            live().for_each(|at| own[at] = Some(prefix.clone()));
        }
    }

    /// Appends what is to be computed before the next draw, at most `room` tokens, which become fewer.
    pub(super) fn backlog<'a>(
        &'a mut self,
        prompt: &'a [u32],
        sequences: &'a [SampledSequence],
        room: &mut usize,
        feeds: &mut Vec<Feed<'a, B::Cache>>,
    ) {
        let inputs = prompt.len() - 1;
        self.share_prefix(sequences, inputs);
        let Self { policy, prefix, own } = self;
        let backend = policy.backend();
        let mut feed = |tokens: &'a [u32], cache: &'a mut B::Cache| {
            let tokens = &tokens[..tokens.len().min(*room)];
            if !tokens.is_empty() {
                *room -= tokens.len();
                feeds.push(Feed { tokens, cache });
            }
        };
        if let Some(prefix) = prefix {
            feed(&prompt[backend.cached_tokens(prefix)..inputs], prefix);
            return;
        }
        for (sequence, cache) in sequences.iter().zip(own).filter(|(sequence, _)| !sequence.finished) {
            let Some(cache) = cache else { continue };
            let fed = backend.cached_tokens(cache) - inputs;
            feed(sequence.said.get(fed..sequence.said.len() - 1).unwrap_or_default(), cache);
        }
    }

    /// Whether each response that is not over waits for a draw and nothing else.
    pub(super) fn are_caught_up(&self, sequences: &[SampledSequence], inputs: usize) -> bool {
        let mut live = sequences.iter().enumerate().filter(|(_, sequence)| !sequence.finished);
        live.all(|(at, sequence)| self.has(at) && self.fed(at, inputs) + 1 >= sequence.said.len())
    }
}
