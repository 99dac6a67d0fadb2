//! Log-probabilities of given sequences, as the generation engine computes them.

use super::EngineError;
use super::backend::{Backend, Feed, MAX_CALL_TOKENS, TokenClaim};
use super::policy::Policy;
use crate::sampling::SamplingParams;

/// Rows of logits computed at once: bounds memory at large vocabularies.
const ROWS_PER_CALL: usize = 256;
const _: () = assert!(ROWS_PER_CALL <= MAX_CALL_TOKENS);

/// Raw log-probs (temperature 1, no truncation) of each sequence: element t of a result is the
/// log-prob of token t + 1 given tokens 0..=t, so that it is one shorter than its sequence. On the
/// backend that generated a sequence, these are the very numbers that it reported, bit for bit.
///
/// # Errors
/// When a sequence is empty, too long, or holds a token outside of the vocabulary.
pub fn score<B: Backend>(policy: &Policy<B>, sequences: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, EngineError> {
    sequences
        .iter()
        .enumerate()
        .map(|(request, tokens)| {
            let [inputs @ .., _] = tokens.as_slice() else {
                return Err(EngineError::EmptyPrompt { request });
            };
            score_one(policy.backend(), inputs, &tokens[1..])
        })
        .collect()
}

fn score_one<B: Backend>(backend: &B, inputs: &[u32], targets: &[u32]) -> Result<Vec<f32>, EngineError> {
    let params = SamplingParams::unbiased(1);
    let mut cache = backend.new_cache();
    let mut logprobs = Vec::with_capacity(targets.len());
    for (tokens, targets) in inputs.chunks(ROWS_PER_CALL).zip(targets.chunks(ROWS_PER_CALL)) {
        let claims: Vec<_> =
            targets.iter().map(|token| TokenClaim { params: &params, token: *token, u: 0.0 }).collect();
        let placed = backend.place(&mut [Feed { tokens, cache: &mut cache }], &claims)?;
        logprobs.extend(placed.iter().map(|interval| interval.raw_logprob));
    }
    Ok(logprobs)
}
