//! How another policy takes over.

use std::mem;
use std::sync::Arc;

use super::Generation;
use super::group::SampleGroup;
use crate::generation::EngineError;
use crate::generation::backend::{Backend, Want};
use crate::generation::policy::Policy;

/// Tokens that are computed anew in a step for each that is drawn there, at least.
const PACE: usize = 2;

/// What a policy that is installed does to the responses in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PolicyTakeover {
    /// They go on under it, from caches that it computes anew from prompt and tokens: a request's
    /// after the other's, beside the draws, which until then are those of the policy before. So who
    /// has begun does not wait for what is computed anew, unless there is no room for a second
    /// cache, or the policies are on different devices.
    #[default]
    Recompute,
    /// They go on under it from the caches that they have, where the backend accepts them. A group
    /// that is being caught up is computed anew, so that tokens and their versions tell what is in
    /// a cache: all that follows a token was fed by the version of the next.
    Keep,
    /// They end under the policy that they began with. No request is taken up until then.
    Wait,
}

impl<B: Backend> Generation<B> {
    /// Goes on under another policy, as [`PolicyTakeover`] says. One of the version in use takes
    /// over at once, whatever it says: it is the same policy, on another device perhaps.
    ///
    /// # Errors
    /// When the new policy has another configuration; the old one then stays in use.
    pub fn install(&mut self, policy: Arc<Policy<B>>) -> Result<(), EngineError> {
        if policy.config() != self.policy.config() {
            return Err(EngineError::OtherConfig { version: policy.version() });
        }
        if policy.version() == self.policy.version() {
            self.take_over(policy, false);
            return Ok(());
        }
        match self.takeover {
            PolicyTakeover::Recompute => self.take_over(policy, false),
            PolicyTakeover::Keep => self.take_over(policy, true),
            PolicyTakeover::Wait => {
                self.next = Some(policy);
                self.take_over_when_idle();
            }
        }
        Ok(())
    }

    fn take_over(&mut self, policy: Arc<Policy<B>>, keep: bool) {
        let is_other = policy.version() != self.policy.version();
        let before = mem::replace(&mut self.policy, policy);
        for group in &mut self.active {
            // What a version between would have computed nobody needs any more.
            group.successor = None;
            // At most two versions draw: who did not come to the one before has no more turns
            // under an older one.
            let lingers = is_other && !keep && group.can_linger(&before, self.policy.backend());
            if !(lingers || (keep && group.hand_over(&self.policy))) {
                group.forget();
            }
        }
        self.tally.interrupts += u64::from(!self.active.is_empty());
    }

    /// Requests that still draw from an older policy.
    pub fn lingering(&self) -> usize {
        self.active.iter().filter(|group| group.lingers(&self.policy)).count()
    }

    /// Whether a request that has tokens has drawn none since its caches were given up: another
    /// policy would have it begin once more.
    pub fn is_catching_up(&self) -> bool {
        self.active.iter().any(SampleGroup::is_catching_up)
    }

    /// Computes anew what groups have from the policy before, oldest first, as far as `room` tokens
    /// go; or twice as many as are drawn meanwhile, since with fewer the last would hardly come to
    /// an end. One group at a time, as it needs room for two caches; where there is none, its own
    /// are given up first.
    pub(super) fn succeed(&mut self, room: &mut usize) -> Result<(), EngineError> {
        let policy = Arc::clone(&self.policy);
        if *room > 0 {
            *room = (*room).max(PACE * self.live());
        }
        while *room > 0
            && let Some(index) = self.active.iter().position(|group| group.lingers(&policy))
        {
            if !self.has_room_for_successor(index) {
                self.active[index].forget();
                continue;
            }
            let is_in_use = self.active.iter().any(|group| group.is_under(&policy));
            loop {
                let (call, mut feeds) = (self.call.min(*room), Vec::new());
                let mut left = call;
                self.active[index].prepare(&policy, &mut left, &mut feeds);
                if feeds.is_empty() {
                    break;
                }
                if is_in_use {
                    policy.backend().forward(&mut feeds, Want::Nothing)?;
                } else {
                    policy.backend().forward_beside(&mut feeds)?;
                }
                *room -= call - left;
                self.tally.recomputed += (call - left) as u64;
            }
            let group = &mut self.active[index];
            if !group.succeed() {
                break;
            }
            // Heard tokens may be among them that were in no cache before.
            let new = group.learn() as u64;
            self.tally.prefilled += new;
            self.tally.recomputed -= new;
            self.tally.succeeded += 1;
        }
        Ok(())
    }

    /// Whether requests that were not begun have to wait for the next policy.
    pub(super) fn waits(&self) -> bool {
        self.next.is_some()
    }

    /// Lets the policy that waits take over if nothing is in flight.
    pub(super) fn take_over_when_idle(&mut self) {
        let idle = self.active.is_empty() && !self.waiting.iter().any(SampleGroup::is_begun);
        if let Some(next) = self.next.take_if(|_| idle) {
            self.policy = next;
        }
    }
}
