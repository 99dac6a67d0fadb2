//! `echo-learner evaluate`: avg@k and pass@k of a model, or of a version of a run, on a set of rows.
//!
//! Rows go to a file as they are answered, and the same command goes on where it was interrupted:
//! [`journal`](crate::training::evaluation::journal).

use crate::commands::export::version;
use crate::commands::settings::SettingsArgs;
use crate::commands::sources;
use crate::common::workload::{Workload, dtype};
use crate::config::{EvaluationSet, Place, RunConfig, TaskEntry};
use crate::founding::{self, Beginning, begin, read_task_file};
use crate::publishing::checkpoint::Checkpoints;
use crate::storage::run_dir::RunDir;
use crate::training::evaluation::asking::Asked;
use crate::training::evaluation::options::{EvaluationSection, MAX_SAMPLES};
use crate::training::evaluation::sets::PreparedSet;
use crate::training::evaluation::summary::{EvaluationSummary, Progress};
use crate::training::trainer::weights_of;
use anyhow::{Context, bail, ensure};
use clap::Args;
use echo_policy::generation::DeviceChoice;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::time::UnixMillis;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// What a model that belongs to no run is opened with: its own tokenizer and chat template. The task only
/// stands there because a run has one.
const OF_NO_RUN: &str = r#"
task = "chain_sum"
[run]
name = "evaluation"
dir = "."
updates = 1
[model]
"#;

/// What is evaluated, and how.
#[derive(Args, Clone, Debug)]
pub struct EvaluatePlan {
    /// A Hugging Face directory, a name on the Hub as in hf:Qwen/Qwen3-0.6B, or the directory of a run.
    #[arg(value_name = "MODEL|DIR")]
    pub model: String,
    /// Of a run: the version to evaluate, which needs a checkpoint [default: the newest].
    #[arg(long, value_name = "N", value_parser = version)]
    pub version: Option<PolicyVersion>,
    /// Of a model: a run file whose [prompt] says how prompts are put; its model and tasks do not count.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Settings in place of that file's.
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// The rows that are asked, all of them. Tasks that make their prompts up need none.
    #[arg(long, value_name = "FILE")]
    pub data: Option<String>,
    /// The task that asks and judges.
    #[arg(long, default_value = "math")]
    pub task: String,
    /// A parameter of the task; may be given several times.
    #[arg(long = "param", value_name = "KEY=NUMBER", value_parser = param)]
    pub params: Vec<(String, i64)>,
    /// Responses to each row.
    #[arg(
        long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SAMPLES))
    )]
    pub samples: u32,
    /// Divides the logits; 0 takes the likeliest token always.
    #[arg(long, value_name = "T", default_value_t = 0.6)]
    pub temperature: f32,
    /// Nucleus mass; 1 is off.
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    pub top_p: f32,
    /// Most likely tokens kept; 0 is off.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: u32,
    /// Longest response in tokens [default: of a run, its own].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: Option<u32>,
    /// Only the first rows; of a task that makes its prompts up, how many.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// What is generated on: auto, cpu, cuda, cuda:NUMBER, wgpu, wgpu:NUMBER or wgpu:NAME.
    #[arg(long, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// What is computed in: f32, bf16, int8 or int4.
    #[arg(long, default_value_t = Precision::F32)]
    pub precision: Precision,
    /// The file of rows [default: evaluation-NAME.jsonl here, with a NAME of this model, set and settings].
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Decides every draw.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Keep what was written in the file of rows.
    #[arg(long)]
    pub keep_texts: bool,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// `digits=1`
pub(super) fn param(text: &str) -> Result<(String, i64), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=NUMBER")?;
    let value = value.parse().map_err(|_| format!("{value:?} is no whole number"))?;
    Ok((key.to_owned(), value))
}

/// What an evaluation came to.
#[derive(Debug)]
pub struct Evaluated {
    /// Where its rows are.
    pub file: PathBuf,
    /// The version that was evaluated; 0 of a model that belongs to no run.
    pub version: PolicyVersion,
    /// How many rows there are.
    pub rows: usize,
    /// What those come to that are answered; none where none is.
    pub summary: Option<EvaluationSummary>,
    /// How it ended.
    pub asked: Asked,
}

impl Evaluated {
    /// One line of JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut line = self.summary.as_ref().map(EvaluationSummary::named).unwrap_or_default();
        let unanswered = self.asked.unanswered.iter().map(|one| json!({"row": one.row, "why": one.why}));
        line.insert("file".to_owned(), json!(self.file.display().to_string()));
        line.insert("version".to_owned(), json!(self.version.0));
        line.insert("unanswered".to_owned(), Value::Array(unanswered.collect()));
        line.insert("passed".to_owned(), json!(self.is_whole()));
        line.into()
    }

    /// Whether every row has a result.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.figures.rows == self.rows)
    }

    /// What people read.
    #[must_use]
    pub fn text(&self) -> String {
        let table = self.summary.as_ref().map(EvaluationSummary::table).unwrap_or_default();
        let answered = self.summary.as_ref().map_or(0, |summary| summary.figures.rows);
        let mut text = format!("{table}file      {}\n", self.file.display());
        if !self.asked.finished {
            let rest = self.rows - answered;
            text += &format!("stopped; {rest} rows are not answered yet: the same command goes on\n");
        }
        if let Some(first) = self.asked.unanswered.first() {
            let count = self.asked.unanswered.len();
            text += &format!(
                "{count} rows have no result; the first of them is row {}: {}\n",
                first.row, first.why
            );
        }
        text
    }
}

