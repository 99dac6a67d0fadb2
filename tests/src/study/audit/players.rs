//! Who answers orders: honest machines, and cheats.

use super::forged_response::draw_on;
use super::policies::{Versions, generate};
use super::{Claim, Order, params};
use anyhow::Context;
use echo_policy::generation::{Backend, Completion, Policy};
use echo_policy::sampling;
use echo_policy::sampling::SamplingParams;
use std::sync::Arc;

/// Answers orders, one claim each.
pub(super) type AuditPlayer<'a> = Box<dyn Fn(&[Order]) -> anyhow::Result<Vec<Claim>> + Sync + 'a>;

impl From<Completion> for Claim {
    fn from(completion: Completion) -> Self {
        Self { tokens: completion.tokens, logprobs: completion.logprobs }
    }
}

/// Who generates under a policy what was asked. With the newest one this is an honest machine;
/// under another, a cheat that claims it for the newest.
pub(super) fn under<B: Backend + 'static>(policy: Arc<Policy<B>>, tokens: u32) -> AuditPlayer<'static> {
    Box::new(move |orders| {
        let groups = generate(&policy, orders, 1, params(tokens))?;
        Ok(groups.into_iter().flatten().map(Claim::from).collect())
    })
}

/// Who draws at another temperature, and reports the log-probabilities that `report` takes of what was drawn.
pub(super) fn at_temperature(
    policy: Arc<Policy>,
    tokens: u32,
    temperature: f32,
    report: fn(&Completion) -> &Vec<f32>,
) -> AuditPlayer<'static> {
    Box::new(move |orders| {
        let params = SamplingParams { temperature, ..params(tokens) };
        let groups = generate(&policy, orders, 1, params)?;
        let claim = |completion: Completion| Claim {
            logprobs: report(&completion).clone(),
            tokens: completion.tokens,
        };
        Ok(groups.into_iter().flatten().map(claim).collect())
    })
}

/// Who draws samples of numbers that were not asked for, and hands in the likeliest as the one that was.
pub(super) fn best_of(policy: Arc<Policy>, tokens: u32, of: u32) -> AuditPlayer<'static> {
    Box::new(move |orders| {
        let groups = generate(&policy, orders, of + 1, params(tokens))?;
        let likelihood = |completion: &Completion| completion.logprobs.iter().sum::<f32>();
        groups
            .into_iter()
            .map(|group| {
                let best = group.into_iter().skip(1).max_by(|a, b| likelihood(a).total_cmp(&likelihood(b)));
                best.map(Claim::from).context("best of none")
            })
            .collect()
    })
}

/// Who puts one token in another's place, somewhere, and keeps what was drawn before and after.
pub(super) fn edited(versions: &Versions, policy: Arc<Policy>, tokens: u32) -> AuditPlayer<'_> {
    let honest = under(policy, tokens);
    let vocabulary = versions.vocabulary();
    Box::new(move |orders| {
        let mut claims = honest(orders)?;
        for (order, claim) in orders.iter().zip(&mut claims) {
            let (place, by) = (somewhere(order, tokens), 1 + at_random(order, 1, vocabulary - 1));
            let token = &mut claim.tokens[place as usize];
            *token = (*token + by) % vocabulary;
        }
        Ok(claims)
    })
}

/// Who puts the likeliest other token somewhere, and draws on after it.
pub(super) fn steered(policy: Arc<Policy>, tokens: u32) -> AuditPlayer<'static> {
    Box::new(move |orders| {
        orders.iter().map(|order| draw_on(&policy, order, tokens, somewhere(order, tokens))).collect()
    })
}

/// Who reports other log-probabilities than those drawn from.
pub(super) fn made_up(
    policy: Arc<Policy>,
    tokens: u32,
    change: impl Fn(f32) -> f32 + Sync + 'static,
) -> AuditPlayer<'static> {
    let honest = under(policy, tokens);
    Box::new(move |orders| {
        let mut claims = honest(orders)?;
        for logprob in claims.iter_mut().flat_map(|claim| &mut claim.logprobs) {
            *logprob = change(*logprob);
        }
        Ok(claims)
    })
}

/// Who makes one log-probability up, somewhere.
pub(super) fn one_made_up(policy: Arc<Policy>, tokens: u32, by: f32) -> AuditPlayer<'static> {
    let honest = under(policy, tokens);
    Box::new(move |orders| {
        let mut claims = honest(orders)?;
        for (order, claim) in orders.iter().zip(&mut claims) {
            claim.logprobs[somewhere(order, tokens) as usize] -= by;
        }
        Ok(claims)
    })
}

/// A place in the response that looks random.
fn somewhere(order: &Order, tokens: u32) -> u32 {
    at_random(order, 0, tokens)
}

/// Below `end`; numbers that no draw uses, by their sample.
fn at_random(order: &Order, number: u32, end: u32) -> u32 {
    (sampling::uniform(&order.seed, u32::MAX, number) * f64::from(end)) as u32
}
