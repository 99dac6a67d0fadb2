//! Filling caches: prompts, what was heard, and what is computed anew.

use super::Generation;
use crate::engine::backend::{Backend, Want};
use crate::error::EngineError;

impl<B: Backend> Generation<B> {
    /// Computes what groups have to catch up with, oldest first, as far as `room` tokens go: a group that is all caught up draws while a
    /// younger one still is not.
    pub(super) fn prefill(&mut self, room: &mut usize) -> Result<(), EngineError> {
        let backend = self.policy.backend();
        loop {
            let call = self.call.min(*room);
            let (mut left, mut feeds) = (call, Vec::new());
            for group in &mut self.active {
                group.share_prefix(backend);
                group.backlog(backend, &mut left, &mut feeds);
            }
            if feeds.is_empty() {
                return Ok(());
            }
            backend.forward(&mut feeds, Want::Nothing)?;
            let fed = call - left;
            *room -= fed;
            let new: usize = self.active.iter_mut().map(|group| group.learn(backend)).sum();
            self.tally.prefilled += new as u64;
            self.tally.recomputed += (fed - new) as u64;
        }
    }
}
