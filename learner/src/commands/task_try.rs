//! `echo-learner task try`: what a task asks, what it reads of a response, and what is wrong with its rows,
//! before there is a run.
//!
//! ```text
//! rows: file ─> as nodes get it ─> the task over all rows; wrong and dead ones by their numbers
//!   ├─ prompts     as they are, or as the model's tokenizer and template put them
//!   ├─ solutions   tried: each an episode, as a node plays it
//!   └─ judged      a response of a file, or of a model on the engine of nodes
//! report: for people, or as JSON
//! ```

mod judged;
mod report;
mod rows;
mod solutions;

use crate::commands::check::Unsound;
use crate::commands::evaluate::{of_no_run, opened, param};
use crate::commands::run_file::AnyRunFile;
use crate::commands::sources;
use crate::common::workload::Workload;
use crate::config::{RunConfig, TaskEntry};
use crate::founding::prompting;
use crate::storage::hub::is_hub_name;
use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use echo_policy::generation::DeviceChoice;
use echo_policy::model::weights::Weights;
use echo_policy::text::tokenizer::Tokenizer;
use echo_protocol::program::clock;
use echo_protocol::program::output::print;
use echo_sandbox::task::JudgedPart;
use echo_sandbox::tasks::registry::{from_files, procedural};
use report::{ShownPrompt, TaskReport};
use rows::{Asked, TriedTask};
use serde_json::json;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Longest response of a model in tokens where nobody says.
const RESPONSE_TOKENS: u32 = 256;
/// Prompts at whose solutions a task is tried that makes its prompts up.
const TRIED_PROMPTS: usize = 64;
/// Longest response that is read from a file, in bytes.
const MAX_RESPONSE_BYTES: u64 = 16 << 20;

/// What is done with a task.
#[derive(Clone, Debug, Subcommand)]
pub enum TaskCommand {
    /// Look at a task's rows and prompts, and see what responses to them earn, without a run.
    ///
    /// Prints how many rows there are, which of them are wrong and on which no answer could earn, and the
    /// first prompts. With a model, prompts are shown as it sees them, and it answers one of them. Responses
    /// are judged as on a node, so what a model thinks before its answer does not count. Ends with code 2 if
    /// rows or solutions are wrong.
    #[command(after_help = EXAMPLES)]
    Try(Box<TryPlan>),
}

const EXAMPLES: &str = "\
Examples, from easy to thorough:
  echo-learner task try --task math --data rows.jsonl
                            rows, and the first prompts
  echo 'So it is \\boxed{5}.' | echo-learner task try --task math --data rows.jsonl --row 2 --response -
                            what a response to row 2 earns, and why
  echo-learner task try --task code --data programs.jsonl --solutions
                            judge the solution of every row
  echo-learner task try --task math --data rows.jsonl --model hf:Qwen/Qwen3-0.6B --max-new-tokens 512
                            the prompt as the model sees it, and two of its responses
  echo-learner task try run.toml --solutions
                            all tasks of a run file, with its [prompt]";

/// What is tried.
#[derive(Args, Clone, Debug)]
pub struct TryPlan {
    /// A run file whose tasks are tried, as its [prompt] puts them.
    #[command(flatten)]
    pub config: AnyRunFile,
    /// The task; of a run file, all its tasks where this is left out.
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// The file that the task is made of.
    #[arg(long, value_name = "FILE|hf:NAME")]
    pub data: Option<String>,
    /// A parameter of the task; may be given several times.
    #[arg(long = "param", value_name = "KEY=NUMBER", value_parser = param)]
    pub params: Vec<(String, i64)>,
    /// Judge the response in this file, `-` for standard input.
    #[arg(long, value_name = "FILE|-")]
    pub response: Option<PathBuf>,
    /// The row that is answered, and the first that is shown, by its number in the file
    /// [default: the first that can be used].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub row: Option<u32>,
    /// Prompts that are shown.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rows: u32,
    /// Show prompts as this model sees them, and let it answer one.
    #[arg(long, value_name = "DIR|hf:NAME")]
    pub model: Option<String>,
    /// Responses of the model; 0: only show prompts, without reading its weights.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub samples: u32,
    /// Longest response of the model in tokens [default: the run file's, or 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_new_tokens: Option<u32>,
    /// Divides the model's logits [default: the run file's, or 1].
    #[arg(long, value_name = "T")]
    pub temperature: Option<f32>,
    /// What the model generates on: auto, cpu, cuda, cuda:NUMBER, wgpu, wgpu:NUMBER or wgpu:NAME.
    #[arg(long, default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// Try the solution of every row.
    #[arg(long)]
    pub solutions: bool,
    /// Print one line of JSON: `passed`, and what was found of each task.
    #[arg(long)]
    pub json: bool,
}

/// Tries the task of `plan`, and prints what was found.
///
/// # Errors
/// [`Unsound`] when rows or solutions are wrong; or what keeps the task from being tried at all.
pub fn run(command: &TaskCommand) -> anyhow::Result<()> {
    let TaskCommand::Try(plan) = command;
    let reports = tried(plan)?;
    let problems: usize = reports.iter().map(TaskReport::problems).sum();
    let text = match plan.json {
        true => format!("{}\n", json!({"passed": problems == 0, "problems": problems, "tasks": reports})),
        false => reports.iter().map(TaskReport::text).collect(),
    };
    print(&text)?;
    if problems == 0 { Ok(()) } else { Err(Unsound(problems).into()) }
}

