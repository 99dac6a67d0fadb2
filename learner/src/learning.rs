//! The learning thread: does what the controller says, one step after the other.

use crate::buffer::StoredGroup;
use crate::checkpoint::{CheckpointError, Checkpoints, State};
use crate::controller::{Controller, Step};
use crate::desk::DeskError;
use crate::evaluation::{EvaluationError, evaluate};
use crate::metrics::{EvaluationRow, Metrics, PublicationRow, UpdateRow, WeightRow};
use crate::optimizer::StepOutcome;
use crate::publisher::{PublishError, Publisher, dtype};
use crate::service::Shared;
use crate::trainer::{TrainError, Trainer, UpdateReport};
use echo_policy::error::DecoderError;
use echo_policy::weights::{DType, Weights};
use echo_protocol::manifest::Manifest;
use echo_protocol::signed::Signed;
use echo_protocol::version::PolicyVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Longest wait before the learning thread looks whether it has to stop.
const LOOK_UP_EVERY: Duration = Duration::from_millis(200);

/// Why learning stopped.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// Training.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The weights.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// Evaluation.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// Checkpoints.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Publication.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Leases and buffer.
    #[error(transparent)]
    Desk(#[from] DeskError),
    /// Metrics.
    #[error("metrics.jsonl: {0} (is the disk full?)")]
    Metrics(std::io::Error),
    /// Diverged.
    #[error(
        "the gradients were not finite for {0} updates in a row: lower [train.schedule] peak or max_grad_norm, and resume"
    )]
    Diverged(u32),
}

/// Updates in a row with gradients that are not finite, after which the run stops.
const MAX_SKIPPED: u32 = 20;

/// How the learning thread ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// All updates are made.
    Finished,
    /// It was asked to stop; `resume` goes on.
    Stopped,
}

/// Hands a stored snapshot and its signed manifest to the network, at the latest when its checkpoint lies where it is to lie.
pub type Announce = Box<dyn FnMut(Arc<Manifest>, Signed<Manifest>) + Send>;

/// Everything that the learning thread owns.
pub struct Learning {
    /// What to do next.
    pub controller: Controller,
    /// The policy.
    pub trainer: Trainer,
    /// Leases, buffer, fleet.
    pub shared: Arc<Shared>,
    /// Chunks and manifests.
    pub publisher: Publisher,
    /// Hands a snapshot to the network.
    pub announce: Announce,
    /// Where checkpoints go.
    pub checkpoints: Checkpoints,
    /// Drives what waits for the disk or the network.
    pub runtime: Handle,
    /// The newest evaluation.
    pub evaluated: Option<EvaluationRow>,
    /// Rows of updates and evaluations.
    pub metrics: Metrics,
    /// Held-out orders in an evaluation.
    pub evaluation_orders: u64,
    /// Set from outside to stop.
    pub stop: Arc<AtomicBool>,
    /// When the process started.
    pub started: Instant,
}

impl Learning {
    /// Goes on until the run is finished or stopped.
    pub fn run(mut self) -> Result<Ended, LearningError> {
        let mut skipped = 0;
        loop {
            let step = self.controller.next();
            tracing::debug!("next: {step:?}");
            match step {
                Step::Evaluate(version) => self.evaluate(version)?,
                Step::Checkpoint(version) => self.checkpoint(version)?,
                Step::Publish(version) => self.publish(version)?,
                Step::Update(version) => {
                    let Some((batch, waited)) = self.wait_for_batch(version)? else {
                        return Ok(Ended::Stopped);
                    };
                    let report = self.update(version, &batch, waited)?;
                    skipped = if report.step.outcome == StepOutcome::Skipped { skipped + 1 } else { 0 };
                    if skipped >= MAX_SKIPPED {
                        return Err(LearningError::Diverged(skipped));
                    }
                }
                Step::Finish(version) => {
                    self.shared.desk().close(version)?;
                    return Ok(Ended::Finished);
                }
            }
            self.controller.done(step);
        }
    }

