//! What earlier processes of a run left, read before this one changes anything.

use crate::common::workload::dtype;
use crate::founding::Founded;
use crate::intake::admission::AdmissionTally;
use crate::publishing::checkpoint::{Checkpoint, CheckpointState, Checkpoints};
use crate::run::controller::{Controller, RunPlan};
use crate::run::restore_audit::republished;
use crate::storage::run_dir::RunDir;
use crate::telemetry::exporters::{Watch, WatchDraft};
use crate::telemetry::metrics;
use crate::telemetry::metrics::UpdateRow;
use crate::training::device;
use crate::training::evaluation::EvaluationRow;
use crate::training::trainer::Trainer;
use crate::verification::republished::Republished;
use anyhow::{anyhow, bail};
use candle_core::Device;
use echo_policy::model::weights::Weights;
use echo_protocol::run::version::PolicyVersion;
use std::path::Path;

/// What a learner goes on from: a checkpoint and the record of metrics, or the start of a run.
pub(crate) struct Past {
    /// Where checkpoints are read and written.
    pub(crate) checkpoints: Checkpoints,
    /// As it was at the checkpoint, or as the run begins.
    pub(crate) trainer: Trainer,
    /// Says what to do first.
    pub(crate) controller: Controller,
    /// Updates made at the checkpoint; 0 at the start of a run.
    pub(crate) version: PolicyVersion,
    /// `None` at the start of a run.
    pub(crate) state: Option<CheckpointState>,
    /// The newest evaluation up to the checkpoint.
    pub(crate) evaluated: Option<EvaluationRow>,
    /// What earlier processes counted, as far as it is on record.
    pub(crate) tally: AdmissionTally,
    /// The newest rows of updates, oldest first.
    pub(crate) updates: Vec<UpdateRow>,
    /// Versions that were published before and are made again.
    pub(crate) again: Republished,
}

impl Past {
    /// Reads it. The record of metrics is as it was until the draft is committed.
    /// Fails when something of it cannot be read, or the run has come further and has no checkpoint.
    pub(crate) async fn read(founded: &Founded) -> anyhow::Result<(Self, WatchDraft)> {
        let checkpoints = Checkpoints::open(&founded.dir, &founded.config.checkpoints)?;
        let found = newest(&checkpoints, founded).await?;
        let trainer = trainer(founded, found.as_ref())?;
        let state = found.map(|found| found.state);
        let plan = RunPlan {
            updates: founded.config.run.updates,
            staleness: founded.workload.charter.staleness,
            evaluate_every: founded.config.evaluation.every,
        };
        let version = state.as_ref().map(|state| state.version).unwrap_or_default();
        if version.0 > plan.updates {
            let (updates, file) = (plan.updates, founded.dir.config());
            tracing::warn!(
                "{} says updates = {updates}, and the run has come to {version}: it ends here",
                file.display()
            );
        }
        // The rows after the checkpoint are taken back later, when it is kept which versions
        // they say were published.
        let (draft, history) = Watch::read(&founded.dir, version, &founded.config.watch)?;
        let evaluated = last_evaluation(history.evaluations, state.as_ref());
        let controller = match &state {
            Some(_) => {
                let evaluated = evaluated.as_ref().map(|row| PolicyVersion(row.evaluated));
                Controller::resume(plan, version, evaluated)
            }
            None => Controller::new(plan),
        };
        let updates = history.updates;
        let tally = last_tally(&updates, state.as_ref());
        let announced = history.publications;
        let path = founded.dir.republished();
        let again = match &state {
            Some(state) => {
                republished(&path, &founded.workload, &checkpoints, state.version, &announced).await?
            }
            None => Republished::default(),
        };
        let past =
            Self { checkpoints, trainer, controller, version, state, evaluated, tally, updates, again };
        Ok((past, draft))
    }
}

