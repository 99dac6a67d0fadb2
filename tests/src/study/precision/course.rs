//! One form at one learning rate: updates, and a publication after each.

use super::form::Form;
use super::masters::{Likeness, Masters, Publication, tensors};
use super::{Beginning, PrecisionStudy};
use crate::models::in_process_training::Practice;
use anyhow::Context as _;
use echo_learner::config::TrainSection;
use echo_learner::intake::buffer::StoredGroup;
use echo_learner::training::lr_schedule::Schedule;
use echo_policy::generation::score;
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::work::order::Purpose;

/// Tokens in one pass, which keeps SmolLM2 within the memory of a small machine.
const MICRO_BATCH_TOKENS: usize = 1024;

/// What became of a course: figures, or the words with which the form refused the weights.
pub(super) type Outcome = Result<PrecisionCourse, String>;

/// The figures of a course.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PrecisionCourse {
    /// Mean reward of each batch.
    pub(super) rewards: Vec<f64>,
    /// Share of held-out orders that the policy answers right as it was published last.
    pub(super) held_out: f64,
    /// Where the published policy went; none where nothing moved.
    pub(super) likeness: Option<Likeness>,
    pub(super) publications: Vec<Publication>,
    /// Bytes of a publication without deltas.
    pub(super) full_bytes: u64,
    /// The largest mean gap of an update between the engine's log-probs and the trainer's, in nats. Both
    /// have the same numbers.
    pub(super) gap: Option<f64>,
    /// The mean gap between what the masters and the published policy say of the last batch, in nats.
    pub(super) rounding_gap: f64,
}

impl PrecisionCourse {
    /// Means over the publications: the share of changed numbers, and bytes.
    pub(super) fn of_publications(&self) -> [f64; 2] {
        let count = self.publications.len().max(1) as f64;
        let changed: f64 = self.publications.iter().map(|publication| publication.changed).sum();
        let bytes: u64 = self.publications.iter().map(|publication| publication.bytes).sum();
        [changed / count, bytes as f64 / count]
    }
}

/// Trains with a form at a rate.
pub(super) fn course(
    study: &PrecisionStudy,
    beginning: &Beginning,
    form: Form,
    rate: f64,
) -> anyhow::Result<Outcome> {
    let Beginning { practice, weights, .. } = beginning;
    let train = TrainSection {
        schedule: Schedule::constant(rate, 0),
        micro_batch_tokens: MICRO_BATCH_TOKENS,
        ..TrainSection::default()
    };
    let mut trainer = practice.trainer(weights, &train)?;
    let start = tensors(trainer.decoder())?;
    let mut masters = match Masters::begin(form, &trainer)? {
        Ok(masters) => masters,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let (mut rewards, mut publications, mut last) = (Vec::new(), Vec::new(), Vec::new());
    let mut gap: Option<f64> = None;
    for update in 0..study.updates {
        // The values of what is published are numbers of f32, in whatever form they travel.
        let policy = practice.policy(update, &trainer.decoder().to_weights(DType::F32)?)?;
        let groups = practice.rollouts(&policy, update * study.groups, study.groups)?;
        drop(policy);
        rewards.push(mean_reward(&groups));
        let report = trainer.update(practice.workload(), &groups)?;
        gap = report.gaps.reported.map(|found| found.mean.max(gap.unwrap_or(0.0))).or(gap);
        match masters.publish(&trainer)? {
            Ok(publication) => publications.push(publication),
            Err(refusal) => return Ok(Err(refusal)),
        }
        last = groups;
    }
    let likeness = masters.likeness(&start);
    drop(start);
    let full_bytes = masters.full_bytes();
    let of_masters = masters.to_weights(trainer.decoder(), practice.model())?;
    let published = trainer.decoder().to_weights(DType::F32)?;
    drop((masters, trainer));
    let rounding_gap = distance(practice, &last, [&of_masters, &published])?;
    let held_out = practice.accuracy(&published, study.orders)?;
    Ok(Ok(PrecisionCourse { rewards, held_out, likeness, publications, full_bytes, gap, rounding_gap }))
}

fn mean_reward(groups: &[StoredGroup]) -> f64 {
    let rewards: Vec<f64> =
        groups.iter().flat_map(|stored| &stored.group.trajectories).map(|t| f64::from(t.reward)).collect();
    rewards.iter().sum::<f64>() / rewards.len().max(1) as f64
}

/// The mean distance of two policies' log-probs of the responses.
fn distance(practice: &Practice, groups: &[StoredGroup], policies: [&Weights; 2]) -> anyhow::Result<f64> {
    let workload = practice.workload();
    let (mut sequences, mut lengths) = (Vec::new(), Vec::new());
    for stored in groups {
        let prompt = workload.prompt(&workload.order(Purpose::Train, stored.group.counter.0))?;
        for trajectory in &stored.group.trajectories {
            sequences.push([prompt.as_slice(), trajectory.response.as_slice()].concat());
            lengths.push(trajectory.response.len());
        }
    }
    let scores = |weights: &Weights| -> anyhow::Result<Vec<Vec<f32>>> {
        let policy = practice.policy(0, weights)?;
        Ok(score(&policy, &sequences)?)
    };
    let (one, other) = (scores(policies[0])?, scores(policies[1])?);
    let (mut sum, mut tokens) = (0.0, 0_usize);
    for ((one, other), length) in one.iter().zip(&other).zip(lengths) {
        let from = one.len() - length;
        sum += one[from..].iter().zip(&other[from..]).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>();
        tokens += length;
    }
    (tokens > 0).then(|| sum / tokens as f64).context("no response was scored")
}
