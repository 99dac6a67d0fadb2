//! What is wrong with a run, or probably meant otherwise, before it is founded. Nothing is written.
//!
//! ```text
//! examine ─> settings, outputs ─> tasks, their solutions ─> model, tokenizer, charter
//!     └─ of all that could be opened: lengths in tokens, memory, disk, rates, batches
//! ```
//!
//! Each step reports what it finds and leaves the others to go on. So all problems come together, and an
//! operator mends them at once.

use super::audit_memory::check_room;
use super::room::{self, BatchSize, DiskNeed, Memory, MemoryNeed};
use super::start::StartingPoint;
use super::tasks::Tasks;
use super::{ClaimedRunDir, PrepareError, claimable, run_file, sanity};
use crate::common::workload::lengths::{self, LongestRead};
use crate::common::workload::{Workload, WorkloadError};
use crate::config::RunConfig;
use crate::storage::run_dir::RunDir;
use crate::training::device::{BUILT_IN, TrainDevice};
use crate::training::evaluation;
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::program::clock;
use echo_protocol::program::error_chain::with_causes;
use echo_protocol::run::charter::Charter;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_sandbox::task::JudgedPart;
use serde::Serialize;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Everything that was found, each with its mend.
#[derive(Debug, Default)]
pub struct Examination {
    /// What keeps the run from being founded or trained.
    pub problems: Vec<String>,
    /// What an operator had better know.
    pub warnings: Vec<String>,
    /// What evaluations cannot measure; a learner that works on the run says it too.
    pub of_evaluation: Vec<String>,
    /// The run in numbers, where its tasks and its model could be opened.
    pub figures: Option<RunFigures>,
}

/// A run in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct RunFigures {
    /// Parameters of the policy.
    pub parameters: u64,
    /// Longest sequence of the model, in tokens.
    pub positions: usize,
    /// Prompts of rows that were counted; 0 where all tasks are procedural.
    pub prompts: usize,
    /// Tokens of the longest prompt; a bound where none was counted.
    pub longest_prompt: usize,
    /// Longest response, in tokens.
    pub max_new_tokens: u32,
    /// G: responses to a prompt.
    pub group_size: u32,
    /// Prompts of an update.
    pub groups_per_update: usize,
    /// The NVIDIA card that it trains on, by its number; none on the CPU.
    pub gpu: Option<usize>,
    /// Bytes of memory that training on the CPU takes.
    pub memory: MemoryNeed,
    /// Bytes of memory of this machine, where it says.
    pub machine: Option<Memory>,
    /// Bytes on the disk of the run directory.
    pub disk: DiskNeed,
    /// Free bytes there, where the system says.
    pub free_disk: Option<u64>,
    /// Bytes of a published version.
    pub publication: u64,
}

/// Examines a run of `config`, whose directory this process may have claimed. With `solutions`, all that the
/// tasks show are judged, which may take minutes.
#[must_use]
pub fn examine(config: &RunConfig, claim: Option<&ClaimedRunDir>, solutions: bool) -> Examination {
    examine_without(config, claim, solutions, &BTreeSet::new())
}

/// The same where the model, or files of tasks and evaluations, are known to be `absent`: nothing more is
/// said of them, and there are no figures.
#[must_use]
pub fn examine_without(
    config: &RunConfig,
    claim: Option<&ClaimedRunDir>,
    solutions: bool,
    absent: &BTreeSet<PathBuf>,
) -> Examination {
    let present = config.without(absent);
    let has_all_tasks = present.tasks.len() == config.tasks.len();
    let has_model = config.model.path.as_ref().is_none_or(|path| !absent.contains(path));
    let mut found = Examination::default();
    found.problems.extend(config.problems().iter().map(|problem| with_causes(problem)));
    found.take(run_file(&present));
    if claim.is_none() {
        found.take(claimable(config));
    }
    found.outputs(config);
    found.policy(config);
    let tasks = match present.tasks.is_empty() && !has_all_tasks {
        true => None,
        false => found.take(Tasks::read(&present)),
    };
    if let Some(tasks) = &tasks {
        found.tasks(config, tasks, solutions);
    }
    match tasks.filter(|_| has_all_tasks) {
        _ if !has_model => {}
        Some(tasks) if config.model.path.is_some() != config.model.tiny.is_some() => {
            found.founded(config, tasks);
        }
        // Whether the model could be used is reported all the same.
        None if config.model.tiny.is_none() => {
            found.take(config.model.path.as_deref().map(StartingPoint::at).transpose());
        }
        _ => {}
    }
    // Several steps may have met the same thing.
    let mut seen = BTreeSet::new();
    found.problems.retain(|problem| seen.insert(problem.clone()));
    found
}

