//! The responses to one prompt, which go in lockstep.

use std::sync::Arc;

use super::caches::GroupCaches;
use super::lineage::Lineage;
use super::sequence::SampledSequence;
use super::{Completion, SampleRequest, Ticket};
use crate::generation::backend::{Backend, Feed};
use crate::generation::policy::Policy;

/// A request and its responses.
pub(super) struct SampleGroup<B: Backend> {
    pub(super) ticket: Ticket,
    /// How many requests came before.
    pub(super) order: u64,
    pub(super) request: SampleRequest,
    pub(super) sequences: Vec<SampledSequence>,
    /// What it draws from. None: everything is to be computed, by whichever policy is in use then.
    pub(super) caches: Option<GroupCaches<B>>,
    /// What it will draw from, under a newer policy, when that has caught up with what was said.
    pub(super) successor: Option<GroupCaches<B>>,
    /// How many of the prompt's tokens were ever in a cache.
    known: usize,
    lineage: Lineage,
}

impl<B: Backend> SampleGroup<B> {
    pub(super) fn new(ticket: Ticket, order: u64, request: SampleRequest) -> Self {
        let last = *request.prompt.last().expect("an empty prompt was refused");
        let sequences = (0..request.samples).map(|sample| SampledSequence::new(sample, last)).collect();
        Self {
            ticket,
            order,
            sequences,
            caches: None,
            successor: None,
            known: 0,
            lineage: Lineage::new(),
            request,
        }
    }

    /// Tokens of the prompt that its responses share.
    fn inputs(&self) -> usize {
        self.request.prompt.len() - 1
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &SampledSequence> {
        self.sequences.iter().filter(|sequence| !sequence.finished)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.live().next().is_none()
    }

    /// Whether it has a token.
    pub(super) fn is_begun(&self) -> bool {
        self.sequences.iter().any(|sequence| !sequence.completion.tokens.is_empty())
    }

    /// Tokens that the caches have room for when every response that is not over becomes as long as
    /// it may be, where they take it in multiples of `granule` and share whole ones.
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
    pub(super) fn cached_tokens(&self) -> usize {
        let inputs = self.inputs();
        self.caches.iter().chain(&self.successor).map(|caches| caches.tokens(inputs)).sum()
    }

    /// Tokens that its successor comes to need room for: it has caught up before responses are
    /// twice as long as they are.
    pub(super) fn successor_tokens(&self) -> usize {
        self.caches.as_ref().map_or(0, |caches| 2 * caches.tokens(self.inputs()))
    }

    /// Whether it still draws from an older policy than this one.
    pub(super) fn lingers(&self, newest: &Arc<Policy<B>>) -> bool {
        self.caches.is_some() && !self.is_under(newest)
    }

    /// Whether it goes on from what this policy has computed.
    pub(super) fn is_under(&self, policy: &Arc<Policy<B>>) -> bool {
        self.caches.as_ref().is_some_and(|caches| Arc::ptr_eq(caches.policy(), policy))
    }

    /// Appends what is to be computed before its next draw, at most `room` tokens, which become fewer.
    pub(super) fn backlog<'a>(&'a mut self, room: &mut usize, feeds: &mut Vec<Feed<'a, B::Cache>>) {
        let before = *room;
        let Self { request, sequences, caches, lineage, .. } = self;
        if let Some(caches) = caches {
            caches.backlog(&request.prompt, sequences, room, feeds);
        }
        lineage.midway |= *room < before;
    }

    /// Notes what is in the caches; how many tokens of it never were before.
    pub(super) fn learn(&mut self) -> usize {
        let (inputs, known) = (self.inputs(), self.known);
        let Some(caches) = &self.caches else { return 0 };
        self.known = known.max(caches.prefix_tokens());
        let of_prompt = self.known - known;
        let each = self.sequences.iter_mut().enumerate().filter(|(_, sequence)| !sequence.finished);
        of_prompt + each.map(|(at, sequence)| sequence.learn(caches.fed(at, inputs))).sum::<usize>()
    }

