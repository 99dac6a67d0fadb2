//! The learning thread: does what the controller says, one step after the other.

mod barren;
mod named;
mod progress;
mod row;
mod waiting;

use crate::common::paced_log;
use crate::common::workload::dtype;
use crate::intake::buffer::StoredGroup;
use crate::intake::coordinator::CoordinatorError;
use crate::intake::filter::Starvation;
use crate::publishing::checkpoint::CheckpointState;
use crate::publishing::snapshots::PublicationRow;
use crate::run::controller::{Controller, RunStep};
use crate::run::evaluations::Evaluations;
use crate::run::release::{ReleaseError, Releases};
use crate::server::SharedState;
use crate::telemetry::exporters::Watch;
use crate::telemetry::metrics::UpdateRow;
use crate::telemetry::samples::{Sample, Samples};
use crate::telemetry::warnings::Warnings;
use crate::training::evaluation::{EvaluationError, EvaluationRow, evaluate_showing};
use crate::training::optimizer::SkipCause;
use crate::training::trainer::{TrainError, Trainer, UpdateReport};
use crate::verification::sampling_audit::SamplingAudit;
use barren::is_barren;
use echo_policy::model::weights::{DType, Weights};
use echo_policy::training::decoder::DecoderError;
use echo_protocol::program::{clock, lab_pace};
use echo_protocol::run::version::PolicyVersion;
use named::Named;
use progress::Pace;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use waiting::{Hands, Waiting};

/// Longest wait before the learning thread looks whether it has to stop.
const LOOK_UP_EVERY: Duration = Duration::from_millis(200);

/// Why the learning thread ended before the run's last update.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// An update cannot be made from its batch.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The weights cannot be read from the device.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// Held-out orders could not be answered.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// A version could not be checkpointed or published.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// A batch could not be formed or settled, as the store failed.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    /// `metrics.jsonl` cannot be written; it is the run's record, so the run ends.
    #[error("metrics.jsonl: {0} (is the disk full?)")]
    Metrics(std::io::Error),
    /// Diverged: nothing of it was written or published, and a resumed run goes on
    /// from the checkpoint before.
    #[error(
        "the weights of {0} are not finite: the policy has diverged. Nobody has seen this version. Lower [train.schedule] peak, and \
         `echo-learner resume`: the run goes on from its last checkpoint"
    )]
    NotFinite(PolicyVersion),
    /// Too many updates in a row made no step (`[train] max_skipped`).
    #[error("no step was made for {updates} updates in a row: {cause}")]
    Diverged {
        /// Updates without a step.
        updates: u32,
        /// Why the last one made none.
        cause: SkipCause,
    },
}

/// How the learning thread ended.
#[derive(Debug, PartialEq, Eq)]
pub enum TrainingEnd {
    /// All updates are made.
    Finished,
    /// It was asked to stop; `resume` goes on.
    Stopped,
}

/// Everything that the learning thread owns.
pub struct Learning {
    /// What to do next.
    pub controller: Controller,
    /// The policy, with optimizer and objective.
    pub trainer: Trainer,
    /// What it shares with the network's side: leases, buffer, fleet.
    pub shared: Arc<SharedState>,
    /// Hands versions to the releasing thread.
    pub releases: Releases,
    /// The newest evaluation; `None` before the first.
    pub evaluated: Option<EvaluationRow>,
    /// Rows of updates, evaluations and publications.
    pub watch: Watch,
    /// What the policy writes.
    pub samples: Arc<Samples>,
    /// FLOP/s that the machine can do at most, where the operator says so.
    pub peak_flops: Option<f64>,
    /// Updates in a row without a step, after which the run stops.
    pub max_skipped: u32,
    /// Held-out orders in an evaluation.
    pub evaluation_orders: u64,
    /// Sets that are evaluated beside training.
    pub evaluations: Evaluations,
    /// Cancelled from outside to stop.
    pub stop: CancellationToken,
    /// When the process started.
    pub started: Instant,
}

/// Seconds of what was done since the last update ended, at `since`.
struct Phases {
    since: Instant,
    checkpoint_s: f64,
    publication_s: f64,
    evaluation_s: f64,
    waited_s: f64,
}

impl Phases {
    fn begin(since: Instant) -> Self {
        Self { since, checkpoint_s: 0.0, publication_s: 0.0, evaluation_s: 0.0, waited_s: 0.0 }
    }
}

