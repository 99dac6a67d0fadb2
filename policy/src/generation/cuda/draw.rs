//! What a row of logits is asked, and what the answer means: [`crate::sampling`]'s rule, whose sums
//! the device makes and whose logarithms are taken here.

use super::kernels::{Outcome, RowPick};
use crate::generation::backend::{Pick, TokenClaim};
use crate::sampling::{Interval, Sampled, SamplingError, SamplingParams};

/// Tokens of a block, as in `draw.cu`.
pub(super) const BLOCK: usize = 1024;
/// Most tokens of a row, as in `draw.cu`.
pub(super) const MOST_TOKENS: usize = 1 << 20;
/// No token is claimed.
const NO_CLAIM: u32 = u32::MAX;
/// The weight of the likeliest token.
const ONE: f64 = (1u64 << 43) as f64;
/// Parts of the range of u.
const PARTS: f64 = (1u64 << 53) as f64;

fn row(params: &SamplingParams, u: u64, token: u32) -> RowPick {
    let greedy = params.temperature == 0.0;
    let factor = if greedy { 1.0 } else { sharpness(params).min(f64::from(f32::MAX)) as f32 };
    let (top_p, top_k) = (params.top_p, params.top_k);
    RowPick { u, factor, top_p, top_k, token, greedy: u32::from(greedy), unused: 0 }
}

/// What differences of logits are multiplied with.
fn sharpness(params: &SamplingParams) -> f64 {
    if params.temperature == 0.0 { 1.0 } else { 1.0 / f64::from(params.temperature) }
}

/// A token to be drawn.
pub(super) fn of_pick(pick: &Pick<'_>) -> RowPick {
    let last = (1u64 << 53) - 1;
    row(pick.params, ((pick.u * PARTS) as u64).min(last), NO_CLAIM)
}

/// A token to be found.
pub(super) fn of_claim(claim: &TokenClaim<'_>) -> RowPick {
    row(claim.params, 0, claim.token)
}

/// Whether the row's distribution may be cut.
pub(super) fn cuts(pick: &RowPick) -> bool {
    pick.greedy != 0 || pick.top_k > 0 || pick.top_p < 1.0
}

/// Fails when there was nothing to draw from.
fn check(outcome: &Outcome) -> Result<(), SamplingError> {
    let found = match outcome.status {
        0 => return Ok(()),
        1 => "a value that is not a number",
        2 => "an infinite value",
        _ => "no possible token",
    };
    Err(SamplingError::Logits { found })
}

/// How far a logit is below the largest.
fn depth(outcome: &Outcome, logit: f32) -> f64 {
    f64::from(logit) - f64::from(outcome.top)
}

fn raw_logprob(outcome: &Outcome) -> f32 {
    (depth(outcome, outcome.logit) - libm::log(outcome.raw_total as f64 / ONE)) as f32
}

fn logprob(outcome: &Outcome, params: &SamplingParams) -> f32 {
    (depth(outcome, outcome.logit) * sharpness(params) - libm::log(outcome.total as f64 / ONE)) as f32
}

/// The token that was drawn.
///
/// Fails when there was nothing to draw from.
pub(super) fn sampled(outcome: &Outcome, params: &SamplingParams) -> Result<Sampled, SamplingError> {
    check(outcome)?;
    let (logprob, raw_logprob) = (logprob(outcome, params), raw_logprob(outcome));
    Ok(Sampled { token: outcome.token, logprob, raw_logprob })
}

/// Where the claimed token lies.
///
/// Fails when there was nothing to draw from.
pub(super) fn interval(outcome: &Outcome, params: &SamplingParams) -> Result<Interval, SamplingError> {
    check(outcome)?;
    let possible = outcome.logit > f32::NEG_INFINITY;
    let kept = possible && (outcome.has_cut == 0 || keeps(outcome, outcome.floor, outcome.last));
    let share = |mass: u64| mass as f64 / outcome.total as f64;
    let (low, high) = if kept || params.temperature > 0.0 {
        (share(outcome.before), share(outcome.before + outcome.mass))
    } else {
        // A token that is never drawn is as far away as can be.
        (f64::INFINITY, f64::INFINITY)
    };
    Ok(Interval {
        low,
        high,
        logprob: if kept { logprob(outcome, params) } else { f32::NEG_INFINITY },
        raw_logprob: raw_logprob(outcome),
        cut: match outcome.has_cut {
            _ if !possible => f32::NEG_INFINITY,
            0 => f32::INFINITY,
            _ => distance(outcome, params, kept),
        },
        lead: None,
    })
}

/// Whether the token stays within a border.
fn keeps(outcome: &Outcome, floor: f32, last: u32) -> bool {
    outcome.logit > floor || (outcome.logit == floor && outcome.token <= last)
}

/// What [`Interval::cut`] says of the token.
fn distance(outcome: &Outcome, params: &SamplingParams, kept: bool) -> f32 {
    let to_floor = (depth(outcome, outcome.logit) - depth(outcome, outcome.floor)) * sharpness(params);
    let in_rank = outcome.has_ranked == 0 || keeps(outcome, outcome.ranked_floor, outcome.ranked_last);
    if outcome.enough == 0 || kept || !in_rank {
        return to_floor as f32;
    }
    to_floor.max(libm::log(outcome.enough as f64 / outcome.ahead as f64).min(0.0)) as f32
}
