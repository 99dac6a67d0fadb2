//! Groups of responses, generated token by token; requests come and go, and the policy may be
//! replaced between any two tokens.
//!
//! A [`Generation`] lives as long as its caller wants: [`Generation::submit`] at any time,
//! [`Generation::step`] again and again, [`Generation::finished`] now and then. It knows no clock,
//! no thread and no device but its [`Backend`].
//!
//! A response may have several turns. When one ends, [`Generation::converse`] asks the caller's
//! environment what the policy hears, and the next turn goes on from the same cache: nothing is
//! computed twice, and no turn waits for the turns of others. Positions count the response's own
//! tokens through all turns, so its draws are those of one long response.
//!
//! **A request is one group, and a group goes in lockstep.** Its responses begin together, and
//! those that are not over have equally many tokens of their own at any time: a group is admitted,
//! put back, caught up and drawn from as a whole. So another policy begins at the same place in
//! each of its responses, which learners rely on.
//!
//! **Nothing depends on who else is there.** Every draw has its own number, and the backend's
//! numbers do not depend on neighbours: a response is the same whenever it was submitted, whatever
//! was put back in between, and however often the device was out of memory. Only the place at which
//! another policy takes over is a matter of time, and each token says whose it is.

mod admission;
mod bounds;
mod caches;
mod decode;
mod group;
mod lineage;
mod prefill;
mod request;
mod sequence;
mod stop;
mod takeover;
mod tally;

use std::collections::VecDeque;
use std::sync::Arc;

use super::EngineError;
use super::backend::{Backend, MAX_CALL_TOKENS};
use super::cpu::CpuBackend;
use super::policy::Policy;
use group::SampleGroup;
use request::check_tokens;

pub use admission::{DEFAULT_CACHE_BUDGET, DEFAULT_SEQUENCES, GenerationLimits};
pub use request::{Completion, EndedTurn, MAX_SAMPLES, MAX_STOP_IDS, SampleRequest, Ticket};
pub use stop::{MAX_STOP_BYTES, MAX_STOP_STRINGS, StopStrings};
pub use takeover::PolicyTakeover;
pub use tally::GenerationStats;

/// What part of [`GenerationLimits::prefill_tokens`] is computed anew in a step under a policy that
/// takes over, while others draw.
const ANEW: usize = 4;

/// Most requests in one generation that were not handed out yet.
pub const MAX_REQUESTS: usize = 1 << 14;

/// Requests on their way. Each [`Generation::step`] adds one token to every group that is caught up
/// with what it has said and heard.
///
/// First come, first served: requests are taken up in order, as many at once as
/// [`GenerationLimits`] and the device have room for (always at least one), and none overtakes
/// another; as responses end, the next request moves up.
pub struct Generation<B: Backend = CpuBackend> {
    policy: Arc<Policy<B>>,
    /// Waits until nothing is in flight: see [`PolicyTakeover::Wait`].
    next: Option<Arc<Policy<B>>>,
    takeover: PolicyTakeover,
    limits: GenerationLimits,
    /// Not taken up, or put back; oldest first.
    waiting: VecDeque<SampleGroup<B>>,
    /// In flight, oldest first; all of them are older than those that wait.
    active: Vec<SampleGroup<B>>,
    /// Complete, and not handed out.
    done: Vec<SampleGroup<B>>,
    /// Requests that were ever submitted.
    submitted: u64,
    /// Sequences that may be in flight: [`GenerationLimits::sequences`], less after the device
    /// was out of memory.
    allowed: usize,
    /// Tokens in a call: [`MAX_CALL_TOKENS`], less after the device was out of memory.
    call: usize,
    /// Steps since the device was out of memory, or since it got more to do again.
    calm: usize,
    tally: GenerationStats,
}

