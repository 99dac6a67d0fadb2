//! One seed of an arm: its training, and the figures of its course.

use super::arm::Arm;
use super::plans::StudyPlan;
use super::statistics::Average;
use crate::models::in_process_training::Practice;
use echo_learner::config::TrainSection;
use echo_learner::intake::admission::Admitted;
use echo_learner::intake::buffer::StoredGroup;
use echo_learner::intake::filter::{Filter, same_rewards};
use echo_learner::training::lr_schedule::Schedule;
use echo_learner::training::trainer::UpdateReport;
use echo_policy::generation::Policy;
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::wire::content_id::ContentId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// How one seed of an arm went.
#[derive(Clone, Debug, Default)]
pub(super) struct SeedCourse {
    /// Accuracy on orders that no update has drawn, after so many updates.
    pub(super) accuracy: Vec<(u64, f64)>,
    /// Means over all updates that were made: importance weights' variance, KL(behaviour, current)
    /// in nats a token, share of clipped terms.
    pub(super) weight_variance: Average,
    pub(super) kl: Average,
    pub(super) clip_share: Average,
    /// Share of an update's time in which log-probabilities under its first policy are recomputed.
    pub(super) proximal_share: Average,
    /// 95th percentile of |Δ log π| over an update's tokens: to what the sampling policy reported,
    /// and to what was recomputed, where it was.
    pub(super) logp_gap_p95: Average,
    pub(super) logp_gap_recomputed_p95: Average,
    /// Share of the groups drawn that the filter dropped.
    pub(super) dropped: f64,
    /// Share of the groups drawn whose rewards were all equal, dropped ones included: over the
    /// last quarter of updates.
    pub(super) degenerate_last: f64,
}

impl SeedCourse {
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

    fn count(&mut self, report: &UpdateReport, seconds: f64) {
        self.weight_variance.add([report.stats.weight_variance()]);
        self.kl.add([report.stats.kl_k3()]);
        self.clip_share.add([report.stats.clip_share()]);
        self.proximal_share.add([report.effort.proximal_s / seconds]);
        self.logp_gap_p95.add(report.gaps.reported.map(|gap| gap.p95));
        self.logp_gap_recomputed_p95.add(report.gaps.recomputed.map(|gap| gap.p95));
    }
}

/// Evaluations that the last accuracy is a mean of.
pub(super) const LAST_EVALUATIONS: usize = 3;

/// Batches' worth of groups that are drawn for an update at most: of a task that is solved nearly
/// none passes a filter.
const MOST_BATCHES: u64 = 8;

/// Trains from `start`. The batch of an update was sampled under the policy that is as many updates
/// old as the delay says, or under the first one. Where the filter lets too little pass, the batch
/// is smaller; where nothing passes, no update is made.
pub(super) fn course(
    practice: &Practice,
    start: &Weights,
    arm: &Arm,
    plan: &StudyPlan,
    seed: u64,
) -> anyhow::Result<SeedCourse> {
    let objective = arm.objective;
    let schedule = Schedule::constant(plan.rate / arm.split as f64, plan.warmup);
    let minibatches = plan.minibatches * arm.split;
    let train = TrainSection { objective, schedule, minibatches, ..TrainSection::default() };
    let filter = train.filter();
    let mut trainer = practice.trainer(start, &train)?;
    let mut policies: VecDeque<Arc<Policy>> = VecDeque::from([practice.policy(0, start)?]);
    let mut course =
        SeedCourse { accuracy: vec![(0, practice.accuracy(start, plan.orders)?)], ..SeedCourse::default() };
    let (mut all, mut late) = (Batch::default(), Batch::default());
    for update in 0..plan.updates {
        let lag = arm.delay.of(seed, update).min(policies.len() as u64 - 1) as usize;
        let policy = policies[policies.len() - 1 - lag].clone();
        let batch = draw(practice, &policy, &filter, all.drawn, plan.groups)?;
        if !batch.groups.is_empty() {
            let since = Instant::now();
            let report = trainer.update(practice.workload(), &batch.groups)?;
            course.count(&report, since.elapsed().as_secs_f64());
        }
        all.count(&batch);
        if update >= plan.updates - plan.updates.div_ceil(4) {
            late.count(&batch);
        }
        let weights = trainer.decoder().to_weights(DType::F32)?;
        if (update + 1).is_multiple_of(plan.evaluate_every) || update + 1 == plan.updates {
            course.accuracy.push((update + 1, practice.accuracy(&weights, plan.orders)?));
        }
        policies.push_back(practice.policy(update + 1, &weights)?);
        while policies.len() as u64 > arm.delay.updates + 1 {
            policies.pop_front();
        }
    }
    course.dropped = all.share(all.dropped);
    course.degenerate_last = late.share(late.degenerate);
    Ok(course)
}

/// The groups of an update, and what was drawn to get them.
#[derive(Debug, Default)]
struct Batch {
    /// What passed the filter.
    groups: Vec<StoredGroup>,
    /// Groups drawn; of these, dropped by the filter; and with rewards that are all equal, dropped or not.
    drawn: u64,
    dropped: u64,
    degenerate: u64,
}