/// Adds to `seconds` what `work` takes.
fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let done = work();
    *seconds += since.elapsed().as_secs_f64();
    done
}

impl Learning {
    /// Goes on until the run is finished or stopped. Nothing is under way when it returns.
    pub fn run(mut self) -> Result<TrainingEnd, LearningError> {
        let ended = self.go_on();
        if ended.is_err() {
            // A store that is out of reach must not keep the error from being seen.
            self.stop.cancel();
        }
        let finished = self.releases.finish();
        self.samples.finish();
        let recorded = self.record(finished);
        let ended = ended?;
        recorded?;
        Ok(ended)
    }

    /// Writes the rows of what has been published, whatever became of the rest.
    fn record(&mut self, released: Result<(), ReleaseError>) -> Result<(), LearningError> {
        for row in self.releases.published() {
            log_publication(&row);
            self.watch.write(&row).map_err(LearningError::Metrics)?;
        }
        Ok(released?)
    }

    /// Writes the rows of sets that were evaluated meanwhile.
    fn record_evaluations(&mut self) -> Result<(), LearningError> {
        self.evaluations
            .found()
            .iter()
            .try_for_each(|row| self.watch.write(row))
            .map_err(LearningError::Metrics)
    }

    /// Hands the policy of a version to the sets that are due at it.
    fn offer(&self, version: PolicyVersion) -> Result<(), LearningError> {
        let published = dtype(self.shared.workload.charter.snapshot_type);
        let weights = || self.weights(published);
        Ok(self.evaluations.offer(version, self.controller.is_last(version), weights)?)
    }

    fn look_at_releases(&mut self) -> Result<(), LearningError> {
        let looked = self.releases.look();
        self.record(looked)
    }

    fn wait_for_releases(&mut self) -> Result<(), LearningError> {
        let waited = self.releases.wait();
        self.record(waited)
    }

    fn go_on(&mut self) -> Result<TrainingEnd, LearningError> {
        let (mut skipped, mut phases) = (0, Phases::begin(Instant::now()));
        let (mut named, mut pace) = (Named::default(), Pace::default());
        let mut warnings = Warnings::new(self.shared.workload.charter.sampling.max_new_tokens);
        loop {
            self.look_at_releases()?;
            self.record_evaluations()?;
            let step = self.controller.next();
            tracing::debug!("next: {step:?}");
            match step {
                RunStep::Evaluate(version) => {
                    if !timed(&mut phases.evaluation_s, || self.evaluate(version))? {
                        return Ok(TrainingEnd::Stopped);
                    }
                }
                RunStep::Checkpoint(version) => timed(&mut phases.checkpoint_s, || self.checkpoint(version))?,
                RunStep::Publish(version) => timed(&mut phases.publication_s, || self.publish(version))?,
                RunStep::Update(version) => {
                    timed(&mut phases.evaluation_s, || self.offer(version))?;
                    let Some((batch, waited_s)) = self.wait_for_batch(version)? else {
                        return Ok(TrainingEnd::Stopped);
                    };
                    phases.waited_s = waited_s;
                    let (report, row, ended) = self.update(version, &batch, &phases, &mut pace)?;
                    phases = Phases::begin(ended);
                    named.warn(ended, row.update, &report.bounded);
                    let barren = is_barren(self.trainer.group_by(), &batch);
                    warnings.look(&row, barren).iter().for_each(|text| tracing::warn!("{text}"));
                    self.show(row.update, &batch);
                    skipped = report.all_skipped().map_or(0, |_| skipped + 1);
                    if let Some(cause) = report.all_skipped() {
                        // No other batch would help weights that give no numbers.
                        let most = if cause == SkipCause::Logp { 1 } else { self.max_skipped };
                        if skipped >= most {
                            return Err(LearningError::Diverged { updates: skipped, cause });
                        }
                    }
                }
                RunStep::Finish(version) => {
                    self.offer(version)?;
                    self.wait_for_releases()?;
                    self.shared.coordinator().close()?;
                    self.evaluations.wait();
                    self.record_evaluations()?;
                    return Ok(TrainingEnd::Finished);
                }
            }
            self.controller.done(step);
        }
    }

