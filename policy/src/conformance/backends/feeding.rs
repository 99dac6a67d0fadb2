//! How prompts are fed to a backend: many together, in calls that are as full as they can be.

use super::ClaimedPrompt;
use crate::generation::backend::MAX_CALL_TOKENS;
use crate::generation::{Backend, EngineError, Feed, TokenClaim, Want};
use crate::sampling::SamplingParams;

/// Feeds prompts as generation does, and hands out the logits after each token with its row.
pub(super) fn distributions<B: Backend>(
    backend: &B,
    prompts: &[ClaimedPrompt],
    mut each: impl FnMut(usize, &[f32]),
) -> Result<(), EngineError> {
    feed(backend, prompts, ClaimedPrompt::singles, |feeds, rows| {
        let logits = backend.forward(feeds, Want::All)?;
        rows.iter().zip(logits.rows()).for_each(|(row, logits)| each(*row, logits));
        Ok(())
    })
}

/// Feeds prompts as an audit does, and hands out the log-prob of what is said to follow each
/// token with its row.
pub(super) fn claims<B: Backend>(
    backend: &B,
    prompts: &[ClaimedPrompt],
    mut each: impl FnMut(usize, f64),
) -> Result<(), EngineError> {
    let params = SamplingParams::unbiased(1);
    let tokens: Vec<u32> = prompts.iter().flat_map(ClaimedPrompt::claims).copied().collect();
    feed(
        backend,
        prompts,
        |_| 0,
        |feeds, rows| {
            let claims: Vec<_> =
                rows.iter().map(|row| TokenClaim { params: &params, token: tokens[*row], u: 0.0 }).collect();
            let placed = backend.place(feeds, &claims)?;
            rows.iter().zip(&placed).for_each(|(row, placed)| each(*row, f64::from(placed.raw_logprob)));
            Ok(())
        },
    )
}

/// Feeds all prompts, of each so many tokens at the end one by one. A call gets the feeds, and
/// which rows their tokens are.
fn feed<B: Backend>(
    backend: &B,
    prompts: &[ClaimedPrompt],
    singles: impl Fn(&ClaimedPrompt) -> usize,
    mut call: impl FnMut(&mut [Feed<'_, B::Cache>], &[usize]) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut caches: Vec<_> = prompts.iter().map(|_| (backend.new_cache(), 0)).collect();
    loop {
        let (mut feeds, mut rows, mut start) = (Vec::new(), Vec::new(), 0);
        for (prompt, (cache, fed)) in prompts.iter().zip(&mut caches) {
            let inputs = prompt.inputs();
            let at_once = inputs.len() - singles(prompt);
            let next = if *fed < at_once { at_once - *fed } else { (inputs.len() - *fed).min(1) };
            let count = next.min(MAX_CALL_TOKENS - rows.len());
            if count > 0 {
                feeds.push(Feed { tokens: &inputs[*fed..*fed + count], cache });
                rows.extend(start + *fed..start + *fed + count);
                *fed += count;
            }
            start += inputs.len();
        }
        if feeds.is_empty() {
            return Ok(());
        }
        call(&mut feeds, &rows)?;
    }
}
