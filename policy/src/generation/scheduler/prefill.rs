//! Filling caches: prompts, what was heard, and what is computed anew.

use std::sync::Arc;

use super::Generation;
use super::caches::GroupCaches;
use super::group::SampleGroup;
use crate::generation::EngineError;
use crate::generation::backend::{Backend, Want};
use crate::generation::policy::Policy;

impl<B: Backend> Generation<B> {
    /// Computes what groups have to catch up with, those under an older policy first, then the
    /// oldest, as far as `room` tokens go: a group that is all caught up draws while a younger
    /// one still is not.
    pub(super) fn prefill(&mut self, room: &mut usize) -> Result<(), EngineError> {
        let Self { active, policy, .. } = self;
        for group in active.iter_mut().filter(|group| !group.is_finished()) {
            group.caches.get_or_insert_with(|| GroupCaches::new(policy, group.sequences.len()));
        }
        for policy in self.in_use() {
            self.prefill_under(&policy, room)?;
        }
        Ok(())
    }

    fn prefill_under(&mut self, policy: &Arc<Policy<B>>, room: &mut usize) -> Result<(), EngineError> {
        loop {
            let call = self.call.min(*room);
            let (mut left, mut feeds) = (call, Vec::new());
            for group in self.active.iter_mut().filter(|group| group.is_under(policy)) {
                group.backlog(&mut left, &mut feeds);
            }
            if feeds.is_empty() {
                return Ok(());
            }
            policy.backend().forward(&mut feeds, Want::Nothing)?;
            let fed = call - left;
            *room -= fed;
            let new: usize = self.active.iter_mut().map(SampleGroup::learn).sum();
            self.tally.prefilled += new as u64;
            self.tally.recomputed += (fed - new) as u64;
        }
    }
}