    /// Evaluates a version. False when the run is to stop: a resumed run evaluates it again.
    fn evaluate(&mut self, version: PolicyVersion) -> Result<bool, LearningError> {
        let (weights, orders) = (self.weights(DType::F32)?, self.evaluation_orders);
        // Of a large model it takes minutes, in which nothing else is said.
        tracing::info!("evaluating {version} on {orders} held-out orders; training goes on after that");
        let (workload, most, mut shown) = (&self.shared.workload, self.samples.answers(), Vec::new());
        let row = evaluate_showing(workload, version, &weights, orders, &self.stop, |order, answer| {
            if shown.len() < most {
                shown.push((order.clone(), answer.clone()));
            }
        })?;
        let Some(row) = row else { return Ok(false) };
        log_evaluation(&row);
        self.watch.write(&row).map_err(LearningError::Metrics)?;
        self.evaluated = Some(row);
        let workload = self.shared.workload.clone();
        self.samples.offer(move || {
            let shown = shown.into_iter();
            shown
                .map(|(order, answer)| Sample::of_answers(&workload, version, &order, vec![answer]))
                .collect()
        });
        Ok(true)
    }

    /// Has some groups of the batch shown that `update` was made of.
    fn show(&self, update: u64, batch: &[StoredGroup]) {
        let chosen: Vec<StoredGroup> =
            self.samples.chosen(update, batch.len()).map(|index| batch[index].clone()).collect();
        if !chosen.is_empty() {
            let workload = self.shared.workload.clone();
            self.samples.offer(move || {
                chosen.iter().map(|stored| Sample::of_group(&workload, update, stored)).collect()
            });
        }
    }

    fn checkpoint(&mut self, version: PolicyVersion) -> Result<(), LearningError> {
        if !self.trainer.is_finite()? {
            return Err(LearningError::NotFinite(version));
        }
        // Before leases and fleet are looked at: a slow disk or store may take long.
        if self.controller.is_last(version) {
            self.releases.leave();
        }
        self.wait_for_releases()?;
        let updates = self.trainer.optimizer().updates();
        let coordinator = self.shared.coordinator().state(version);
        let fleet = self.shared.fleet().view();
        let (run, evaluated) = (self.shared.workload.run, self.evaluated.clone());
        let capacity = self.shared.capacity().state();
        let state = CheckpointState::new(run, version, evaluated, updates, coordinator, fleet, capacity);
        Ok(self.releases.checkpoint(state, &self.trainer)?)
    }

    fn publish(&mut self, version: PolicyVersion) -> Result<(), LearningError> {
        // Groups under this version are taken from now on: an evaluation may lie between this
        // and the next update.
        self.shared.at(version);
        Ok(self.releases.publish(version, &self.trainer)?)
    }

    /// The batch of `version` and the seconds that it was waited for; `None` when the run is to stop.
    fn wait_for_batch(
        &mut self,
        version: PolicyVersion,
    ) -> Result<Option<(Vec<StoredGroup>, f64)>, LearningError> {
        let shared = self.shared.clone();
        shared.at(version);
        let mut coordinator = shared.coordinator();
        let mut starvation = Starvation::new(coordinator.filtered(), coordinator.groups_per_update());
        let mut waiting = Waiting::new(version, &coordinator);
        let since = Instant::now();
        while !self.stop.is_cancelled() {
            // What it takes to form the batch, once its groups are there, is no wait.
            let waited = since.elapsed().as_secs_f64();
            if let Some(batch) = coordinator.batch(clock::now(), version)? {
                let (filtered, groups) = (coordinator.filtered(), coordinator.groups_per_update() as u64);
                shared.capacity().goes_on(filtered, groups);
                return Ok(Some((batch, waited)));
            }
            shared.capacity().waits(clock::now());
            if let Some(dropped) = starvation.look(coordinator.filtered()) {
                tracing::warn!(
                    "[train.filter] has dropped {dropped} groups since this batch was begun: the policy answers nearly all \
                     orders right, or nearly none. Lengthen [warmup] or change the task; or widen pass_rate, or set dynamic = false"
                );
            }
            shared.wait_for_groups(coordinator, LOOK_UP_EVERY);
            // What could not be released would be waited for in vain.
            self.look_at_releases()?;
            let waited = since.elapsed();
            if waiting.is_due(waited) {
                let hands = Hands::of(&shared.fleet(), &shared.workload.charter.staleness, version);
                tracing::info!("{}", waiting.text(waited, &shared.coordinator(), hands));
            }
            coordinator = shared.coordinator();
        }
        Ok(None)
    }

