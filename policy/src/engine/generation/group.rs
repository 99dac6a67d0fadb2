//! The responses to one prompt, which go in lockstep.

use super::sequence::Sequence;
use super::takeover::Lineage;
use super::{Completion, SampleRequest, Ticket};
use crate::engine::backend::{Backend, Feed};

/// A request and its responses. Either all of those that are not over have a cache, or none has.
pub(super) struct Group<B: Backend> {
    pub(super) ticket: Ticket,
    /// How many requests came before.
    pub(super) order: u64,
    pub(super) request: SampleRequest,
    pub(super) sequences: Vec<Sequence<B::Cache>>,
    /// Cache of the prompt without its last token, as far as it has come, until it is handed out.
    prefix: Option<B::Cache>,
    /// How many of the prompt's tokens were ever in a cache.
    known: usize,
    lineage: Lineage,
}

impl<B: Backend> Group<B> {
    pub(super) fn new(ticket: Ticket, order: u64, request: SampleRequest) -> Self {
        let last = *request.prompt.last().expect("an empty prompt was refused");
        let sequences = (0..request.samples).map(|sample| Sequence::new(sample, last)).collect();
        Self { ticket, order, sequences, prefix: None, known: 0, lineage: Lineage::new(), request }
    }

    /// Tokens of the prompt that its responses share.
    fn inputs(&self) -> usize {
        self.request.prompt.len() - 1
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Sequence<B::Cache>> {
        self.sequences.iter().filter(|sequence| !sequence.finished)
    }

    fn live_mut(&mut self) -> impl Iterator<Item = &mut Sequence<B::Cache>> {
        self.sequences.iter_mut().filter(|sequence| !sequence.finished)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.live().next().is_none()
    }

    /// Whether it has a token.
    pub(super) fn is_begun(&self) -> bool {
        self.sequences.iter().any(|sequence| !sequence.completion.tokens.is_empty())
    }

    /// Tokens that the caches have room for when every response that is not over becomes as long as it may be, where they take it in
    /// multiples of `granule` and share whole ones.
    pub(super) fn most_cached_tokens(&self, granule: usize) -> usize {
        let own = self.inputs() % granule;
        let each = self.live().map(|sequence| {
            let tokens = self.request.most_behind_prompt(sequence.sample).saturating_add(own);
            tokens.div_ceil(granule).saturating_mul(granule)
        });
        let prompt = self.request.prompt.len().next_multiple_of(granule);
        if self.is_finished() { 0 } else { each.fold(prompt, usize::saturating_add) }
    }

    /// Tokens in the caches now, shared ones counted once.
    pub(super) fn cached_tokens(&self, backend: &B) -> usize {
        let inputs = self.inputs();
        let own = |sequence: &Sequence<B::Cache>| {
            sequence.cache.as_ref().map(|cache| backend.cached_tokens(cache) - inputs)
        };
        let shared = if self.sequences.iter().any(|sequence| sequence.cache.is_some()) { inputs } else { 0 };
        shared
            + self.sequences.iter().filter_map(own).sum::<usize>()
            + self.prefix.as_ref().map_or(0, |prefix| backend.cached_tokens(prefix))
    }

    /// Makes a cache for the prompt if one is wanted; hands it out if it is filled.
    pub(super) fn share_prefix(&mut self, backend: &B) {
        if self.prefix.is_none() && self.live().any(|sequence| sequence.cache.is_none()) {
            self.prefix = Some(backend.new_cache());
        }
        let inputs = self.inputs();
        if let Some(prefix) = self.prefix.take_if(|prefix| backend.cached_tokens(prefix) == inputs) {
            self.live_mut().for_each(|sequence| sequence.cache = Some(prefix.clone()));
        }
    }

    /// Appends what is to be computed before its next draw, at most `room` tokens, which become fewer.
    pub(super) fn backlog<'a>(
        &'a mut self,
        backend: &B,
        room: &mut usize,
        feeds: &mut Vec<Feed<'a, B::Cache>>,
    ) {
        let inputs = self.inputs();
        let Self { request, sequences, prefix, lineage, .. } = self;
        let mut feed = |tokens: &'a [u32], cache: &'a mut B::Cache| {
            let tokens = &tokens[..tokens.len().min(*room)];
            if !tokens.is_empty() {
                *room -= tokens.len();
                lineage.midway = true;
                feeds.push(Feed { tokens, cache });
            }
        };
        if let Some(prefix) = prefix {
            feed(&request.prompt[backend.cached_tokens(prefix)..inputs], prefix);
            return;
        }
        for sequence in sequences.iter_mut().filter(|sequence| !sequence.finished) {
            let fed = sequence.fed(backend, inputs);
            let Sequence { said, cache: Some(cache), .. } = sequence else { continue };
            feed(said.get(fed..said.len() - 1).unwrap_or_default(), cache);
        }
    }

