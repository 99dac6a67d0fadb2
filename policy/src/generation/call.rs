//! What every backend asks of a call before it computes anything.

use super::EngineError;
use super::backend::{Backend, Feed, MAX_CALL_TOKENS, Want};

/// The tokens of all feeds together, if the call is one that `backend` can do.
///
/// Fails when there are too many tokens, a feed has none or one outside of the vocabulary, outgrows
/// the model's positions, or a cache is foreign.
pub(super) fn check<B: Backend>(backend: &B, feeds: &[Feed<'_, B::Cache>]) -> Result<usize, EngineError> {
    let config = backend.config();
    let total = feeds.iter().map(|feed| feed.tokens.len()).sum();
    if total > MAX_CALL_TOKENS {
        return Err(EngineError::Limit { what: "tokens in a call", value: total, limit: MAX_CALL_TOKENS });
    }
    for (request, feed) in feeds.iter().enumerate() {
        if feed.tokens.is_empty() {
            return Err(EngineError::EmptyPrompt { request });
        }
        if !backend.accepts(feed.cache) {
            return Err(EngineError::ForeignCache);
        }
        let cached = backend.cached_tokens(feed.cache);
        let (tokens, limit) = (cached + feed.tokens.len(), config.max_position_embeddings);
        if tokens > limit {
            return Err(EngineError::TooLong { tokens, limit });
        }
        if let Some(token) = feed.tokens.iter().find(|token| **token as usize >= config.vocab_size) {
            return Err(EngineError::Token { token: *token, vocab: config.vocab_size });
        }
    }
    Ok(total)
}

/// Which tokens of a call logits are wanted after.
pub(super) fn wanted_rows<C>(feeds: &[Feed<'_, C>], want: Want) -> Vec<usize> {
    let ends = feeds.iter().scan(0, |end, feed| {
        *end += feed.tokens.len();
        Some(*end)
    });
    match want {
        Want::Nothing => Vec::new(),
        Want::Last => ends.map(|end| end.saturating_sub(1)).collect(),
        Want::All => (0..ends.last().unwrap_or_default()).collect(),
    }
}