/// What is found of each task.
fn tried(plan: &TryPlan) -> anyhow::Result<Vec<TaskReport>> {
    let (config, entries) = read(plan)?;
    let prompting = Prompting::open(plan, &config)?;
    let response = plan.response.as_deref().map(response).transpose()?;
    entries.iter().map(|entry| try_one(plan, &config, entry, &prompting, response.as_deref())).collect()
}

/// The run file, or settings of no run, and the tasks that are meant.
fn read(plan: &TryPlan) -> anyhow::Result<(RunConfig, Vec<TaskEntry>)> {
    ensure!(!plan.config.has_idle_settings(), "--set changes a run file, and none is given");
    let file = plan.config.given();
    let config = match &file {
        Some(file) => file.read()?,
        None => of_no_run()?,
    };
    let mut entries = match (&plan.task, &file) {
        (Some(task), _) => {
            let of_file: Vec<_> = config.tasks.iter().filter(|entry| entry.name == *task).cloned().collect();
            if of_file.is_empty() { vec![TaskEntry::new(task)] } else { of_file }
        }
        (None, Some(_)) => config.tasks.clone(),
        (None, None) => {
            let known: Vec<&str> = from_files().chain(procedural()).collect();
            bail!("which task? Name it with --task, or give a run file. Known are {}", known.join(", "))
        }
    };
    let needs_one = plan.data.is_some() || plan.response.is_some();
    ensure!(entries.len() == 1 || !needs_one, "the run file has several tasks: name one with --task");
    for entry in &mut entries {
        entry.params.extend(plan.params.iter().cloned());
        if let Some(data) = &plan.data {
            entry.data = Some(data.into());
        }
    }
    Ok((config, entries))
}

/// A response as text, without the line break that editors and `echo` put at its end.
fn response(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(MAX_RESPONSE_BYTES).read_to_string(&mut text),
        false => {
            std::fs::File::open(file).and_then(|file| file.take(MAX_RESPONSE_BYTES).read_to_string(&mut text))
        }
    };
    read.with_context(|| format!("--response {}", file.display()))?;
    let said = text.strip_suffix('\n').map(str::len);
    text.truncate(said.unwrap_or(text.len()));
    Ok(text)
}

/// How prompts are put and responses judged, and the model that answers.
pub(super) struct Prompting {
    /// None where prompts are shown as they are.
    tokenizer: Option<Tokenizer>,
    judged: JudgedPart,
    model: Option<(Workload, Weights)>,
}

impl Prompting {
    fn open(plan: &TryPlan, config: &RunConfig) -> anyhow::Result<Self> {
        let plain = Self { tokenizer: None, judged: JudgedPart::from(&config.prompt.charter()), model: None };
        let named = plan.model.as_deref().map(|name| sources::local_model(Path::new(name))).transpose()?;
        // A model that only the run file names is not got from the Hub for a look at its prompts.
        let of_file = || config.model.path.clone().filter(|path| !is_hub_name(path) && path.exists());
        let Some(dir) = named.clone().or_else(of_file) else { return Ok(plain) };
        if named.is_some() && plan.response.is_none() && plan.samples > 0 {
            let longest = plan.max_new_tokens.or(config.sampling.max_new_tokens).unwrap_or(RESPONSE_TOKENS);
            let (workload, weights) = opened(&dir, config.clone(), longest)?;
            let (tokenizer, judged) = (workload.tokenizer.clone(), workload.mix.judged_part());
            return Ok(Self { tokenizer: Some(tokenizer), judged, model: Some((workload, weights)) });
        }
        let (tokenizer, judged) = prompting(&dir, config, clock::wall())?;
        Ok(Self { tokenizer: Some(tokenizer), judged, model: None })
    }
}

fn try_one(
    plan: &TryPlan,
    config: &RunConfig,
    entry: &TaskEntry,
    prompting: &Prompting,
    response: Option<&str>,
) -> anyhow::Result<TaskReport> {
    let file = config.task_file(entry).map(sources::local_data).transpose()?;
    let shown = plan.row.unwrap_or(1) as usize + plan.rows as usize;
    let asked = Asked { entry, file: file.as_deref(), prompts: shown.max(TRIED_PROMPTS) };
    let task = TriedTask::open(&asked);
    let mut report = TaskReport::of(&task);
    let Some(first) = task.place(plan.row)? else { return Ok(report) };
    for index in (first..task.count()).take(plan.rows as usize) {
        report.prompts.push(ShownPrompt::of(&task, index, prompting));
    }
    if plan.solutions {
        report.solutions = Some(solutions::try_all(&task, prompting.judged));
    }
    if let Some(assignment) = task.assignment(first) {
        let (row, assignment) = (task.number(first), assignment.judging(prompting.judged));
        match (response, &prompting.model) {
            (Some(text), _) => report.responses.push(judged::of_text(row, &assignment, text)?),
            (None, Some((workload, weights))) => {
                let seed = task.sampler_seed(first);
                let asking = judged::Asking { plan, workload, weights, seed };
                report.responses = asking.answers(row, assignment)?;
            }
            (None, None) => {}
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
