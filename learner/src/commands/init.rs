//! `echo-learner init`: a run file with a comment for each setting, to be changed by whoever runs it.

use crate::commands::sources;
use crate::founding::sanity::usual_rate;
use anyhow::{Context as _, bail};
use clap::Args;
use echo_policy::model::config::ModelConfig;
use echo_protocol::program::output::print;
use echo_protocol::run::charter::TaskSpec;
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::tasks::registry::{from_files, procedural};
use echo_sandbox::tasks::wasm;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// What `--model` is called where the run makes one with random weights.
const TINY: &str = "tiny";
/// Parameters that are assumed of a model whose size nobody says.
const UNKNOWN_SIZE: u64 = 1_000_000_000;
/// Tokens of a published model's response: room for some steps of reasoning.
const RESPONSE_TOKENS: u32 = 512;
/// The same for a task that asks for a number or a word.
const SHORT_RESPONSE_TOKENS: u32 = 128;
/// Positions of a tiny model at least, and where its task has rows.
const TINY_POSITIONS: (usize, usize) = (32, 512);

/// What the run file is to be about.
#[derive(Args, Clone, Debug)]
pub struct InitPlan {
    /// A Hugging Face directory, a name on the hub as in hf:Qwen/Qwen3-0.6B, or `tiny`: a small model with
    /// random weights.
    #[arg(long, value_name = "DIR|hf:NAME|tiny")]
    pub model: String,
    /// The task: `math`, `code`, `chain_sum`, …
    #[arg(long, value_name = "TASK")]
    pub task: String,
    /// The file that the task is made of, where it is made of one.
    #[arg(long, value_name = "FILE|hf:NAME")]
    pub data: Option<String>,
    /// Where the run file is written. Must not exist.
    #[arg(long, value_name = "FILE", default_value = "run.toml")]
    pub output: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Writes the run file of `plan`.
///
/// # Errors
/// When there is no such task, or the file is there already or cannot be written.
pub fn init(plan: &InitPlan) -> anyhow::Result<()> {
    let text = run_file(plan)?;
    if plan.model != TINY
        && let Some(words) = sources::missing(Path::new(&plan.model), Path::new(""))
    {
        tracing::warn!("{words}");
    }
    let output = plan.output.display();
    let file = OpenOptions::new().write(true).create_new(true).open(&plan.output);
    match file {
        Ok(mut file) => file.write_all(text.as_bytes()).with_context(|| output.to_string())?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{output} exists already: name another --output, or move it away")
        }
        Err(error) => return Err(error).with_context(|| output.to_string()),
    }
    let said = if plan.json {
        json!({ "output": output.to_string() }).to_string()
    } else {
        format!(
            "wrote {output}. Next: read it, then `echo-learner check {output}` and `echo-learner run {output}`"
        )
    };
    Ok(print(&(said + "\n"))?)
}

/// The text of the run file.
fn run_file(plan: &InitPlan) -> anyhow::Result<String> {
    let is_of_file = wasm::asks_for_module(&plan.task) || from_files().any(|name| name == plan.task);
    if !is_of_file && !procedural().any(|name| name == plan.task) {
        bail!("{}", unknown(&plan.task));
    }
    if plan.data.is_some() && !is_of_file {
        bail!("task {} is made of no file: leave --data out", plan.task);
    }
    let base = plan.output.parent().unwrap_or(Path::new(""));
    let name = plan.task.split(':').next().unwrap_or_default();
    let is_tiny = plan.model == TINY;
    let parts = [
        heading(plan, name),
        if is_tiny { tiny(&plan.task, is_of_file) } else { published(&quoted(&place(&plan.model, base))) },
        if is_tiny { String::new() } else { PROMPT.to_owned() },
        if is_of_file { data(plan, name, base) } else { String::new() },
        sampling(is_tiny, is_of_file),
        training(if is_tiny { Some(0) } else { parameters(&plan.model) }, is_tiny),
        if is_tiny { WARMUP.to_owned() } else { String::new() },
        REST.to_owned(),
    ];
    Ok(parts.concat())
}