impl Examination {
    fn take<T, E: Error>(&mut self, looked: Result<T, E>) -> Option<T> {
        looked.map_err(|error| self.problems.push(with_causes(&error))).ok()
    }

    /// Where the run will write.
    fn outputs(&mut self, config: &RunConfig) {
        let dir = &config.run.dir;
        let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        let there = absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        if !there.is_dir() {
            self.problems.push(format!("[run] dir = {dir:?}: {there:?} is a file; choose another directory"));
        } else if let Err(error) = tempfile::tempfile_in(there) {
            self.problems.push(format!(
                "[run] dir = {dir:?}: cannot write to {there:?}: {error}; choose another directory"
            ));
        }
    }

    /// A policy that lies where the run would put its own.
    fn policy(&mut self, config: &RunConfig) {
        let policy = RunDir::new(&config.run.dir).policy();
        if policy.exists() {
            self.problems.push(format!(
                "{} exists, and the run would put its own policy in its place: move it away, or choose another [run] dir",
                policy.display()
            ));
        }
    }

    /// What the tasks themselves say.
    fn tasks(&mut self, config: &RunConfig, tasks: &Tasks, solutions: bool) {
        for task in tasks.mix.tasks() {
            if solutions {
                self.take(task.try_solutions().map_err(PrepareError::from));
            }
            if config.warmup.is_some() && !task.knows_solutions() {
                self.take::<(), _>(Err(PrepareError::NoSolutions(task.name())));
            }
            self.warnings.extend(task.remarks().iter().cloned());
        }
        self.of_evaluation.extend(evaluation::warnings(&tasks.mix));
    }

    /// The run that would be founded.
    fn founded(&mut self, config: &RunConfig, mut tasks: Tasks) {
        let created = clock::wall();
        let Some(start) = self.take(StartingPoint::of(config, &tasks.mix, created)) else { return };
        tasks.mix = tasks.mix.judging(JudgedPart::from(&start.prompt));
        let Some(workload) = self.take(workload(config, &tasks, &start, created)) else { return };
        self.take(check_room(&config.admission, &workload));
        let read = lengths::of(&workload.mix, &workload.tokenizer);
        self.vocabulary(&workload, read.largest_id);
        let started = if config.warmup.is_some() { DType::F32 } else { start.weights.main_dtype() };
        self.sizes(config, &workload, &read, started);
        self.sanity(config, &workload, &start.weights);
    }

    /// Tokens that the model does not know.
    fn vocabulary(&mut self, workload: &Workload, token: u32) {
        let (tokens, vocabulary) = (workload.tokenizer.vocab_size(), workload.model.vocab_size);
        if tokens > vocabulary {
            self.warnings.push(format!(
                "the tokenizer has {tokens} tokens, and the model a vocabulary of {vocabulary}: see that both are of the same model"
            ));
        }
        if token as usize >= vocabulary {
            self.take::<(), _>(Err(WorkloadError::Vocabulary { token, vocabulary }));
        }
    }

