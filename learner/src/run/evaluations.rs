//! Sets of `[[evaluation]]` during a run: a thread of its own answers them, beside training.
//!
//! The learning thread hands over a copy of the published weights and goes on. The thread has the lowest
//! priority where the system lets a thread have one of its own. While a version is evaluated, at most one
//! more waits, the newest: an evaluation that takes longer than its period leaves versions out, and
//! training never waits for it. Only the end of a run does. What fails here is logged, and ends no run.

use crate::common::workload::Workload;
use crate::config::{EvaluationSection, EvaluationSet};
use crate::founding::read_task_file;
use crate::storage::run_dir::RunDir;
use crate::telemetry::metrics;
use crate::training::evaluation::asking::Unanswered;
use crate::training::evaluation::sets::{PreparedSet, SetRow};
use crate::training::evaluation::summary::Progress;
use anyhow::Context as _;
use echo_policy::generation::compute_aside;
use echo_policy::model::weights::Weights;
use echo_protocol::run::version::PolicyVersion;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the end of a run looks whether it is to stop waiting.
const LOOK_UP_EVERY: Duration = Duration::from_millis(200);

/// A version, and the sets that are due at it.
struct Job {
    version: PolicyVersion,
    weights: Weights,
    sets: Vec<usize>,
}

/// What both threads share.
#[derive(Default)]
struct Slot {
    /// The version that is evaluated next.
    waiting: Option<Job>,
    /// Whether one is being evaluated.
    busy: bool,
    /// There will be no more.
    closed: bool,
    /// Results that nobody has taken yet.
    rows: Vec<SetRow>,
}

/// The slot, and whom to wake when it changes.
type Shared = Arc<(Mutex<Slot>, Condvar)>;

/// The learning thread's end.
pub struct Evaluations {
    sets: Arc<Vec<PreparedSet>>,
    /// Names of sets and versions that are on record.
    known: BTreeSet<(String, u64)>,
    shared: Shared,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Evaluations {
    /// No sets at all.
    #[must_use]
    pub fn none() -> Self {
        let (sets, shared) = (Arc::new(Vec::new()), Shared::default());
        Self { sets, known: BTreeSet::new(), shared, stop: CancellationToken::new(), thread: None }
    }

    /// Starts the thread, if there are sets. `stop` ends what is under way between two tokens; the next
    /// process goes on from there.
    ///
    /// # Errors
    /// When the record of metrics cannot be read, or the system refuses a thread.
    pub fn start(
        sets: Vec<PreparedSet>,
        workload: Arc<Workload>,
        dir: &RunDir,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        if sets.is_empty() {
            return Ok(Self::none());
        }
        let mut known = BTreeSet::new();
        metrics::each_row(&dir.metrics(), |row: Value| {
            let version = row.get("evaluated").and_then(Value::as_u64);
            let names = row.get("evaluation").and_then(Value::as_object).into_iter().flatten();
            known.extend(names.filter_map(|(name, _)| Some((name.clone(), version?))));
        })?;
        for set in &sets {
            tracing::info!("evaluation {} has {} rows", set.options().name, set.rows());
        }
        let (sets, shared) = (Arc::new(sets), Shared::default());
        let worker = Worker {
            sets: sets.clone(),
            workload,
            dir: dir.evaluations(),
            shared: shared.clone(),
            stop: stop.clone(),
        };
        let thread = thread::Builder::new().name("evaluating".into()).spawn(move || worker.work())?;
        Ok(Self { sets, known, shared, stop, thread: Some(thread) })
    }

    /// Hands a version over if a set is due at it that is not on record. `weights` is asked for only then.
    ///
    /// # Errors
    /// Those of `weights`.
    pub fn offer<E>(
        &self,
        version: PolicyVersion,
        is_last: bool,
        weights: impl FnOnce() -> Result<Weights, E>,
    ) -> Result<(), E> {
        let is_due = |set: &PreparedSet| {
            let known = (set.options().name.clone(), version.0);
            set.is_due(version, is_last) && !self.known.contains(&known)
        };
        let due: Vec<usize> = (0..self.sets.len()).filter(|index| is_due(&self.sets[*index])).collect();
        if due.is_empty() {
            return Ok(());
        }
        let job = Job { version, weights: weights()?, sets: due };
        let (slot, changed) = &*self.shared;
        if let Some(passed) = slot.lock().waiting.replace(job) {
            tracing::warn!(
                "the evaluations of {} are left out: those of a version before are still under way. Give [[evaluation]] a larger every, \
                 fewer samples or a limit",
                passed.version
            );
        }
        changed.notify_all();
        Ok(())
    }

    /// What has been found since the last call.
    pub fn found(&self) -> Vec<SetRow> {
        std::mem::take(&mut self.shared.0.lock().rows)
    }

    /// Waits until nothing is under way, or the run is to stop.
    pub fn wait(&self) {
        let (slot, changed) = &*self.shared;
        let mut slot = slot.lock();
        if slot.is_at_work() {
            tracing::info!("waiting for the evaluations under way; Ctrl-C leaves them");
        }
        while slot.is_at_work() && !self.stop.is_cancelled() {
            let _ = changed.wait_for(&mut slot, LOOK_UP_EVERY);
        }
    }
}

impl Drop for Evaluations {
    fn drop(&mut self) {
        let (slot, changed) = &*self.shared;
        let mut slot = slot.lock();
        (slot.closed, slot.waiting) = (true, None);
        drop(slot);
        changed.notify_all();
        // Whoever drops it while something is under way does not want it any more.
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the evaluating thread panicked; this is a bug: please report the log above");
        }
    }
}

