//! How good the policy is: on orders that it is never trained on, and on sets of rows as papers measure it.
//!
//! ```text
//! orders: evaluate ─> EvaluationRow, one response to each held-out order
//! sets:   questions ─> asking, on engine's device ─> journal: a row a line, resumable
//!                                                        └─> statistics ─> summary: avg@k, pass@k
//! ```

pub mod asking;
pub mod engine;
pub mod journal;
pub mod options;
pub mod questions;
pub mod sets;
pub mod statistics;
pub mod summary;

use crate::common::workload::Workload;
use crate::training::local_rollouts::{AnswerError, LocalAnswer, answers};
use echo_policy::generation::{EngineError, Policy};
use echo_policy::model::weights::Weights;
use echo_policy::training::decoder::DecoderError;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::{Purpose, WorkOrder};
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::Task;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Orders that are answered at once: bounds the engine's caches and logits.
const ORDERS_AT_ONCE: u64 = 256;

/// One evaluation on the held-out orders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRow {
    /// The version evaluated: updates that its weights have seen.
    pub evaluated: u64,
    /// Share of held-out orders answered right; none where no order could be judged.
    pub held_out_accuracy: Option<f64>,
    /// Mean reward on the held-out orders; none where no order could be judged.
    pub held_out_reward: Option<f64>,
    /// How many orders could be judged.
    pub orders: u64,
}

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The engine cannot load the policy.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The weights cannot be read from the trainer's device.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// Orders could not be answered, through no fault of their own.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

/// What an operator has to know of what evaluations measure: tasks whose file holds no row out.
pub fn warnings(mix: &TaskMix) -> Vec<String> {
    let trained_on = mix.tasks().filter(|task| task.held_out_rows() == Some(0));
    let warning = |task: &dyn Task| {
        format!(
            "task {} holds no row of its file out: evaluations ask what training asks, and their accuracy shows what was learned by heart. \
             Set held_out_percent, and give the file at least 100 / held_out_percent rows",
            task.name()
        )
    };
    trained_on.map(warning).collect()
}

/// Answers the first `orders` held-out orders, one response each, sampled at the run's own
/// settings, and counts the right ones. `None` when it was to stop before the last.
pub fn evaluate(
    workload: &Workload,
    version: PolicyVersion,
    weights: &Weights,
    orders: u64,
    stop: &CancellationToken,
) -> Result<Option<EvaluationRow>, EvaluationError> {
    evaluate_showing(workload, version, weights, orders, stop, |_, _| ())
}

/// As [`evaluate`]; `each` is shown the answers that could be judged, in order.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_showing(
    workload: &Workload,
    version: PolicyVersion,
    weights: &Weights,
    orders: u64,
    stop: &CancellationToken,
    each: impl FnMut(&WorkOrder, &LocalAnswer),
) -> Result<Option<EvaluationRow>, EvaluationError> {
    answer_showing(workload, version, weights, Purpose::HeldOut, 0..orders, stop, each)
}

/// Answers these orders of one purpose, and counts the right ones among those that can be judged. It may stop
/// after any [`ORDERS_AT_ONCE`] of them, and then has no result.
pub(crate) fn answer(
    workload: &Workload,
    version: PolicyVersion,
    weights: &Weights,
    purpose: Purpose,
    orders: Range<u64>,
    stop: &CancellationToken,
) -> Result<Option<EvaluationRow>, EvaluationError> {
    answer_showing(workload, version, weights, purpose, orders, stop, |_, _| ())
}

fn answer_showing(
    workload: &Workload,
    version: PolicyVersion,
    weights: &Weights,
    purpose: Purpose,
    orders: Range<u64>,
    stop: &CancellationToken,
    mut each: impl FnMut(&WorkOrder, &LocalAnswer),
) -> Result<Option<EvaluationRow>, EvaluationError> {
    let policy = Arc::new(Policy::load(version.0, &workload.model, weights)?);
    let (mut right, mut reward, mut answered) = (0u64, 0.0, 0u64);
    let mut first = orders.start;
    while first < orders.end {
        if stop.is_cancelled() {
            return Ok(None);
        }
        let last = (first + ORDERS_AT_ONCE).min(orders.end);
        let batch: Vec<_> = (first..last).map(|counter| workload.order(purpose, counter)).collect();
        for (order, answer) in answer_each(workload, &policy, &batch)? {
            each(order, &answer);
            answered += 1;
            right += u64::from(answer.verdict.correct);
            reward += f64::from(answer.verdict.reward);
        }
        first = last;
    }
    let share = |sum: f64| (answered > 0).then(|| sum / answered as f64);
    Ok(Some(EvaluationRow {
        evaluated: version.0,
        held_out_accuracy: share(right as f64),
        held_out_reward: share(reward),
        orders: answered,
    }))
}

