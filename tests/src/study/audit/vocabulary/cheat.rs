//! Who knows the rule and the audit, and uses Echo's own code to choose.
//!
//! It draws as asked and notes, for each position, which token came second and by how much. Then it
//! puts the second token at one position and draws on behind it. Log-probabilities are the policy's
//! own. Seeds, prompts and the order of draws follow from the order, so nothing else can be varied.

use super::super::{Claim, Order};
use echo_policy::audit::{NearMisses, RaceLimits};
use echo_policy::generation::Policy;
use echo_policy::generation::backend::{Backend, Feed, MAX_CALL_TOKENS, Want};
use echo_policy::sampling;
use echo_policy::sampling::{Sampled, SamplingParams};

/// Other responses that a cheat looks at beside the honest one.
const OTHERS: usize = 3;
/// Tokens that a cheat would plant.
const WANTED: u64 = 3;
/// The share of an alarm up to which the patient cheat goes: the learner sees other gaps than it does.
const PATIENCE: f64 = 0.7;

/// What it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cheat {
    /// The best of four responses, whatever it takes: the closest races are turned.
    BestOfFour,
    /// The best of four, where honest nodes often draw the second token.
    Careful,
    /// The best of four, while the count of its own near misses is no alarm.
    Patient,
    /// One of a few tokens in each response.
    Planted,
}

/// A response as it is delivered.
pub(super) struct Response {
    pub(super) claim: Claim,
    /// Whether it is not the one that was to be drawn.
    pub(super) is_altered: bool,
    leads: Vec<f64>,
}

/// A token that may be put at a position, and how far it is behind.
#[derive(Clone, Copy)]
struct Choice {
    position: u32,
    token: u32,
    gap: f64,
}

/// One node that cheats.
pub(super) struct Cheater<'a> {
    pub(super) policy: &'a Policy,
    pub(super) params: SamplingParams,
    pub(super) limits: RaceLimits,
    pub(super) cheat: Cheat,
    /// Its own count of its near misses.
    pub(super) count: NearMisses,
}

impl Cheater<'_> {
    /// Answers an order with so many samples.
    pub(super) fn answer(&mut self, order: &Order, samples: u32) -> anyhow::Result<Vec<Response>> {
        let mut responses = Vec::new();
        let mut leads: Vec<f64> = Vec::new();
        for sample in 0..samples {
            let response = self.respond(order, sample, &leads)?;
            leads.extend_from_slice(&response.leads);
            responses.push(response);
        }
        self.count = self.count.then(NearMisses::of(&leads, &self.limits));
        Ok(responses)
    }

    /// A sample, behind those of the group whose leads are `before`.
    fn respond(&self, order: &Order, sample: u32, before: &[f64]) -> anyhow::Result<Response> {
        let mut choices: Vec<Choice> = Vec::new();
        let honest = self.draw(order, sample, None, |row, drawn, position, u| {
            if self.cheat == Cheat::Planted {
                choices.extend(self.wanted(row, position, u)?);
            } else {
                choices.extend(self.second(row, drawn, position, u)?);
            }
            Ok(())
        })?;
        choices.sort_by(|a, b| a.gap.total_cmp(&b.gap));
        match self.cheat {
            Cheat::BestOfFour | Cheat::Planted => {}
            // An honest node draws the second token there once in fifteen times.
            Cheat::Careful => choices.retain(|choice| choice.gap <= 2.0 * self.limits.spread),
            Cheat::Patient => choices.retain(|choice| choice.gap <= self.limits.most),
        }
        choices.truncate(OTHERS);
        // The reward says nothing of how close a race is, so each response is as likely the best.
        let best = sampling::uniform(&order.seed, u32::MAX, sample) * (choices.len() + 1) as f64;
        let chosen = match self.cheat {
            Cheat::Planted => choices.first(),
            _ => (best as usize).checked_sub(1).and_then(|at| choices.get(at)),
        };
        let Some(chosen) = chosen else { return Ok(honest) };
        let altered = self.draw(order, sample, Some(*chosen), |_, _, _, _| Ok(()))?;
        let is_taken = self.cheat != Cheat::Patient || {
            let leads = [before, altered.leads.as_slice()].concat();
            self.count.then(NearMisses::of(&leads, &self.limits)).suspicion() < PATIENCE
        };
        Ok(if is_taken { altered } else { honest })
    }

    /// The token that came second, where the race was close at all.
    fn second(&self, row: &[f32], drawn: Sampled, position: u32, u: f64) -> anyhow::Result<Option<Choice>> {
        let mut others = row.to_vec();
        others[drawn.token as usize] = f32::NEG_INFINITY;
        let token = sampling::sample(&others, &self.params, u)?.token;
        let lead = sampling::place(row, &self.params, token, u)?.lead.unwrap_or(f64::NEG_INFINITY);
        Ok(lead.is_finite().then_some(Choice { position, token, gap: -lead }))
    }

    /// The tokens that it would plant. One that is drawn anyway need not be.
    fn wanted(&self, row: &[f32], position: u32, u: f64) -> anyhow::Result<Vec<Choice>> {
        let mut found: Vec<Choice> = Vec::new();
        for number in 0..WANTED {
            let token = (row.len() as u64 * (2 * number + 1) / (2 * WANTED)) as u32;
            let lead = sampling::place(row, &self.params, token, u)?.lead.unwrap_or(f64::NEG_INFINITY);
            found.extend((lead < 0.0).then_some(Choice { position, token, gap: -lead }));
        }
        Ok(found)
    }

    /// Draws a sample token by token, with another token where one is `put`. `each` sees the
    /// logits, the token that was drawn of them, its position and its number.
    fn draw(
        &self,
        order: &Order,
        sample: u32,
        put: Option<Choice>,
        mut each: impl FnMut(&[f32], Sampled, u32, f64) -> anyhow::Result<()>,
    ) -> anyhow::Result<Response> {
        let backend = self.policy.backend();
        let mut cache = backend.new_cache();
        let (mut last, before) =
            order.prompt.split_last().map_or((0, &[][..]), |(last, before)| (*last, before));
        for tokens in before.chunks(MAX_CALL_TOKENS) {
            backend.forward(&mut [Feed { tokens, cache: &mut cache }], Want::Nothing)?;
        }
        let mut claim = Claim { tokens: Vec::new(), logprobs: Vec::new() };
        let mut leads: Vec<f64> = Vec::new();
        for position in 0..self.params.max_new_tokens {
            let logits = backend.forward(&mut [Feed { tokens: &[last], cache: &mut cache }], Want::Last)?;
            let row = logits.rows().next().unwrap_or_default();
            let u = sampling::uniform(&order.seed, sample, position);
            let drawn = sampling::sample(row, &self.params, u)?;
            each(row, drawn, position, u)?;
            let put = put.filter(|put| put.position == position);
            let token = put.map_or(drawn.token, |put| put.token);
            let placed = sampling::place(row, &self.params, token, u)?;
            leads.extend(placed.lead);
            claim.tokens.push(token);
            claim.logprobs.push(placed.logprob);
            last = token;
        }
        Ok(Response { claim, is_altered: put.is_some(), leads })
    }
}