/// Evaluates a model. It ends early when `stop` is cancelled.
///
/// # Errors
/// When model, data or file cannot be opened or do not go together, no device takes the model, or there are
/// settings of a run file that is not given.
pub fn evaluate(plan: &EvaluatePlan, stop: &CancellationToken) -> anyhow::Result<Evaluated> {
    let has_idle_settings = plan.config.is_none() && !plan.settings.settings.is_empty();
    ensure!(!has_idle_settings, "--set changes a run file, and no --config names one");
    let place = sources::local_model(Path::new(&plan.model))?;
    let (workload, version, weights) = match RunDir::new(&place).charter().exists() {
        true => of_run(&place, plan)?,
        false => of_model(&place, plan)?,
    };
    let set = set(plan, &workload)?;
    let file = match &plan.output {
        Some(file) => file.clone(),
        None => format!("evaluation-{}.jsonl", set.pinned(&workload, &weights).short_name()?).into(),
    };
    tracing::info!("{} rows, {} responses each · {}", set.rows(), plan.samples, file.display());
    let mut progress = Progress::begin(set.rows());
    let (summary, asked) = set.answer(&workload, (version, &weights), &file, stop, |journal, row| {
        if let Some(text) = progress.take(journal, row) {
            tracing::info!("{text}");
        }
    })?;
    Ok(Evaluated { file, version, rows: set.rows(), summary, asked })
}

fn set(plan: &EvaluatePlan, workload: &Workload) -> anyhow::Result<PreparedSet> {
    let file = plan.data.as_deref().map(|data| sources::local_data(Path::new(data))).transpose()?;
    let options = EvaluationSet {
        name: "evaluate".to_owned(),
        task: plan.task.clone(),
        samples: plan.samples,
        temperature: plan.temperature,
        top_p: plan.top_p,
        top_k: plan.top_k,
        every: 0,
        seed: plan.seed,
        keep_texts: plan.keep_texts,
        place: Place::Learner,
        device: plan.device.clone(),
        precision: plan.precision,
        max_new_tokens: Some(plan.max_new_tokens.unwrap_or(workload.charter.sampling.max_new_tokens)),
        limit: plan.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        data: file.clone(),
        params: plan.params.iter().cloned().collect(),
    };
    EvaluationSection { sets: vec![options.clone()], ..EvaluationSection::default() }.validate()?;
    let bytes = file.as_deref().map(|path| read_task_file(&plan.task, path)).transpose()?;
    Ok(PreparedSet::new(options, bytes)?)
}

/// A version of a run, which may be training meanwhile. Nothing in its directory is written or locked.
fn of_run(dir: &Path, plan: &EvaluatePlan) -> anyhow::Result<(Workload, PolicyVersion, Weights)> {
    ensure!(plan.config.is_none(), "--config is for models: a run has its own run file");
    let run = founding::read(dir)?;
    let checkpoints = Checkpoints::look(&run.dir, &run.config.checkpoints)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let found = runtime.block_on(checkpoints.newest_weights(plan.version, &run.workload.run))?;
    let Some((version, tensors)) = found else {
        match plan.version {
            Some(version) => bail!("{} has no checkpoint of {version}", dir.display()),
            None => bail!("{} has no checkpoint yet", dir.display()),
        }
    };
    let weights = weights_of(&run.workload.model, &tensors, dtype(run.workload.charter.snapshot_type))?;
    Ok((run.workload, version, weights))
}

/// A Hugging Face directory.
fn of_model(dir: &Path, plan: &EvaluatePlan) -> anyhow::Result<(Workload, PolicyVersion, Weights)> {
    ensure!(
        dir.join("config.json").exists(),
        "{} is neither a Hugging Face directory, as it has no config.json, nor the directory of a run",
        dir.display()
    );
    ensure!(plan.version.is_none(), "--version is for runs: {} is a model", dir.display());
    let longest = plan
        .max_new_tokens
        .context("--max-new-tokens N is needed: a model does not say how long responses may be")?;
    let config = match &plan.config {
        Some(file) => RunConfig::load_with(file, &plan.settings.settings)?,
        None => of_no_run()?,
    };
    let (workload, weights) = opened(dir, config, longest)?;
    Ok((workload, PolicyVersion(0), weights))
}

/// The settings of a model that belongs to no run.
pub(super) fn of_no_run() -> anyhow::Result<RunConfig> {
    Ok(toml::from_str(OF_NO_RUN)?)
}

/// A model with the prompts of `config`, and responses of up to so many tokens. Its task is not the one that
/// is asked.
pub(super) fn opened(dir: &Path, mut config: RunConfig, longest: u32) -> anyhow::Result<(Workload, Weights)> {
    (config.model.path, config.model.tiny) = (Some(dir.to_owned()), None);
    config.tasks = vec![TaskEntry::new("chain_sum")];
    (config.warmup, config.admission.audit) = (None, false);
    config.data.clear();
    // The prompts of this task are no measure of what fits: each row is looked at when it is asked.
    config.sampling.max_new_tokens = Some(1);
    let key = NodeKey::from_secret([0; 32]);
    let Beginning { mut workload, weights, .. } = begin(&config, &key, UnixMillis(0), |_, _| ())?;
    workload.charter.sampling.max_new_tokens = longest;
    Ok((workload, weights))
}

#[cfg(test)]
mod tests;
