//! A node's groups under the audit, as the learner looks at them.

use super::super::Order;
use super::super::policies::generate;
use super::cheat::{Cheat, Cheater};
use super::setting::Setting;
use crate::models::random_weights::unit;
use echo_learner::reputation::PROBATION;
use echo_policy::audit::{ClaimedSample, NearMisses, Tolerance, examine};
use echo_policy::generation::{Backend, Policy};
use echo_policy::model::precision::Precision;
use std::sync::Arc;

/// Groups within which a cheat has to be found.
pub(super) const GROUPS: u64 = 64;
/// The stream of random numbers that says which groups are looked at in full.
const LOOKS_STREAM: u64 = 41;

/// Who looks, and by which limits.
pub(super) struct Audit<'a> {
    pub(super) setting: &'a Setting,
    pub(super) policy: Arc<Policy>,
    pub(super) tolerance: Tolerance,
    pub(super) group_size: u32,
}

/// What became of a node.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Groups that it delivered.
    pub(super) groups: u64,
    /// Those that were refused.
    pub(super) refused: u64,
    /// Those of them whose own tokens passed, and that the record refused.
    pub(super) by_record: u64,
    pub(super) samples: u64,
    /// Samples that are not those that were to be drawn.
    pub(super) altered: u64,
}

/// A group: tokens and log-probabilities of each sample.
type Group = Vec<(Vec<u32>, Vec<f32>)>;

impl<'a> Audit<'a> {
    pub(super) fn new(setting: &'a Setting, precision: Precision, group_size: u32) -> anyhow::Result<Self> {
        let tolerance = Tolerance::of(precision.name(), precision, 1.0)?;
        Ok(Self { setting, policy: setting.policy(precision)?, tolerance, group_size })
    }

    /// A node that answers so many orders with `policy`.
    pub(super) fn honest<B: Backend + 'static>(
        &self,
        policy: &Arc<Policy<B>>,
        node: u64,
        groups: u64,
    ) -> anyhow::Result<Outcome> {
        let orders: Vec<Order> = (0..groups).map(|group| self.setting.order(node, group)).collect();
        let (mut outcome, mut record) = (Outcome::default(), NearMisses::default());
        // Few at a time, so that caches and logits stay small.
        for (first, orders) in (0u64..).step_by(8).zip(orders.chunks(8)) {
            let drawn = generate(policy, orders, self.group_size, self.setting.params())?;
            for ((number, order), samples) in (first..).zip(orders).zip(drawn) {
                let group = samples.into_iter().map(|sample| (sample.tokens, sample.logprobs)).collect();
                self.look(order, (node, number), group, &mut record, &mut outcome)?;
            }
        }
        Ok(outcome)
    }

    /// A node that cheats with the policy as the audit computes it, until it is found.
    pub(super) fn cheat(&self, cheat: Cheat, node: u64) -> anyhow::Result<Outcome> {
        let (mut outcome, mut record) = (Outcome::default(), NearMisses::default());
        let mut cheater = Cheater {
            policy: &self.policy,
            params: self.setting.params(),
            limits: self.tolerance.race,
            cheat,
            count: NearMisses::default(),
        };
        for number in 0..GROUPS {
            let order = self.setting.order(node, number);
            let responses = cheater.answer(&order, self.group_size)?;
            outcome.altered += responses.iter().filter(|response| response.is_altered).count() as u64;
            let group =
                responses.into_iter().map(|response| (response.claim.tokens, response.claim.logprobs));
            self.look(&order, (node, number), group.collect(), &mut record, &mut outcome)?;
            if outcome.refused > 0 {
                break;
            }
        }
        Ok(outcome)
    }

    /// Looks at all of a group, or at one of its samples, as the record of a node asks for that
    /// has lied about none before.
    fn look(
        &self,
        order: &Order,
        (node, number): (u64, u64),
        group: Group,
        record: &mut NearMisses,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let draw = unit(LOOKS_STREAM + node, 2 * number);
        let is_full = draw < PROBATION as f64 / number.max(PROBATION) as f64;
        let one = (unit(LOOKS_STREAM + node, 2 * number + 1) * f64::from(self.group_size)) as u32;
        outcome.groups += 1;
        outcome.samples += group.len() as u64;
        let looked = (0..).zip(group).filter(|(index, _)| is_full || *index == one);
        let samples = looked.map(|(index, (tokens, logprobs))| {
            let versions = std::iter::repeat_n(1, tokens.len());
            ClaimedSample::new(index, tokens.into_iter().map(|token| (token, true)), &logprobs, versions)
        });
        let policies = [self.policy.clone()];
        let params = self.setting.params();
        let found = examine(&policies, &order.prompt, &order.seed, &params, samples, &self.tolerance)?;
        if found.fault.is_some() {
            outcome.refused += 1;
            return Ok(());
        }
        *record = record.then(found.near_misses);
        if record.is_alarm() {
            outcome.refused += 1;
            outcome.by_record += 1;
        }
        Ok(())
    }
}