/// One response to each order, without those that cannot be judged: one bad row of a data set must
/// not end a run.
fn answer_each<'o>(
    workload: &Workload,
    policy: &Arc<Policy>,
    orders: &'o [WorkOrder],
) -> Result<Vec<(&'o WorkOrder, LocalAnswer)>, EvaluationError> {
    match (answers(workload, policy.clone(), orders, 1), orders) {
        (Err(error), [order]) if error.is_of_order() => {
            tracing::warn!(order = %order.counter, %error, "left out of the evaluation");
            Ok(Vec::new())
        }
        (Err(error), _) if error.is_of_order() => {
            // Halves are answered again until the order is alone.
            let (first, second) = orders.split_at(orders.len() / 2);
            let mut answered = answer_each(workload, policy, first)?;
            answered.extend(answer_each(workload, policy, second)?);
            Ok(answered)
        }
        (answered, _) => {
            let of_order = |(order, answers): (&'o WorkOrder, Vec<LocalAnswer>)| {
                answers.into_iter().map(move |answer| (order, answer))
            };
            Ok(orders.iter().zip(answered?).flat_map(of_order).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;

    #[test]
    fn a_file_that_holds_nothing_out_is_told() {
        let row = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n";
        let warned = |workload: Workload| warnings(&workload.mix);
        let few = warned(testing::problems(row).0);
        assert!(few.len() == 1 && few[0].contains("held_out_percent"), "{few:?}");
        assert!(warned(testing::problems(&row.repeat(10)).0).is_empty());
        assert!(warned(testing::workload().0).is_empty(), "prompts of a procedural task do not repeat");
    }

    #[test]
    fn what_cannot_be_judged_is_left_out() {
        let (workload, weights) = testing::problems(
            "{\"question\": \"1+1?\", \"answer\": \"2\"}\n{\"question\": \"É?\", \"answer\": \"2\"}",
        );
        let has_tokens = |counter: &u64| workload.prompt(&workload.order(Purpose::HeldOut, *counter)).is_ok();
        let good = (0..20).filter(has_tokens).count() as u64;
        assert!(good > 2 && good < 18, "{good}");
        let (go_on, mut shown) = (CancellationToken::new(), Vec::new());
        let row = evaluate_showing(&workload, PolicyVersion(3), &weights, 20, &go_on, |order, _| {
            shown.push(order.counter.0);
        });
        assert_eq!(row.unwrap().unwrap().orders, good);
        assert_eq!(shown, (0..20).filter(has_tokens).collect::<Vec<_>>());
    }

    #[test]
    fn an_evaluation_that_is_to_stop_has_no_result() {
        let (workload, weights) = testing::workload();
        let stop = CancellationToken::new();
        let evaluated =
            || evaluate(&workload, PolicyVersion(3), &weights, ORDERS_AT_ONCE + 1, &stop).unwrap();
        assert_eq!(evaluated().unwrap().orders, ORDERS_AT_ONCE + 1);
        stop.cancel();
        assert!(evaluated().is_none());
    }

    #[test]
    fn an_evaluation_of_nothing_has_no_accuracy() {
        let (workload, weights) = testing::problems("{\"question\": \"É?\", \"answer\": \"2\"}");
        let go_on = CancellationToken::new();
        let row = evaluate(&workload, PolicyVersion(3), &weights, 2, &go_on).unwrap().unwrap();
        assert_eq!((row.orders, row.held_out_accuracy, row.held_out_reward), (0, None, None));
        let (workload, weights) = testing::workload();
        let row = evaluate(&workload, PolicyVersion(3), &weights, 2, &go_on).unwrap().unwrap();
        assert!(row.orders == 2 && row.held_out_accuracy.is_some() && row.held_out_reward.is_some());
    }
}