    fn evaluate(&mut self, version: PolicyVersion) -> Result<(), LearningError> {
        let row =
            evaluate(&self.shared.workload, version, &self.weights(DType::F32)?, self.evaluation_orders)?;
        log_evaluation(&row);
        self.metrics.write(&row).map_err(LearningError::Metrics)?;
        self.evaluated = Some(row);
        Ok(())
    }

    fn checkpoint(&mut self, version: PolicyVersion) -> Result<(), LearningError> {
        let since = Instant::now();
        let optimizer = self.trainer.optimizer();
        let desk = self.shared.desk().state(version);
        let fleet = self.shared.fleet().view();
        let (run, evaluated) = (self.shared.workload.run, self.evaluated.clone());
        let state = State::new(run, version, evaluated, optimizer.updates(), desk, fleet);
        self.runtime.block_on(self.checkpoints.write(state, self.trainer.decoder(), optimizer))?;
        if let Some(oldest) = self.runtime.block_on(self.checkpoints.oldest())? {
            self.shared.desk().settle(oldest)?;
        }
        tracing::debug!("wrote the checkpoint of {version} in {:.0} ms", since.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }

    fn publish(&mut self, version: PolicyVersion) -> Result<(), LearningError> {
        let workload = &self.shared.workload;
        let tensors = self.trainer.decoder().tensors(dtype(workload.charter.snapshot_type));
        let publication = self.publisher.publish(workload, &self.shared.key, version, tensors)?;
        log_publication(&publication.row);
        self.metrics.write(&publication.row).map_err(LearningError::Metrics)?;
        // First: a node may deliver under this version before the announcement returns.
        self.shared.desk().published(version);
        (self.announce)(publication.manifest, publication.signed);
        Ok(())
    }

    /// The batch of `version` and the seconds that it was waited for; `None` when the run is to stop.
    fn wait_for_batch(
        &self,
        version: PolicyVersion,
    ) -> Result<Option<(Vec<StoredGroup>, f64)>, LearningError> {
        let since = Instant::now();
        let mut desk = self.shared.desk();
        desk.at(version);
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(batch) = desk.batch(version)? {
                return Ok(Some((batch, since.elapsed().as_secs_f64())));
            }
            desk = self.shared.wait_for_groups(desk, LOOK_UP_EVERY);
        }
        Ok(None)
    }

    fn update(
        &mut self,
        version: PolicyVersion,
        batch: &[StoredGroup],
        waited_s: f64,
    ) -> Result<UpdateReport, LearningError> {
        let since = Instant::now();
        let report = self.trainer.update(&self.shared.workload, batch)?;
        let mut row = row(version, batch, &report);
        (row.waited_s, row.update_s) = (waited_s, since.elapsed().as_secs_f64());
        row.elapsed_s = self.started.elapsed().as_secs_f64();
        self.describe_fleet(&mut row);
        tracing::info!(
            "update {} · reward {:.3} · accuracy {:.3} · KL {:.4} · waited {:.0} ms, updated {:.0} ms",
            row.update,
            row.reward,
            row.accuracy,
            row.kl,
            row.waited_s * 1e3,
            row.update_s * 1e3
        );
        self.metrics.write(&row).map_err(LearningError::Metrics)?;
        Ok(report)
    }

    fn describe_fleet(&self, row: &mut UpdateRow) {
        let fleet = self.shared.fleet();
        for version in fleet.members().values().filter_map(|m| m.heartbeat.installed) {
            *row.nodes.entry(version.0).or_default() += 1;
        }
        row.t_bcast_ms = [fleet.broadcast_ms(0.5), fleet.broadcast_ms(0.95)];
        row.rotten_peers = fleet.rotten_peers().map(|(peer, count)| (peer.to_string(), count)).collect();
        for standing in fleet.members().values().filter_map(|m| m.standing.name()) {
            *row.degraded.entry(standing.to_owned()).or_default() += 1;
        }
        drop(fleet);
        let desk = self.shared.desk();
        row.accepted = desk.tally().accepted;
        row.refused = desk.tally().refused.iter().map(|(reason, n)| (reason.name().to_owned(), *n)).collect();
    }

