//! How good the policy is on orders that it is never trained on.

use crate::answers::{AnswerError, answers};
use crate::metrics::EvaluationRow;
use crate::workload::Workload;
use echo_policy::engine::Policy;
use echo_policy::error::{DecoderError, EngineError};
use echo_policy::weights::Weights;
use echo_protocol::order::Purpose;
use echo_protocol::version::PolicyVersion;
use std::ops::Range;
use std::sync::Arc;

/// Orders that are answered at once: bounds the engine's caches and logits.
const ORDERS_AT_ONCE: u64 = 256;

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The weights.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// An order.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

/// Answers the first `orders` held-out orders, one response each, sampled at the run's own settings, and counts the right ones.
pub fn evaluate(
    workload: &Workload,
    version: PolicyVersion,
    weights: &Weights,
    orders: u64,
) -> Result<EvaluationRow, EvaluationError> {
    answer(workload, version, weights, Purpose::HeldOut, 0..orders)
}

/// Answers these orders of one purpose, and counts the right ones.
pub(crate) fn answer(
    workload: &Workload,
    version: PolicyVersion,
    weights: &Weights,
    purpose: Purpose,
    orders: Range<u64>,
) -> Result<EvaluationRow, EvaluationError> {
    let policy = Arc::new(Policy::load(version.0, &workload.model, weights)?);
    let (mut right, mut reward) = (0u64, 0.0);
    let mut first = orders.start;
    while first < orders.end {
        let last = (first + ORDERS_AT_ONCE).min(orders.end);
        let batch: Vec<_> = (first..last).map(|counter| workload.order(purpose, counter)).collect();
        for answer in answers(workload, policy.clone(), &batch, 1)?.iter().flatten() {
            right += u64::from(answer.verdict.correct);
            reward += f64::from(answer.verdict.reward);
        }
        first = last;
    }
    let orders = orders.end - orders.start;
    let share = |sum: f64| sum / orders.max(1) as f64;
    Ok(EvaluationRow {
        evaluated: version.0,
        held_out_accuracy: share(right as f64),
        held_out_reward: share(reward),
        orders,
    })
}