impl Slot {
    fn is_at_work(&self) -> bool {
        self.busy || self.waiting.is_some()
    }
}

/// Reads the file of each set and builds its task.
///
/// # Errors
/// The first set that cannot be read, by its name.
pub fn prepared(section: &EvaluationSection) -> anyhow::Result<Vec<PreparedSet>> {
    let prepare = |set: &EvaluationSet| {
        let at = || format!("[[evaluation]] {}", set.name);
        let file = set.data.as_deref().map(|path| read_task_file(&set.task, path)).transpose();
        PreparedSet::new(set.clone(), file.with_context(at)?).with_context(at)
    };
    section.sets.iter().map(prepare).collect()
}

/// The evaluating thread's end.
struct Worker {
    sets: Arc<Vec<PreparedSet>>,
    workload: Arc<Workload>,
    /// Where files of rows lie, in a directory for each set.
    dir: PathBuf,
    shared: Shared,
    stop: CancellationToken,
}

impl Worker {
    fn work(self) {
        give_way();
        while let Some(job) = self.next() {
            for index in &job.sets {
                if self.stop.is_cancelled() {
                    break;
                }
                let set = &self.sets[*index];
                let name = &set.options().name;
                match self.evaluate(set, job.version, &job.weights) {
                    Ok(Some(row)) => self.shared.0.lock().rows.push(row),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!("evaluation {name} of {} has no result: {error:#}", job.version);
                    }
                }
            }
            self.shared.0.lock().busy = false;
            self.shared.1.notify_all();
        }
    }

    fn next(&self) -> Option<Job> {
        let (slot, changed) = &*self.shared;
        let mut slot = slot.lock();
        loop {
            if slot.closed {
                return None;
            }
            if let Some(job) = slot.waiting.take() {
                slot.busy = true;
                return Some(job);
            }
            changed.wait(&mut slot);
        }
    }

    /// `None` when it was stopped, or nothing could be answered.
    fn evaluate(
        &self,
        set: &PreparedSet,
        version: PolicyVersion,
        weights: &Weights,
    ) -> anyhow::Result<Option<SetRow>> {
        let name = &set.options().name;
        let file = rows_file(&self.dir, name, version);
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))
            .with_context(|| file.display().to_string())?;
        let mut progress = Progress::begin(set.rows());
        let answered = set.answer(&self.workload, (version, weights), &file, &self.stop, |journal, row| {
            if let Some(text) = progress.take(journal, row) {
                tracing::info!("evaluation {name} of {version}: {text}");
            }
        });
        let (summary, asked) = answered?;
        if !asked.finished {
            return Ok(None);
        }
        if let Some(Unanswered { row, why }) = asked.unanswered.first() {
            let count = asked.unanswered.len();
            tracing::warn!(
                "evaluation {name} of {version}: {count} rows have no result, the first of them row {row}: {why}"
            );
        }
        let Some(summary) = summary else { return Ok(None) };
        tracing::info!("evaluation {name} of {version} · {}", summary.line());
        let evaluation = [(name.clone(), summary.named())].into();
        Ok(Some(SetRow { evaluated: version.0, evaluation }))
    }
}

/// Where the rows of a set are, at a version.
fn rows_file(dir: &Path, name: &str, version: PolicyVersion) -> PathBuf {
    dir.join(name).join(format!("{:012}.jsonl", version.0))
}

/// Gives the calling thread the lowest priority, and a team of its own to compute with, which inherits it.
fn give_way() {
    compute_aside();
    // Elsewhere the call would slow the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(19) {
        tracing::warn!(%error, "evaluations have the priority of training");
    }
}

#[cfg(test)]
mod tests;
