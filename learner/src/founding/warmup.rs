//! The supervised start: a policy that has seen the tasks' own solutions, so that reinforcement
//! finds something to reinforce.

use crate::common::workload::Workload;
use crate::config::{RunConfig, TrainSection, WarmupSection};
use crate::training::evaluation::{EvaluationError, answer};
use crate::training::lr_schedule::Schedule;
use crate::training::optimizer::Guard;
use crate::training::trainer::{TrainError, Trainer, example};
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::Purpose;
use tokio_util::sync::CancellationToken;

/// Updates between two looks at the accuracy, and orders answered at each.
const LOOK_EVERY: u64 = 10;
const LOOK_ORDERS: u64 = 256;

/// Why a warm-up failed.
#[derive(Debug, thiserror::Error)]
pub enum WarmupError {
    /// A supervised update failed or diverged.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A look at the accuracy.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
}

/// Trains `weights` on the tasks' solutions; `progress` hears of every update and its loss.
///
/// Deterministic: example i is warm-up order i, and none of them is ever a training or held-out order.
pub fn warm_up(
    workload: &Workload,
    config: &RunConfig,
    section: &WarmupSection,
    weights: &Weights,
    mut progress: impl FnMut(u64, f64),
) -> Result<Weights, WarmupError> {
    let warm = section.updates / 10;
    let schedule = Schedule::constant(section.learning_rate, warm);
    // The guard's bounds are set for reinforcement, whose norms are others.
    let train = TrainSection { schedule, guard: Guard::default(), ..config.train };
    let mut trainer = Trainer::new(&workload.model, weights, &train)?;
    let batch = section.batch as u64;
    for update in 0..section.updates {
        let examples = (update * batch..(update + 1) * batch).map(|counter| example(workload, counter));
        let loss = trainer.imitate(&examples.collect::<Result<Vec<_>, _>>()?)?;
        progress(update + 1, loss);
        if let Some(goal) = section.until_accuracy
            && (update + 1).is_multiple_of(LOOK_EVERY)
        {
            // Examples that no update has seen or will see; held-out orders are left for
            // the run's own evaluation.
            let first = section.updates * batch;
            let weights = trainer.decoder().to_weights(DType::F32).map_err(TrainError::from)?;
            let orders = first..first + LOOK_ORDERS;
            // Whoever stops a warm-up ends the process.
            let never = CancellationToken::new();
            let row = answer(workload, PolicyVersion(0), &weights, Purpose::WarmUp, orders, &never)?;
            if row.is_some_and(|row| row.held_out_accuracy.is_some_and(|accuracy| accuracy >= goal)) {
                break;
            }
        }
    }
    Ok(trainer.decoder().to_weights(DType::F32).map_err(TrainError::from)?)
}
