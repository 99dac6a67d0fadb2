//! A response that somebody wrote with the policy's help: every token is drawn as the order says,
//! but for those that are put in their place.

use super::{Claim, Order, params};
use echo_policy::generation::Policy;
use echo_policy::generation::backend::{Backend, Feed, MAX_CALL_TOKENS, Want};
use echo_policy::sampling;

/// Draws a response to `order` token by token. At `place` the most likely other token is put,
/// with the log-probability that it has, and the rest is drawn after it: all that an audit can
/// find is the one token.
pub(super) fn draw_on<B: Backend>(
    policy: &Policy<B>,
    order: &Order,
    tokens: u32,
    place: u32,
) -> anyhow::Result<Claim> {
    let (backend, params) = (policy.backend(), params(tokens));
    let mut cache = backend.new_cache();
    let mut claim = Claim { tokens: Vec::new(), logprobs: Vec::new() };
    let (last, before) = order.prompt.split_last().map_or((0, &[][..]), |(last, before)| (*last, before));
    for tokens in before.chunks(MAX_CALL_TOKENS) {
        backend.forward(&mut [Feed { tokens, cache: &mut cache }], Want::Nothing)?;
    }
    let mut last = last;
    for position in 0..tokens {
        let logits = backend.forward(&mut [Feed { tokens: &[last], cache: &mut cache }], Want::Last)?;
        let row = logits.rows().next().unwrap_or_default();
        let drawn = sampling::sample(row, &params, sampling::uniform(&order.seed, 0, position))?;
        let (token, logprob) = if position == place {
            let other = (0..row.len()).filter(|token| *token != drawn.token as usize);
            let other = other.max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or_default() as u32;
            (other, sampling::interval(row, &params, other)?.logprob)
        } else {
            (drawn.token, drawn.logprob)
        };
        claim.tokens.push(token);
        claim.logprobs.push(logprob);
        last = token;
    }
    Ok(claim)
}
