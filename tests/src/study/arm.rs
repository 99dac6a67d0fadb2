//! One arm of a study: an objective under a delay.

use super::delay::Delay;
use super::plans::Plan;
use crate::practice::Practice;
use echo_learner::config::TrainSection;
use echo_learner::objective::{Choice, Objective, Preset};
use echo_learner::schedule::Schedule;
use echo_policy::engine::Policy;
use echo_policy::weights::{DType, Weights};
use std::collections::VecDeque;
use std::sync::Arc;

/// What is compared.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    /// Its name in results and pictures.
    pub(super) algo: String,
    /// The objective.
    pub(super) objective: Objective,
    /// How stale its rollouts are.
    pub(super) delay: Delay,
}

/// How one seed of an arm went.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Accuracy on orders that no update has drawn, after so many updates.
    pub(super) accuracy: Vec<(u64, f64)>,
    /// Means over all updates: importance weights' variance, KL(behaviour, current) in nats a token, share of clipped terms.
    pub(super) weight_variance: f64,
    pub(super) kl: f64,
    pub(super) clip_share: f64,
}

impl Course {
    /// The accuracy that all arms of the seed begin with.
    pub(super) fn first(&self) -> f64 {
        self.accuracy.first().map_or(0.0, |(_, accuracy)| *accuracy)
    }

    /// The accuracy at the end: the mean of the last evaluations, as a single one is noisy.
    pub(super) fn last(&self) -> f64 {
        let trained = &self.accuracy[1.min(self.accuracy.len())..];
        let tail = &trained[trained.len().saturating_sub(LAST_EVALUATIONS)..];
        tail.iter().map(|(_, accuracy)| accuracy).sum::<f64>() / tail.len().max(1) as f64
    }

    /// The highest accuracy, the one at the start included.
    pub(super) fn best(&self) -> f64 {
        self.accuracy.iter().fold(0.0, |best, (_, accuracy)| best.max(*accuracy))
    }
}

/// Evaluations that the last accuracy is a mean of.
pub(super) const LAST_EVALUATIONS: usize = 3;

/// Trains from `start`. The batch of an update was sampled under the policy that is as many updates old as the delay says, or under the
/// first one.
pub(super) fn course(
    practice: &Practice,
    start: &Weights,
    arm: &Arm,
    plan: &Plan,
    seed: u64,
) -> anyhow::Result<Course> {
    let objective = Choice { preset: Preset::default(), objective: arm.objective };
    let schedule = Schedule::constant(plan.rate, plan.warmup);
    let minibatches = plan.minibatches;
    let train = TrainSection { objective, schedule, minibatches, ..TrainSection::default() };
    let mut trainer = practice.trainer(start, &train)?;
    let mut policies: VecDeque<Arc<Policy>> = VecDeque::from([practice.policy(0, start)?]);
    let mut course =
        Course { accuracy: vec![(0, practice.accuracy(start, plan.orders)?)], ..Course::default() };
    for update in 0..plan.updates {
        let lag = arm.delay.of(seed, update).min(policies.len() as u64 - 1) as usize;
        let policy = policies[policies.len() - 1 - lag].clone();
        let groups = practice.rollouts(&policy, update * plan.groups, plan.groups)?;
        let report = trainer.update(practice.workload(), &groups)?;
        course.weight_variance += report.stats.weight_variance() / plan.updates as f64;
        course.kl += report.stats.kl_k3() / plan.updates as f64;
        course.clip_share += report.stats.clip_share() / plan.updates as f64;
        let weights = trainer.decoder().to_weights(DType::F32)?;
        if (update + 1).is_multiple_of(plan.evaluate_every) || update + 1 == plan.updates {
            course.accuracy.push((update + 1, practice.accuracy(&weights, plan.orders)?));
        }
        policies.push_back(practice.policy(update + 1, &weights)?);
        while policies.len() as u64 > arm.delay.updates + 1 {
            policies.pop_front();
        }
    }
    Ok(course)
}