    /// Notes what is in the caches; how many tokens of it never were before.
    pub(super) fn learn(&mut self, backend: &B) -> usize {
        let (inputs, known) = (self.inputs(), self.known);
        if let Some(prefix) = &self.prefix {
            self.known = known.max(backend.cached_tokens(prefix));
        }
        let of_prompt = self.known - known;
        of_prompt + self.live_mut().map(|sequence| sequence.learn(backend, inputs)).sum::<usize>()
    }

    /// Whether each of its responses that is not over waits for a draw and nothing else.
    pub(super) fn is_caught_up(&self, backend: &B) -> bool {
        let inputs = self.inputs();
        self.live().all(|sequence| {
            sequence.cache.is_some() && sequence.fed(backend, inputs) + 1 >= sequence.said.len()
        })
    }

    /// Takes its next tokens over once all of them are drawn; how many they are.
    pub(super) fn commit(&mut self, version: u64) -> usize {
        let Self { request, sequences, lineage, .. } = self;
        let mut live: Vec<_> = sequences.iter_mut().filter(|sequence| !sequence.finished).collect();
        if live.iter().any(|sequence| sequence.drawn.is_none()) {
            return 0;
        }
        if let Some(first) = live.first() {
            lineage.drawn(first.completion.tokens.len(), version);
        }
        for sequence in &mut live {
            if let Some(drawn) = sequence.drawn.take() {
                sequence.push(request, drawn, version);
            }
        }
        live.len()
    }

    /// Whether its caches are between two draws, and this backend accepts them.
    pub(super) fn goes_on_under(&self, backend: &B) -> bool {
        let between = !self.lineage.midway && self.live().all(|sequence| sequence.drawn.is_none());
        // Also those of turns that have ended and may yet be answered.
        let accepted =
            self.sequences.iter().filter_map(|sequence| sequence.cache.as_ref()).all(|c| backend.accepts(c));
        between && accepted && self.live().all(|sequence| sequence.cache.is_some())
    }

    /// Gives every cache up, and draws that were not taken over: what was said is computed anew.
    pub(super) fn forget(&mut self) {
        self.prefix = None;
        for sequence in &mut self.sequences {
            (sequence.cache, sequence.drawn) = (None, None);
        }
        self.lineage.forget();
    }

    /// Frees the caches of responses that are over. No turn of theirs follows any more: it would not be in step with the others.
    pub(super) fn close(&mut self) {
        for sequence in self.sequences.iter_mut().filter(|sequence| sequence.finished) {
            sequence.cache = None;
            sequence.told = true;
        }
    }

    pub(super) fn into_completions(self) -> Vec<Completion> {
        let recomputed = &self.lineage.recomputed;
        let complete = |mut completion: Completion| {
            let within = recomputed.iter().filter(|&&position| (position as usize) < completion.tokens.len());
            completion.recomputed = within.copied().collect();
            completion
        };
        self.sequences.into_iter().map(|sequence| complete(sequence.completion)).collect()
    }
}