    /// Whether each of its responses that is not over waits for a draw and nothing else.
    pub(super) fn is_caught_up(&self) -> bool {
        let inputs = self.inputs();
        self.caches.as_ref().is_some_and(|caches| caches.are_caught_up(&self.sequences, inputs))
    }

    /// Takes its next tokens over once all of them are drawn; how many they are.
    pub(super) fn commit(&mut self) -> usize {
        let Self { request, sequences, lineage, caches: Some(caches), .. } = self else { return 0 };
        let version = caches.policy().version();
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

    /// Whether a response that is not over has no cache.
    pub(super) fn lacks_caches(&self) -> bool {
        let has = |at| self.caches.as_ref().is_some_and(|caches| caches.has(at));
        self.sequences.iter().enumerate().any(|(at, sequence)| !sequence.finished && !has(at))
    }

    /// Whether each of its responses that is not over has a cache, and none of them is drawn
    /// ahead of the others.
    fn is_in_step(&self) -> bool {
        !self.lacks_caches() && self.sequences.iter().all(|sequence| sequence.drawn.is_none())
    }

    /// Whether it can go on under the policy `before` while a newer one on this backend computes
    /// its caches anew: it has drawn from that, and both are on one device.
    pub(super) fn can_linger(&self, before: &Arc<Policy<B>>, backend: &B) -> bool {
        let here = self.caches.as_ref().is_some_and(|caches| caches.are_accepted_by(backend));
        here && self.is_begun() && self.is_under(before) && self.is_in_step()
    }

    /// Has another policy go on from its caches, if they are between two draws and its backend accepts them.
    pub(super) fn hand_over(&mut self, policy: &Arc<Policy<B>>) -> bool {
        let between = !self.lineage.midway && self.is_in_step();
        let caches =
            self.caches.as_mut().filter(|caches| between && caches.are_accepted_by(policy.backend()));
        caches.map(|caches| caches.hand_over(policy)).is_some()
    }

    /// Gives every cache up, and draws that were not taken over: what was said is computed anew.
    pub(super) fn forget(&mut self) {
        (self.caches, self.successor) = (None, None);
        self.sequences.iter_mut().for_each(|sequence| sequence.drawn = None);
        self.lineage.forget();
    }

    /// Appends what its successor is to compute, at most `room` tokens, which become fewer.
    pub(super) fn prepare<'a>(
        &'a mut self,
        policy: &Arc<Policy<B>>,
        room: &mut usize,
        feeds: &mut Vec<Feed<'a, B::Cache>>,
    ) {
        let Self { request, sequences, successor, .. } = self;
        let successor = successor.get_or_insert_with(|| GroupCaches::new(policy, sequences.len()));
        successor.backlog(&request.prompt, sequences, room, feeds);
    }

    /// Goes on from what its successor has computed once that is all; whether it does.
    pub(super) fn succeed(&mut self) -> bool {
        let (inputs, sequences) = (self.inputs(), &self.sequences);
        let in_step = sequences.iter().all(|sequence| sequence.drawn.is_none());
        let successor = self.successor.take_if(|caches| in_step && caches.are_caught_up(sequences, inputs));
        let is_there = successor.is_some();
        if is_there {
            self.caches = successor;
            self.lineage.forget();
        }
        is_there
    }

    /// Whether it has tokens, and has drawn none since its caches were given up.
    pub(super) fn is_catching_up(&self) -> bool {
        self.is_begun() && !self.is_finished() && self.lineage.anew
    }

    /// Frees the caches of responses that are over. No turn of theirs follows any more: it would
    /// not be in step with the others.
    pub(super) fn close(&mut self) {
        for (at, sequence) in self.sequences.iter_mut().enumerate().filter(|(_, sequence)| sequence.finished)
        {
            self.caches.iter_mut().chain(&mut self.successor).for_each(|caches| caches.close(at));
            sequence.reported = true;
        }
        if self.is_finished() {
            (self.caches, self.successor) = (None, None);
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
