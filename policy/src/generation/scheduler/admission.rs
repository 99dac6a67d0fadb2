//! Who is in flight: requests in order, by the bytes that their caches may come to need.

use super::Generation;
use super::group::SampleGroup;
use crate::generation::backend::{Backend, MAX_CALL_TOKENS};

/// Bytes of key-value caches in use at once, unless [`GenerationLimits`] say otherwise.
pub const DEFAULT_CACHE_BUDGET: usize = 2 << 30;
/// Sequences in flight at once, unless [`GenerationLimits`] say otherwise.
pub const DEFAULT_SEQUENCES: usize = 256;
/// Steps after which a device that was out of memory is given twice as much to do
/// again, up to [`GenerationLimits`].
const CALM_STEPS: usize = 512;

/// What a generation may use. A single request is always taken up, whatever it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationLimits {
    /// Bytes of key-value caches in use at once; what the device has free counts where it is less.
    pub cache_bytes: usize,
    /// Sequences in flight at once.
    pub sequences: usize,
    /// Most tokens of prompts and of what is computed anew in one step, beside the draws: bounds
    /// how long those wait. While a newer policy takes over, a quarter of it comes on top, or two
    /// tokens for each that is drawn.
    pub prefill_tokens: usize,
}

impl Default for GenerationLimits {
    fn default() -> Self {
        Self {
            cache_bytes: DEFAULT_CACHE_BUDGET,
            sequences: DEFAULT_SEQUENCES,
            prefill_tokens: MAX_CALL_TOKENS,
        }
    }
}

impl<B: Backend> Generation<B> {
    /// Whether one more request might begin with the next step: nobody waits, and something is left
    /// of the limits. It may need more than that, and then waits for others to end.
    pub fn has_room(&self) -> bool {
        let free = self.used_bytes() < self.cache_budget() && self.live() < self.allowed;
        self.waiting.is_empty() && !self.waits() && (free || self.active.iter().all(SampleGroup::is_finished))
    }

    /// Takes requests up in order as long as all of their responses can become as long as they may be.
    pub(super) fn admit(&mut self) {
        let (mut used, mut live) = (self.used_bytes(), self.live());
        let budget = self.cache_budget();
        // Who was put back goes on under the policy that others wait to be replaced, and whoever
        // stands before it does too.
        let may_begin = !self.waits() || self.waiting.iter().any(SampleGroup::is_begun);
        while let Some(group) = self.waiting.front() {
            let after = (used.saturating_add(self.bytes(group)), live + group.live().count());
            let fits = after.0 <= budget && after.1 <= self.allowed;
            if !(may_begin && (fits || live == 0)) {
                break;
            }
            (used, live) = after;
            self.active.extend(self.waiting.pop_front());
        }
    }

    /// Most bytes that the caches of a group come to need.
    fn bytes(&self, group: &SampleGroup<B>) -> usize {
        let backend = self.policy.backend();
        group.most_cached_tokens(backend.cache_granule()).saturating_mul(backend.cache_bytes_per_token())
    }

    fn used_bytes(&self) -> usize {
        let bytes = |group: &SampleGroup<B>| {
            let successor = if group.successor.is_some() { self.successor_bytes(group) } else { 0 };
            self.bytes(group).saturating_add(successor)
        };
        self.active.iter().map(bytes).fold(0, usize::saturating_add)
    }

    fn successor_bytes(&self, group: &SampleGroup<B>) -> usize {
        let bytes = group.successor_tokens().saturating_mul(self.policy.backend().cache_bytes_per_token());
        bytes.min(self.bytes(group))
    }

    /// Sequences of the active groups that are not over.
    pub(super) fn live(&self) -> usize {
        self.active.iter().map(|group| group.live().count()).sum()
    }

    /// Bytes that caches may grow to.
    fn cache_budget(&self) -> usize {
        let backend = self.policy.backend();
        self.limits.cache_bytes.min(backend.free_cache_bytes().saturating_add(self.held_bytes()))
    }

    /// Bytes in caches now.
    fn held_bytes(&self) -> usize {
        let held: usize = self.active.iter().map(SampleGroup::cached_tokens).sum();
        held.saturating_mul(self.policy.backend().cache_bytes_per_token())
    }

    /// Whether a group's caches can be computed anew while it goes on from those that it has. What
    /// caches hold now counts, not what they may grow to: a successor is not there for long.
    pub(super) fn has_room_for_successor(&self, index: usize) -> bool {
        let group = &self.active[index];
        let fits = self.held_bytes().saturating_add(self.successor_bytes(group)) <= self.cache_budget();
        group.successor.is_some() || fits
    }

    /// Gives the device half as much to do after it was out of memory: half of the sequences,
    /// youngest groups first, or half of the tokens in a call where one group is left. False when
    /// there is nothing to be halved.
    pub(super) fn shrink(&mut self) -> bool {
        self.tally.out_of_memory += 1;
        self.calm = 0;
        // What has two caches can do with one.
        if let Some(group) = self.active.iter_mut().find(|group| group.successor.is_some()) {
            group.forget();
            return true;
        }
        if self.active.len() <= 1 {
            self.call /= 2;
            let some = self.call > 0;
            self.call = self.call.max(1);
            return some;
        }
        let mut live = self.live();
        self.allowed = (live / 2).max(1);
        while self.active.len() > 1 && live > self.allowed {
            let Some(mut youngest) = self.active.pop() else { break };
            live -= youngest.live().count();
            youngest.forget();
            self.waiting.push_front(youngest);
            self.tally.preempted += 1;
        }
        true
    }

    /// Gives the device more to do again after it has not been out of memory for long.
    pub(super) fn recover(&mut self) {
        self.calm += 1;
        if self.calm >= CALM_STEPS {
            self.calm = 0;
            self.allowed = self.allowed.saturating_mul(2).min(self.limits.sequences.max(1));
            self.call = (self.call * 2).min(MAX_CALL_TOKENS);
        }
    }
}
