//! Drawing tokens.

use super::Generation;
use super::group::Group;
use super::sequence::Sequence;
use crate::engine::backend::{Backend, Feed, MAX_CALL_TOKENS, Pick};
use crate::error::EngineError;
use crate::sampler;

/// Sequences that are drawn for in one call: bounds the logits in memory at large vocabularies.
const DECODE_BATCH: usize = 256;
const _: () = assert!(DECODE_BATCH <= MAX_CALL_TOKENS);

impl<B: Backend> Generation<B> {
    /// Draws the next token of every response of the groups that are caught up. One that is drawn already, in a step that failed later, is
    /// not drawn again.
    pub(super) fn draw(&mut self) -> Result<(), EngineError> {
        let backend = self.policy.backend();
        let mut live = Vec::new();
        for group in self.active.iter_mut().filter(|group| group.is_caught_up(backend)) {
            let Group { request, sequences, .. } = group;
            let undrawn = sequences.iter_mut().filter(|s| !s.finished && s.drawn.is_none());
            live.extend(undrawn.map(|sequence| (&*request, sequence)));
        }
        for batch in live.chunks_mut(self.call.min(DECODE_BATCH)) {
            let (mut feeds, mut picks) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
            for (request, sequence) in batch.iter_mut() {
                let Sequence { sample, said, cache: Some(cache), completion, .. } = &mut **sequence else {
                    continue;
                };
                feeds.push(Feed { tokens: &said[said.len() - 1..], cache });
                let u = sampler::uniform(&request.seed, *sample, completion.tokens.len() as u32);
                picks.push(Pick { params: &request.params, u });
            }
            match backend.draw(&mut feeds, &picks) {
                Ok(drawn) => {
                    for ((_, sequence), drawn) in batch.iter_mut().zip(drawn) {
                        sequence.draw(drawn);
                    }
                }
                // Nothing is changed.
                Err(error @ EngineError::Memory { .. }) => return Err(error),
                Err(error) => {
                    // What is in these caches now nobody knows.
                    batch.iter_mut().for_each(|(_, sequence)| sequence.cache = None);
                    let lacks = |group: &&mut Group<B>| group.live().any(|sequence| sequence.cache.is_none());
                    self.active.iter_mut().filter(lacks).for_each(Group::forget);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Takes over what was drawn, group by group.
    pub(super) fn commit(&mut self) {
        let version = self.policy.version();
        let drawn: usize = self.active.iter_mut().map(|group| group.commit(version)).sum();
        self.tally.drawn += drawn as u64;
    }
}