impl<B: Backend> Generation<B> {
    /// Nothing to do yet.
    pub fn new(policy: Arc<Policy<B>>, limits: GenerationLimits, takeover: PolicyTakeover) -> Self {
        Self {
            policy,
            next: None,
            takeover,
            limits,
            waiting: VecDeque::new(),
            active: Vec::new(),
            done: Vec::new(),
            submitted: 0,
            allowed: limits.sequences.max(1),
            call: MAX_CALL_TOKENS,
            calm: 0,
            tally: GenerationStats::default(),
        }
    }

    /// One batch of requests, whose tickets are their indices, within
    /// [`GenerationLimits::default`] and with [`PolicyTakeover::Recompute`].
    ///
    /// # Errors
    /// As [`Generation::submit`]; all requests are accepted or none.
    pub fn start(policy: Arc<Policy<B>>, requests: Vec<SampleRequest>) -> Result<Self, EngineError> {
        let mut generation = Self::new(policy, GenerationLimits::default(), PolicyTakeover::default());
        for (ticket, request) in (0..).map(Ticket).zip(requests) {
            generation.enqueue(ticket, request)?;
        }
        Ok(generation)
    }

    /// Bounds the bytes of key-value caches in use at once. A single request is always taken
    /// up, whatever it needs.
    #[must_use]
    pub fn with_cache_budget(mut self, bytes: usize) -> Self {
        self.limits.cache_bytes = bytes;
        self
    }

    /// Takes a request; nothing is computed yet.
    ///
    /// # Errors
    /// When the request is empty, beyond a limit, does not fit the model's positions or has
    /// parameters out of range, when another one has its ticket, or too many wait.
    pub fn submit(&mut self, ticket: Ticket, request: SampleRequest) -> Result<(), EngineError> {
        if self.groups().any(|group| group.ticket == ticket) {
            return Err(EngineError::Limit { what: "requests of one ticket", value: 2, limit: 1 });
        }
        self.enqueue(ticket, request)?;
        self.admit();
        Ok(())
    }

    fn enqueue(&mut self, ticket: Ticket, request: SampleRequest) -> Result<(), EngineError> {
        bounds::within("requests", self.requests() + 1, MAX_REQUESTS)?;
        request::check(self.policy.config(), ticket, &request)?;
        self.waiting.push_back(SampleGroup::new(ticket, self.submitted, request));
        self.submitted += 1;
        Ok(())
    }

    /// Requests that were neither handed out nor abandoned.
    pub fn requests(&self) -> usize {
        self.waiting.len() + self.active.len() + self.done.len()
    }

    /// The request that is longest in flight. It is alone there when a step fails for want of
    /// memory: without it the others go on.
    pub fn oldest(&self) -> Option<Ticket> {
        self.active.first().map(|group| group.ticket)
    }

    /// Whether every response is complete.
    pub fn is_finished(&self) -> bool {
        self.waiting.is_empty() && self.active.iter().all(SampleGroup::is_finished)
    }

    /// The policy in use; requests may still draw from the one before ([`Generation::lingering`]).
    pub fn policy(&self) -> &Arc<Policy<B>> {
        &self.policy
    }

    /// What was done so far.
    pub fn tally(&self) -> GenerationStats {
        self.tally
    }

    /// Computes up to [`GenerationLimits::prefill_tokens`] of what groups have not caught up with, oldest
    /// first, then draws one token for every response of the groups that have; true when every
    /// response is complete. A turn that has ended and was not answered is the response's last.
    ///
    /// Where the device is out of memory, half of the sequences are put back, youngest group first;
    /// they go on later, without a token lost.
    ///
    /// # Errors
    /// When the policy's logits cannot be sampled from, the device is lost, or has no room for a
    /// single request: see [`Generation::oldest`]. Tokens drawn before stay valid; the next step
    /// goes on from them.
    pub fn step(&mut self) -> Result<bool, EngineError> {
        self.active.iter_mut().for_each(SampleGroup::close);
        self.retire();
        self.take_over_when_idle();
        self.admit();
        let mut room = self.limits.prefill_tokens.max(1);
        let mut anew = (room / ANEW).max(1);
        while let Err(error) =
            self.prefill(&mut room).and_then(|()| self.succeed(&mut anew)).and_then(|()| self.draw())
        {
            if !(matches!(error, EngineError::Memory { .. }) && self.shrink()) {
                return Err(error);
            }
        }
        self.commit();
        self.recover();
        Ok(self.is_finished())
    }