/// The checkpoint to go on from; `None` at the start of a run.
async fn newest(checkpoints: &Checkpoints, founded: &Founded) -> anyhow::Result<Option<Checkpoint>> {
    let (newest, damaged) = checkpoints.newest(&founded.workload.run, &Device::Cpu).await?;
    damaged.iter().for_each(|error| tracing::warn!(%error, "passed over a checkpoint"));
    match &newest {
        Some(found) => tracing::info!("resuming from the checkpoint of {}", found.state.version),
        None if damaged.is_empty() => {
            refuse_to_begin_again(&founded.dir, founded.config.checkpoints.store.as_deref())?
        }
        None => {
            bail!("no checkpoint of {} is whole: restore one from a backup", founded.dir.path().display())
        }
    }
    Ok(newest)
}

/// Refuses to begin a run again that has come further: with the same name and key its orders and
/// versions would be given out twice.
fn refuse_to_begin_again(dir: &RunDir, store: Option<&str>) -> anyhow::Result<()> {
    match metrics::reached(&dir.metrics())? {
        Some(reached) => Err(no_checkpoint(dir, store, &dir.metrics(), &format!("come to {reached}"))),
        None => Ok(()),
    }
}

/// The trainer, as it was at a checkpoint or as a run begins.
fn trainer(founded: &Founded, checkpoint: Option<&Checkpoint>) -> anyhow::Result<Trainer> {
    let (model, train) = (&founded.workload.model, &founded.config.train);
    let start = || Weights::load_dir(&founded.dir.start(), model);
    let trainer = match checkpoint {
        Some(found) => Trainer::resume(model, &found.weights, &found.optimizer, train)?,
        None => Trainer::new(model, &start()?, train)?,
    };
    let trainer = trainer.publishing(dtype(founded.workload.charter.snapshot_type))?;
    let trainer = trainer.at_temperature(founded.workload.charter.sampling.temperature)?;
    let decoder = trainer.decoder();
    tracing::info!("training on {} in {}", device::name(decoder.device()), decoder.compute());
    let reference = train.objective.objective.needs_reference() || founded.config.watch.reference;
    Ok(if reference { trainer.with_reference(&start()?)? } else { trainer })
}

/// The newest evaluation up to the checkpoint: by the metrics, which may be lost, or
/// by the checkpoint itself.
fn last_evaluation(mut rows: Vec<EvaluationRow>, state: Option<&CheckpointState>) -> Option<EvaluationRow> {
    let state = state?;
    rows.extend(state.evaluated.clone());
    rows.retain(|row| row.evaluated <= state.version.0);
    rows.into_iter().max_by_key(|row| row.evaluated)
}

/// What the earlier processes of this run counted, as far as it is on record. What was accepted
/// since then, the coordinator finds in its store.
fn last_tally(rows: &[UpdateRow], state: Option<&CheckpointState>) -> AdmissionTally {
    let counted = state.map(|state| state.coordinator.tally.clone()).unwrap_or_default();
    let Some(row) = rows.last().filter(|row| row.accepted >= counted.accepted) else { return counted };
    let reasons = echo_protocol::work::submission::RefuseReason::ALL;
    let refused = reasons.into_iter().filter_map(|reason| Some((reason, *row.refused.get(reason.name())?)));
    AdmissionTally {
        accepted: row.accepted,
        refused: refused.collect(),
        looks: row.looks,
        ..AdmissionTally::default()
    }
}

/// What an operator has to know of a run that has done something, as `witness` says, and has no checkpoint.
pub(crate) fn no_checkpoint(dir: &RunDir, store: Option<&str>, witness: &Path, done: &str) -> anyhow::Error {
    let place = match store {
        Some(store) => format!("{store} ([checkpoints] store in {})", dir.config().display()),
        None => dir.checkpoints().display().to_string(),
    };
    // So that what was moved away can be moved back to where it was.
    let _ = std::fs::remove_dir(dir.checkpoints());
    anyhow!(
        "by {} this run has {done}, and there is no checkpoint in {place}: see whether that is the right place, or restore one from a \
         backup; to train anew, found another run",
        witness.display()
    )
}