impl Batch {
    /// Adds the numbers of another.
    fn count(&mut self, batch: &Self) {
        self.drawn += batch.drawn;
        self.dropped += batch.dropped;
        self.degenerate += batch.degenerate;
    }

    fn share(&self, groups: u64) -> f64 {
        groups as f64 / self.drawn.max(1) as f64
    }
}

/// Draws the orders from `first` on until `wanted` groups pass, as a learner with a filter leases
/// more orders for those that it drops; but no more than [`MOST_BATCHES`] batches' worth.
fn draw(
    practice: &Practice,
    policy: &Arc<Policy>,
    filter: &Filter,
    first: u64,
    wanted: u64,
) -> anyhow::Result<Batch> {
    let mut batch = Batch::default();
    loop {
        let missing = wanted - batch.groups.len() as u64;
        let more = missing.min(wanted * MOST_BATCHES - batch.drawn);
        if more == 0 {
            return Ok(batch);
        }
        for stored in practice.rollouts(policy, first + batch.drawn, more)? {
            batch.degenerate += u64::from(same_rewards(&stored.group));
            match passed(filter, stored) {
                Some(stored) => batch.groups.push(stored),
                None => batch.dropped += 1,
            }
        }
        batch.drawn += more;
    }
}

/// The group, if the filter lets it pass.
fn passed(filter: &Filter, stored: StoredGroup) -> Option<StoredGroup> {
    let StoredGroup { arrival, group, correct } = stored;
    // Nobody has signed it.
    let admitted = Admitted { id: ContentId::of(b""), group, correct };
    if filter.reason(&admitted).is_some() {
        return None;
    }
    let Admitted { group, correct, .. } = admitted;
    Some(StoredGroup { arrival, group, correct })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{DelayModel, Name, Study, plans};
    use echo_learner::training::objective::Preset;

    fn plan(name: Name) -> StudyPlan {
        plans::plan(&Study {
            name,
            seeds: 1,
            updates: Some(2),
            rate: None,
            groups: Some(2),
            group_size: Some(4),
            delay_model: DelayModel::Fixed,
            out: "unused".into(),
        })
    }

    #[test]
    fn without_a_filter_a_batch_is_what_was_drawn_first() {
        let plan = plan(Name::EchoClip);
        let practice = Practice::new(plan.setting(0)).unwrap();
        let policy = practice.policy(0, practice.start()).unwrap();
        let batch = draw(&practice, &policy, &Filter::default(), 6, 2).unwrap();
        assert_eq!((batch.drawn, batch.dropped), (2, 0));
        assert_eq!(batch.groups, practice.rollouts(&policy, 6, 2).unwrap());
    }

    #[test]
    fn with_a_filter_more_is_drawn_up_to_a_bound() {
        let plan = plan(Name::EchoClip);
        let practice = Practice::new(plan.setting(0)).unwrap();
        let policy = practice.policy(0, practice.start()).unwrap();
        let dynamic = Filter { no_signal: true, ..Filter::default() };
        let batch = draw(&practice, &policy, &dynamic, 0, 2).unwrap();
        assert!(batch.groups.iter().all(|stored| !same_rewards(&stored.group)));
        assert_eq!(
            (batch.drawn - batch.dropped, batch.dropped),
            (batch.groups.len() as u64, batch.degenerate)
        );
        assert!(batch.groups.len() == 2 || batch.drawn == 2 * MOST_BATCHES, "{}", batch.drawn);
        // No share of right responses is above all.
        let nothing = Filter { pass_rate: Some([2.0, 3.0]), ..Filter::default() };
        let batch = draw(&practice, &policy, &nothing, 0, 2).unwrap();
        assert!(batch.groups.is_empty());
        assert_eq!((batch.drawn, batch.dropped), (2 * MOST_BATCHES, 2 * MOST_BATCHES));
    }

    #[test]
    fn a_course_goes_on_without_updates() {
        let plan = plan(Name::EchoClip);
        let practice = Practice::new(plan.setting(0)).unwrap();
        let of = |algo: &str| {
            let arm = plan.arms.iter().find(|arm| arm.algo == algo).unwrap();
            course(&practice, practice.start(), arm, &plan, 0).unwrap()
        };
        let (grpo, dapo) = (of("grpo"), of("dapo"));
        assert_eq!((grpo.accuracy.len(), dapo.accuracy.len()), (2, 2));
        assert!(grpo.dropped == 0.0 && grpo.kl.get().is_some());
        // Random weights may well answer nothing right; then no group passes, and there are no figures.
        assert_eq!(dapo.dropped == 1.0, dapo.kl.get().is_none());
    }

    #[test]
    fn only_dapo_filters_and_only_stale_decoupled_ppo_splits() {
        for name in [Name::Staleness, Name::Decoupled, Name::EchoClip] {
            for arm in plan(name).arms {
                let train = TrainSection { objective: arm.objective, ..TrainSection::default() };
                assert_eq!(train.filter().no_signal, arm.algo.starts_with("dapo"), "{}", arm.algo);
                let splits = name == Name::Staleness && arm.objective.preset == Preset::DecoupledPpo;
                assert_eq!(arm.split, if splits { 4 } else { 1 }, "{name} {}", arm.algo);
            }
        }
    }
}