fn unknown(task: &str) -> String {
    let known: Vec<&str> = procedural().chain(from_files()).collect();
    let like = |name: &&&str| strsim::jaro_winkler(task, name);
    let nearest = known.iter().max_by(|a, b| like(a).total_cmp(&like(b))).filter(|name| like(name) >= 0.8);
    let meant = nearest.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    format!("there is no task {task}: {meant}Known are {}", known.join(", "))
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// What a run file in `base` calls a file that the shell calls `given`.
fn place(given: &str, base: &Path) -> String {
    if given.starts_with("hf:") || base.as_os_str().is_empty() {
        return given.to_owned();
    }
    let absolute = std::path::absolute(given).ok().and_then(|path| path.into_os_string().into_string().ok());
    absolute.unwrap_or_else(|| given.to_owned())
}

fn heading(plan: &InitPlan, name: &str) -> String {
    format!(
        "# A run file of `echo-learner init`. docs/reference/run-file.md describes every key, and
# `echo-learner check FILE` says what is wrong or odd. Relative paths start from this file.

# What the policy learns; docs/reference/tasks.md has the tasks.
task = {task}

[run]
# A name for people.
name = \"{name}\"
# The run directory: the key, checkpoints, metrics, and in the end the trained policy.
dir = \"runs/{name}\"
# Updates in total. `echo-learner resume runs/{name} --updates N` makes more of them.
updates = 200

",
        task = quoted(&plan.task)
    )
}

fn published(path: &str) -> String {
    format!(
        "[model]
# A Hugging Face directory with a model of the families Qwen3, Qwen2/2.5 or Llama-3.
path = {path}

"
    )
}

fn tiny(task: &str, is_of_file: bool) -> String {
    let positions = if is_of_file { TINY_POSITIONS.1 } else { positions(task) };
    format!(
        "# A small model with random weights and a tokenizer of characters.
[model.tiny]
hidden = 128
layers = 3
heads = 4
kv_heads = 2
head_dim = 32
intermediate = 384
# Longest prompt and response together, in characters.
positions = {positions}

"
    )
}

/// Positions for a procedural task with its own defaults.
fn positions(task: &str) -> usize {
    let mix = TaskMix::new(&[TaskSpec::new(task)], &TaskFiles::none());
    let read = |mix: &TaskMix| mix.tasks().map(|task| task.longest_prompt() + task.longest_heard()).max();
    let needed = mix.map_or(0, |mix| read(&mix).unwrap_or_default() + mix.longest_answer());
    needed.next_power_of_two().max(TINY_POSITIONS.0)
}

fn data(plan: &InitPlan, name: &str, base: &Path) -> String {
    let file = match &plan.data {
        Some(given) => place(given, base),
        None if name == wasm::NAME => "task.wasm".to_owned(),
        None => "rows.jsonl".to_owned(),
    };
    format!(
        "[data]
# The file that the task is made of. A tenth of its rows is held out for evaluation.
{key} = {file}

",
        key = if name == plan.task { name.to_owned() } else { quoted(&plan.task) },
        file = quoted(&file)
    )
}

fn sampling(is_tiny: bool, is_of_file: bool) -> String {
    let group = if is_tiny { 16 } else { 8 };
    let length = match (is_tiny, is_of_file) {
        (true, _) => "# Longest response in tokens; left out, as long as the longest right answer.\n# max_new_tokens = 16\n".to_owned(),
        (false, of_file) => format!(
            "# Longest response in tokens. What is cut earns nothing; a model that thinks first needs 2000 and more.\nmax_new_tokens = {}\n",
            if of_file { RESPONSE_TOKENS } else { SHORT_RESPONSE_TOKENS }
        ),
    };
    format!(
        "[sampling]
# G: responses to each prompt, which are compared with each other.
group_size = {group}
{length}
"
    )
}

/// `[train]` for a policy of so many parameters, where that is known.
fn training(parameters: Option<u64>, is_tiny: bool) -> String {
    let usual = match parameters {
        _ if is_tiny => "what is usual for a tiny model".to_owned(),
        Some(parameters) => format!("what is usual for {:.2} billion parameters", parameters as f64 / 1e9),
        None => "the model's size is unknown here, so see what `echo-learner check` says of it".to_owned(),
    };
    format!(
        "[train]
# Prompts of an update: it learns from this many times G responses.
groups_per_update = {groups}
# The learning rate, by step: {usual}.
schedule = {{ peak = {rate:e}, warmup = 10, decay = {{ shape = \"constant\" }} }}
# Most tokens in one pass. Memory grows with them: lower this where it is short, and raise it on a large GPU.
micro_batch_tokens = 4096

",
        groups = if is_tiny { 16 } else { 8 },
        rate = usual_rate(parameters.unwrap_or(UNKNOWN_SIZE))
    )
}

/// How a published model is asked.
const PROMPT: &str = r#"[prompt]
# The text around each question, the system message, and variables of the model's chat template.
# template = "{question}\nPut the final answer in \\boxed{}."
# system = "You are a careful mathematician."
# arguments = { enable_thinking = false }

"#;

/// Random weights answer nothing right, and what is never right cannot be reinforced.
const WARMUP: &str = "[warmup]
# Supervised updates on the task's own solutions before the run: random weights answer nothing right, and
# what is never right cannot be reinforced.
updates = 2000
batch = 64
learning_rate = 2e-3
until_accuracy = 0.3

";

const REST: &str = "[evaluation]
# Updates between evaluations on held-out prompts, and how many of them are asked. The first comes before the
# first update, and training waits for it.
every = 20
orders = 64

[network]
# The signed peer list through which nodes find this learner: docs/guides/keeper.md.
# peers = \"echo.peers\"
# The most that the learner sends. Set it to what your line gives.
# max_upload = \"100mbit\"
";

/// Parameters of the model: of its directory, or by its name. None where neither says.
fn parameters(model: &str) -> Option<u64> {
    let config = ModelConfig::from_file(&Path::new(model).join("config.json"));
    config.map_or_else(|_| by_name(model), |config| Some(config.parameter_count()))
}

/// The size that a name says, as in Qwen3-0.6B and SmolLM2-135M-Instruct.
fn by_name(name: &str) -> Option<u64> {
    let name = name.split('@').next()?;
    let mut words = name.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    words.find_map(|word| {
        let (number, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
        let unit = match unit {
            "B" | "b" => 1e9,
            "M" | "m" => 1e6,
            _ => return None,
        };
        number.parse::<f64>().ok().filter(|number| *number > 0.0).map(|number| (number * unit) as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunConfig;

    fn plan(model: &str, task: &str, output: PathBuf) -> InitPlan {
        InitPlan { model: model.into(), task: task.into(), data: None, output, json: false }
    }

    #[test]
    fn the_run_file_of_every_task_is_sound() {
        let home = tempfile::tempdir().unwrap();
        for task in procedural().chain(from_files()) {
            for model in [TINY, "models/qwen3-0.6b", "hf:HuggingFaceTB/SmolLM2-135M-Instruct"] {
                let output = home.path().join(format!("{task}-{}.toml", model.len()));
                init(&plan(model, task, output.clone())).unwrap();
                let config =
                    RunConfig::load(&output).unwrap_or_else(|error| panic!("{task} {model}: {error}"));
                assert_eq!((config.problems().len(), config.tasks[0].name.as_str()), (0, task));
                assert_eq!(config.run.dir, home.path().join("runs").join(task));
                assert_eq!(config.model.tiny.is_some(), model == TINY);
                assert_eq!(config.warmup.is_some(), model == TINY);
            }
        }
        let config = RunConfig::load(&home.path().join("math-38.toml")).unwrap();
        assert_eq!((config.train.schedule.peak, config.sampling.max_new_tokens), (1e-5, Some(512)));
        assert_eq!(config.data["math"], home.path().join("rows.jsonl"));
    }

    #[test]
    fn a_tiny_run_of_each_procedural_task_can_be_founded() {
        for task in procedural() {
            let home = tempfile::tempdir().unwrap();
            let output = home.path().join("run.toml");
            init(&plan(TINY, task, output.clone())).unwrap();
            let mut config = RunConfig::load(&output).unwrap();
            // Whether it fits is decided without the warm-up, which would take its time.
            config.warmup = None;
            let found = crate::founding::examination::examine(&config, None, false);
            assert_eq!(found.problems, [""; 0], "{task}");
        }
    }

    #[test]
    fn nothing_is_overwritten_and_an_unknown_task_is_named() {
        let home = tempfile::tempdir().unwrap();
        let output = home.path().join("run.toml");
        std::fs::write(&output, "mine").unwrap();
        let refused = init(&plan(TINY, "math", output.clone())).unwrap_err().to_string();
        assert!(refused.contains("exists already"), "{refused}");
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "mine");
        let refused = init(&plan(TINY, "maths", output.clone())).unwrap_err().to_string();
        assert!(refused.contains("did you mean math?") && refused.contains("chain_sum"), "{refused}");
        let data = InitPlan { data: Some("rows.jsonl".into()), ..plan(TINY, "chain_sum", output) };
        assert!(init(&data).unwrap_err().to_string().contains("leave --data out"));
    }

    #[test]
    fn sizes_are_read_from_names() {
        assert_eq!(by_name("hf:Qwen/Qwen3-0.6B"), Some(600_000_000));
        assert_eq!(by_name("hf:HuggingFaceTB/SmolLM2-135M-Instruct"), Some(135_000_000));
        assert_eq!(by_name("meta-llama/Llama-3.2-1B@0123abc"), Some(1_000_000_000));
        assert_eq!(by_name("models/mine"), None);
        assert_eq!(parameters("models/mine"), None);
    }

    #[test]
    fn a_size_that_nobody_says_is_not_claimed() {
        for model in ["models/mine", "hf:o/mine"] {
            let text = run_file(&plan(model, "math", "run.toml".into())).unwrap();
            assert!(text.contains("the model's size is unknown here") && !text.contains("billion"), "{text}");
        }
        let text = run_file(&plan("models/qwen3-0.6b", "math", "run.toml".into())).unwrap();
        assert!(text.contains("what is usual for 0.60 billion parameters"), "{text}");
    }

    #[test]
    fn files_are_named_from_where_the_run_file_lies() {
        let here = std::path::absolute("rows.jsonl").unwrap();
        assert_eq!(place("rows.jsonl", Path::new("")), "rows.jsonl");
        assert_eq!(Path::new(&place("rows.jsonl", Path::new("runs"))), here);
        assert_eq!(place("hf:openai/gsm8k:main/train", Path::new("runs")), "hf:openai/gsm8k:main/train");
    }
}