    /// Lengths, memory and disk.
    fn sizes(&mut self, config: &RunConfig, workload: &Workload, read: &LongestRead, start: DType) {
        let (model, charter) = (&workload.model, &workload.charter);
        let (group, groups) = (charter.group_size as usize, config.train.groups_per_update);
        let batch = BatchSize {
            longest: read.read().saturating_add(charter.sampling.max_new_tokens as usize),
            group,
            responses: group.saturating_mul(groups),
        };
        let (memory, machine) = (MemoryNeed::of(config, model, batch), room::memory());
        let (disk, free_disk) = (DiskNeed::of(config, model, start), room::free_disk(&config.run.dir));
        // A graphics card has memory of its own, and what training takes there is not computed here.
        let gpu = gpu(config.train.device);
        let host = machine.filter(|_| gpu.is_none());
        let card = gpu.and_then(|number| Some((number, room::card_memory(number)?)));
        self.warnings.extend(card.and_then(|card| room::card_shortage(&memory, card)));
        let (problems, warnings) = room::shortages(config, (&memory, host), (&disk, free_disk));
        self.problems.extend(problems);
        self.warnings.extend(warnings);
        self.figures = Some(RunFigures {
            parameters: model.parameter_count(),
            positions: model.max_position_embeddings,
            prompts: read.counted,
            longest_prompt: read.prompt,
            max_new_tokens: charter.sampling.max_new_tokens,
            group_size: charter.group_size,
            groups_per_update: groups,
            gpu,
            memory,
            machine,
            disk,
            free_disk,
            publication: model.parameter_count() * charter.snapshot_type.bytes(),
        });
    }

    /// What is allowed and odd.
    fn sanity(&mut self, config: &RunConfig, workload: &Workload, weights: &Weights) {
        // None where a task makes its prompts up: it has as many as anybody wants.
        let rows: Option<usize> = workload.mix.tasks().map(|task| task.rows()).sum();
        self.warnings.extend(sanity::of_rate(config, workload.model.parameter_count()));
        self.warnings.extend(sanity::of_rounding(config, weights));
        self.warnings.extend(sanity::of_batch(config, rows));
        self.warnings.extend(sanity::of_length(config, workload));
        self.warnings.extend(sanity::of_precisions(config, workload));
    }
}

/// The NVIDIA card that a run trains on; none on the CPU.
fn gpu(device: TrainDevice) -> Option<usize> {
    match device {
        TrainDevice::Cpu => None,
        TrainDevice::Cuda(number) => Some(number),
        TrainDevice::Auto => (BUILT_IN != "cpu").then_some(0),
    }
}