    /// Tells `environment` of every turn that has ended since the last step. Where it
    /// answers with tokens, the policy hears them and begins another turn; elsewhere the
    /// response is complete. Call it after each step, and look at
    /// [`Generation::is_finished`] or [`Generation::finished`] then.
    ///
    /// # Errors
    /// Those of `environment`, and of an answer with unknown tokens, with more than
    /// [`SampleRequest::max_heard`] in all, or to a response that has no tokens left.
    pub fn converse<E: From<EngineError>>(
        &mut self,
        mut environment: impl FnMut(EndedTurn<'_>) -> Result<Option<Vec<u32>>, E>,
    ) -> Result<(), E> {
        let vocab = self.policy.config().vocab_size;
        for SampleGroup { ticket, request, sequences, .. } in &mut self.active {
            for sequence in sequences.iter_mut().filter(|sequence| sequence.finished && !sequence.reported) {
                sequence.reported = true;
                if let Some(heard) = environment(sequence.turn(*ticket, request))? {
                    check_tokens(&heard, vocab)?;
                    sequence.hear(request, &heard)?;
                }
            }
        }
        Ok(())
    }

    /// Hands out the groups that are complete, each of them once.
    pub fn finished(&mut self) -> Vec<(Ticket, Vec<Completion>)> {
        self.retire();
        self.done.drain(..).map(|group| (group.ticket, group.into_completions())).collect()
    }

    /// Ends a request now, and hands out its responses as far as they have come: those that are not
    /// over are partial. None when nobody has this ticket any more.
    pub fn abandon(&mut self, ticket: Ticket) -> Option<Vec<Completion>> {
        let is_it = |group: &SampleGroup<B>| group.ticket == ticket;
        let group = if let Some(index) = self.active.iter().position(is_it) {
            self.active.remove(index)
        } else if let Some(index) = self.waiting.iter().position(is_it) {
            self.waiting.remove(index)?
        } else {
            let index = self.done.iter().position(is_it)?;
            return Some(self.done.remove(index).into_completions());
        };
        *(if group.is_finished() { &mut self.tally.finished } else { &mut self.tally.abandoned }) += 1;
        Some(group.into_completions())
    }

    /// Steps until every response is complete.
    ///
    /// # Errors
    /// Those that [`Generation::step`] fails with.
    pub fn run(mut self) -> Result<Vec<Vec<Completion>>, EngineError> {
        while !self.step()? {}
        Ok(self.into_completions())
    }

    /// The responses of each request that was not handed out, in the order in which they came, as
    /// far as they have come: after an abort, the unfinished ones are partial.
    pub fn into_completions(self) -> Vec<Vec<Completion>> {
        let mut groups: Vec<_> = self.done.into_iter().chain(self.active).chain(self.waiting).collect();
        groups.sort_unstable_by_key(|group| group.order);
        groups.into_iter().map(SampleGroup::into_completions).collect()
    }

    /// The policies that groups in flight go on from: the one before, if there is any that
    /// does, and the newest.
    fn in_use(&self) -> Vec<Arc<Policy<B>>> {
        let lingers = self.active.iter().find(|group| group.lingers(&self.policy));
        let older = lingers.and_then(|group| group.caches.as_ref()).map(|caches| Arc::clone(caches.policy()));
        older.into_iter().chain([Arc::clone(&self.policy)]).collect()
    }

    fn groups(&self) -> impl Iterator<Item = &SampleGroup<B>> {
        self.done.iter().chain(&self.active).chain(&self.waiting)
    }

    /// Sets groups that are complete aside.
    fn retire(&mut self) {
        let before = self.done.len();
        self.done.extend(self.active.extract_if(.., |group| group.is_finished()));
        self.tally.finished += (self.done.len() - before) as u64;
    }
}

#[cfg(test)]
mod tests;