    /// Makes an update and its row. Returns both, and the instant up to which the row counts, at
    /// which the next period begins.
    fn update(
        &mut self,
        version: PolicyVersion,
        batch: &[StoredGroup],
        phases: &Phases,
        pace: &mut Pace,
    ) -> Result<(UpdateReport, UpdateRow, Instant), LearningError> {
        let mut update_s = 0.0;
        let report = timed(&mut update_s, || {
            let begun = Instant::now();
            let report = self.trainer.update(&self.shared.workload, batch);
            if let Some(time) = lab_pace::update() {
                std::thread::sleep(time.saturating_sub(begun.elapsed()));
            }
            report
        })?;
        self.shared.capacity().updated(clock::now(), update_s);
        let Phases { since, checkpoint_s, publication_s, evaluation_s, waited_s } = *phases;
        let ended = Instant::now();
        let period_s = ended.duration_since(since).as_secs_f64();
        let flops = report.effort.flops(&self.shared.workload.model);
        let updates = self.controller.last().0;
        let mut row = UpdateRow {
            elapsed_s: ended.duration_since(self.started).as_secs_f64(),
            tokens_per_s: report.effort.trained.tokens as f64 / update_s,
            flops,
            mfu: self.peak_flops.map(|peak| flops / update_s / peak),
            waited_s,
            update_s,
            checkpoint_s,
            publication_s,
            evaluation_s,
            period_s,
            bubble_ratio: waited_s / period_s,
            response_tokens_per_s: row::response_tokens(batch) as f64 / period_s,
            // An evaluation comes once in many updates, and the first one takes longer than these.
            eta_s: Some(pace.eta_s(version.next().0, updates, period_s - evaluation_s)),
            ..row::of(version, batch, &report)
        };
        self.describe_fleet(&mut row);
        let held_out = self.evaluated.as_ref().and_then(|row| row.held_out_accuracy);
        paced_log::line("update", &progress::line(&row, updates, held_out));
        if let Some(cause) = report.skip_cause {
            let (skipped, steps) = (report.skipped, report.steps);
            tracing::warn!("update {}: skipped {skipped} of {steps} steps: {cause}", row.update);
        }
        self.watch.write(&row).map_err(LearningError::Metrics)?;
        Ok((report, row, ended))
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
        row.capacity = self.shared.capacity().report();
        row.unaudited = self.shared.audit.as_ref().map_or(0, SamplingAudit::unaudited);
        let coordinator = self.shared.coordinator();
        row.accepted = coordinator.tally().accepted;
        row.refused =
            coordinator.tally().refused.iter().map(|(reason, n)| (reason.name().to_owned(), *n)).collect();
        row::describe_work(row, &coordinator);
        row.looks = coordinator.tally().looks;
        let dropped = coordinator.totals().dropped.iter();
        row.dropped = dropped.map(|(reason, count)| (reason.name().to_owned(), count.groups)).collect();
    }

    fn weights(&self, dtype: DType) -> Result<Weights, DecoderError> {
        self.trainer.decoder().to_weights(dtype)
    }
}

fn log_evaluation(row: &EvaluationRow) {
    match row.held_out_accuracy {
        Some(accuracy) => tracing::info!(
            "evaluated v{} · held-out accuracy {accuracy:.3} over {} orders",
            row.evaluated,
            row.orders
        ),
        None => tracing::warn!(
            "evaluated v{}: no held-out order could be judged, so its accuracy is unknown; the warnings above say why",
            row.evaluated
        ),
    }
}

fn log_publication(row: &PublicationRow) {
    let text = format!(
        "wrote v{} · {} bytes full, {} as deltas · {} chunks unchanged, {} sparse, {} xor, {} full · {:.2} s of {:.2} s since its update",
        row.published,
        row.full_bytes,
        row.delta_bytes,
        row.unchanged,
        row.sparse,
        row.xor,
        row.full,
        row.publish_s,
        row.release_s
    );
    paced_log::line("publication", &text);
}

#[cfg(test)]
pub(crate) mod tests;
