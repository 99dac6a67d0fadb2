//! What the policy wrote before and after a run, to the same prompts.

use crate::conformance::export::scores;
use anyhow::Context as _;
use echo_learner::founding;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::training::local_rollouts::{LocalAnswer, answers};
use echo_policy::generation::Policy;
use echo_policy::model::weights::Weights;
use echo_protocol::work::order::{Purpose, WorkOrder};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Prompts of which responses are shown. None of them is trained on.
const PROMPTS: u64 = 8;
/// Responses to each.
const RESPONSES: u32 = 2;

/// A prompt, and what either policy answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    pub(super) prompt: String,
    pub(super) before: Vec<Response>,
    pub(super) after: Vec<Response>,
}

/// A response at the run's sampling settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Response {
    pub(super) text: String,
    pub(super) reward: f64,
    /// Whether the policy ended it, and it was not cut.
    pub(super) finished: bool,
}

/// What was sampled of a run that is over.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    pub(super) samples: Vec<Sample>,
    /// Mean distance of a token's log-prob in training to that of the engine, in nats, of the
    /// exported policy: how far both are at lag 0.
    pub(super) gap: f64,
}

/// Samples the policy that the run in `dir` began with, and the one that it exported.
/// Fails when one of them cannot be read, or the engine fails.
pub(super) fn of(dir: &RunDir) -> anyhow::Result<Samples> {
    let run = founding::read(dir.path())?;
    let workload = &run.workload;
    let orders: Vec<WorkOrder> = (0..PROMPTS).map(|at| workload.order(Purpose::HeldOut, at)).collect();
    let answered = |policy: &Path| -> anyhow::Result<Vec<Vec<LocalAnswer>>> {
        let weights = Weights::load_dir(policy, &workload.model)?;
        let policy = Arc::new(Policy::load(0, &workload.model, &weights)?);
        Ok(answers(workload, policy, &orders, RESPONSES)?)
    };
    let (before, after) = (answered(&dir.start())?, answered(&dir.policy())?);
    let mut sequences = Vec::new();
    for (order, answers) in orders.iter().zip(&after) {
        let prompt = workload.prompt(order)?;
        let whole = |answer: &LocalAnswer| [prompt.as_slice(), answer.completion.tokens.as_slice()].concat();
        sequences.extend(answers.iter().map(whole));
    }
    let [training, generation] = scores(&workload.model, &dir.policy(), &sequences)?;
    let gap = mean_distance(&training, &generation).context("the exported policy answered nothing")?;
    let response = |answer: LocalAnswer| Response {
        text: workload.text(&answer.completion.tokens),
        reward: f64::from(answer.verdict.reward),
        finished: answer.finished,
    };
    let responses =
        |answers: Vec<LocalAnswer>| -> Vec<Response> { answers.into_iter().map(response).collect() };
    let samples = orders.iter().zip(before.into_iter().zip(after)).map(|(order, (before, after))| Sample {
        prompt: workload.assignment(order).prompt().text,
        before: responses(before),
        after: responses(after),
    });
    Ok(Samples { samples: samples.collect(), gap })
}

/// The mean distance of two lists of the same form; none of nothing.
fn mean_distance(one: &[Vec<f32>], other: &[Vec<f32>]) -> Option<f64> {
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    let distances: Vec<f64> = pairs.map(|(one, other)| f64::from((one - other).abs())).collect();
    (!distances.is_empty()).then(|| distances.iter().sum::<f64>() / distances.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_averaged_over_all_tokens() {
        assert_eq!(
            mean_distance(&[vec![-1.0, -2.0], vec![-3.0]], &[vec![-1.0, -2.5], vec![-2.0]]),
            Some(0.5)
        );
        assert_eq!(mean_distance(&[], &[]), None);
    }
}