/// The run as it would be founded, under a key that is nobody's.
fn workload(
    config: &RunConfig,
    tasks: &Tasks,
    start: &StartingPoint,
    created: UnixMillis,
) -> Result<Workload, PrepareError> {
    let key = NodeKey::from_secret([0; 32]);
    let charter = start.charter(config, tasks, &key, created)?;
    let (run, opened) = Charter::open(&Signed::sign(&charter, &key)?)?;
    let files = start.files.as_deref().unwrap_or(Path::new(""));
    Ok(Workload::open(run, opened, files, &tasks.files)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::config::{ModelSection, TaskEntry, WarmupSection};
    use crate::founding::{claim, found};
    use std::fs;

    #[test]
    fn a_sound_run_has_figures_and_nothing_is_written() {
        let home = tempfile::tempdir().unwrap();
        let mut config = testing::run_config(home.path().join("deep/run"));
        config.buffer.max_bytes = 16 << 20;
        let found = examine(&config, None, true);
        assert_eq!(found.problems, [""; 0]);
        let figures = found.figures.unwrap();
        assert_eq!((figures.group_size, figures.positions, figures.prompts), (16, 32, 0));
        assert_eq!(figures.publication, 2 * figures.parameters);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        assert!(claim(&config).is_ok(), "it can be founded");
        // The default rate is one for large models.
        assert!(found.warnings.iter().any(|warning| warning.contains("is low")), "{:?}", found.warnings);
    }

    #[test]
    fn all_problems_of_settings_outputs_tasks_and_model_come_together() {
        let home = tempfile::tempdir().unwrap();
        let mut config = testing::run_config(home.path().join("file/run"));
        fs::write(home.path().join("file"), "").unwrap();
        config.run.updates = 0;
        config.verify.n = 17;
        config.tasks = vec![TaskEntry::new("math")];
        config.data.insert("math".into(), home.path().join("rows.jsonl"));
        config.model = ModelSection { path: Some(home.path().join("no-model")), tiny: None, chat: None };
        let found = examine(&config, None, true).problems;
        for part in ["run.updates", "verify.n", "is a file", "rows.jsonl", "no-model"] {
            assert!(found.iter().any(|problem| problem.contains(part)), "{part}: {found:#?}");
        }
    }

    #[test]
    fn a_directory_with_a_run_is_named_before_anything_is_computed() {
        let home = tempfile::tempdir().unwrap();
        let config = testing::run_config(home.path().join("run"));
        let learner = claim(&config).unwrap();
        let busy = examine(&config, None, true).problems;
        assert!(busy.len() == 1 && busy[0].contains("another echo-learner"), "{busy:?}");
        drop(learner);
        drop(found(&config, |_, _| ()).unwrap());
        fs::create_dir(config.run.dir.join("policy")).unwrap();
        let other = RunDir::new(&config.run.dir).charter();
        let kept = fs::read(&other).unwrap();
        fs::remove_file(&other).unwrap();
        let exported = examine(&config, None, true).problems;
        assert!(exported.len() == 1 && exported[0].contains("its own policy in its place"), "{exported:?}");
        fs::remove_dir(config.run.dir.join("policy")).unwrap();
        fs::write(&other, kept).unwrap();
        let taken = examine(&config, None, true).problems;
        assert!(taken.len() == 1 && taken[0].contains("already holds a run"), "{taken:?}");
    }

    #[test]
    fn a_tokenizer_of_another_model_a_long_prompt_and_a_warm_up_without_solutions_are_named() {
        let home = tempfile::tempdir().unwrap();
        let rows = home.path().join("rows.jsonl");
        let mut config = testing::run_config(home.path().join("run"));
        let policy = found(&config, |_, _| ()).unwrap().dir.start();
        let tokenizer = policy.join("tokenizer.json");
        let whole = fs::read(&tokenizer).unwrap();
        let mut text: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        for id in text["model"]["vocab"].as_object_mut().unwrap().values_mut() {
            let old = id.as_u64().unwrap();
            *id = if old < 8 { old } else { old + 500 }.into();
        }
        fs::write(&tokenizer, text.to_string()).unwrap();
        config.run.dir = home.path().join("other");
        config.model = ModelSection { path: Some(policy), tiny: None, chat: None };
        let foreign = examine(&config, None, true).problems;
        assert!(foreign.len() == 1 && foreign[0].contains("do not belong together"), "{foreign:?}");
        fs::write(&tokenizer, whole).unwrap();
        assert_eq!(examine(&config, None, true).problems, [""; 0]);

        fs::write(&rows, format!(r#"{{"question": "{}?", "answer": "2"}}"#, "1".repeat(40))).unwrap();
        config.tasks = vec![TaskEntry::new("math")];
        config.data.insert("math".into(), rows.clone());
        let long = examine(&config, None, true).problems;
        assert!(long.len() == 1 && long[0].contains("tokens of prompt"), "{long:?}");
        fs::write(&rows, r#"{"question": "1+1?", "answer": "2"}"#).unwrap();
        let short = examine(&config, None, true);
        assert_eq!(short.problems, [""; 0]);
        assert_eq!(short.figures.map(|figures| (figures.prompts, figures.longest_prompt)), Some((1, 5)));
        assert!(short.warnings.iter().any(|warning| warning.contains("1 rows")), "{:?}", short.warnings);
        config.warmup =
            Some(WarmupSection { updates: 1, batch: 2, learning_rate: 1e-3, until_accuracy: None });
        assert_eq!(examine(&config, None, true).problems, [""; 0], "math shows its answers");
    }
}
