//! Drawing tokens.

use std::sync::Arc;

use super::Generation;
use super::group::SampleGroup;
use super::sequence::SampledSequence;
use crate::generation::EngineError;
use crate::generation::backend::{Backend, Feed, MAX_CALL_TOKENS, Pick};
use crate::generation::policy::Policy;
use crate::sampling;

/// Sequences that are drawn for in one call: bounds the logits in memory at large vocabularies.
const DECODE_BATCH: usize = 256;
const _: () = assert!(DECODE_BATCH <= MAX_CALL_TOKENS);

impl<B: Backend> Generation<B> {
    /// Draws the next token of every response of the groups that are caught up. One that is drawn
    /// already, in a step that failed later, is not drawn again.
    pub(super) fn draw(&mut self) -> Result<(), EngineError> {
        self.in_use().iter().try_for_each(|policy| self.draw_from(policy))
    }

    fn draw_from(&mut self, policy: &Arc<Policy<B>>) -> Result<(), EngineError> {
        let mut live = Vec::new();
        for group in self.active.iter_mut().filter(|group| group.is_under(policy) && group.is_caught_up()) {
            let SampleGroup { request, sequences, caches: Some(caches), .. } = group else { continue };
            let undrawn =
                sequences.iter_mut().zip(caches.own()).filter(|(s, _)| !s.finished && s.drawn.is_none());
            live.extend(undrawn.map(|(sequence, cache)| (&*request, sequence, cache)));
        }
        for batch in live.chunks_mut(self.call.min(DECODE_BATCH)) {
            let (mut feeds, mut picks) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
            for (request, sequence, cache) in batch.iter_mut() {
                let SampledSequence { sample, said, completion, .. } = &**sequence;
                let Some(cache) = cache.as_mut() else { continue };
                feeds.push(Feed { tokens: &said[said.len() - 1..], cache });
                let u = sampling::uniform(&request.seed, *sample, completion.tokens.len() as u32);
                picks.push(Pick { params: &request.params, u });
            }
            match policy.backend().draw(&mut feeds, &picks) {
                Ok(drawn) => {
                    for ((_, sequence, _), drawn) in batch.iter_mut().zip(drawn) {
                        sequence.draw(drawn);
                    }
                }
                // Nothing is changed.
                Err(error @ EngineError::Memory { .. }) => return Err(error),
                Err(error) => {
                    // What is in these caches now nobody knows.
                    batch.iter_mut().for_each(|(_, _, cache)| **cache = None);
                    self.active.iter_mut().filter(|group| group.lacks_caches()).for_each(SampleGroup::forget);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Takes over what was drawn, group by group.
    pub(super) fn commit(&mut self) {
        let drawn: usize = self.active.iter_mut().map(SampleGroup::commit).sum();
        self.tally.drawn += drawn as u64;
    }
}