    fn weights(&self, dtype: DType) -> Result<Weights, DecoderError> {
        self.trainer.decoder().to_weights(dtype)
    }
}

fn log_evaluation(row: &EvaluationRow) {
    let (accuracy, orders) = (row.held_out_accuracy, row.orders);
    tracing::info!("evaluated v{} · held-out accuracy {accuracy:.3} over {orders} orders", row.evaluated);
}

fn log_publication(row: &PublicationRow) {
    tracing::info!(
        "wrote v{} · {} bytes full, {} as deltas · {} chunks unchanged, {} sparse, {} xor, {} full · {:.2} s",
        row.published,
        row.full_bytes,
        row.delta_bytes,
        row.unchanged,
        row.sparse,
        row.xor,
        row.full,
        row.publish_s
    );
}

/// The figures of an update that follow from its batch and report alone.
fn row(version: PolicyVersion, batch: &[StoredGroup], report: &UpdateReport) -> UpdateRow {
    let trajectories = || batch.iter().flat_map(|g| &g.group.trajectories);
    let responses = trajectories().count().max(1) as f64;
    let correct = batch.iter().flat_map(|g| &g.correct).filter(|c| **c).count();
    let mut staleness: BTreeMap<u64, u64> = BTreeMap::new();
    for span in trajectories().flat_map(|t| &t.versions) {
        *staleness.entry(version.lag_behind(span.version)).or_default() += u64::from(span.tokens);
    }
    let same =
        |g: &&StoredGroup| g.group.trajectories.windows(2).all(|pair| pair[0].reward == pair[1].reward);
    let (stats, step) = (&report.stats, &report.step);
    UpdateRow {
        update: version.next().0,
        reward: trajectories().map(|t| f64::from(t.reward)).sum::<f64>() / responses,
        accuracy: correct as f64 / responses,
        loss: report.loss,
        grad_norm: Some(step.gradient_norm).filter(|norm| norm.is_finite()),
        learning_rate: step.learning_rate,
        clip_shares: [stats.clip_share_low(), stats.clip_share_high()],
        clip_share: stats.clip_share(),
        weight: WeightRow {
            mean: stats.weight_mean(),
            max: stats.weight_max(),
            variance: stats.weight_variance(),
            ess: stats.ess(),
        },
        kl: stats.kl_k3(),
        kl_reference: stats.kl_reference(),
        echo_clips: stats.echo_clips(),
        entropy: stats.entropy().unwrap_or_default(),
        response_tokens: trajectories().map(|t| t.response.len()).sum::<usize>() as f64 / responses,
        degenerate_groups: batch.iter().filter(same).count() as f64 / batch.len().max(1) as f64,
        staleness,
        skipped: step.outcome == StepOutcome::Skipped,
        ..UpdateRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::updates;
    use crate::objective::ObjectiveStats;
    use crate::optimizer::StepReport;

    #[test]
    fn a_skipped_update_stays_in_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let step = StepReport {
            outcome: StepOutcome::Skipped,
            gradient_norm: f64::NAN,
            clip_scale: 1.0,
            learning_rate: 1e-3,
            updates: 4,
        };
        let report = UpdateReport { loss: 0.0, stats: ObjectiveStats::default(), step, steps: 1, skipped: 1 };
        let mut metrics = Metrics::open(&path, PolicyVersion(0)).unwrap();
        metrics.write(&row(PolicyVersion(4), &[], &report)).unwrap();
        let rows = updates(&path).unwrap();
        assert_eq!((rows.len(), rows[0].update, rows[0].skipped, rows[0].grad_norm), (1, 5, true, None));
    }
}
