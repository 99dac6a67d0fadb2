//! Our engine against others on the same model, prompt and number of tokens, by turns.
//!
//! All read one directory of seeded random bf16 weights ([these](crate::models::random_weights)). A
//! group of samples shares a prompt, which every engine that can computes once; no token ends a
//! sample. Each run is a process of its own: it warms up, then times the prompt, one sample, and
//! the group. Peers that offer no sampler of their own kind are fed with given tokens, so that what
//! they are charged with is the model alone; ours draws, and reports both log-probs.
//!
//! Before each round this process measures what the machine allows ([`super::roofline`]), as
//! machines change their speed.

mod ours;
mod peer;
mod task;

use super::roofline;
use super::roofline::ProcessorCeilings;
use crate::harness::cargo::workspace_root;
use crate::harness::machine;
use crate::harness::statistics::median;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use echo_policy::generation::device::DeviceChoice;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::training::flops::ScoringWork;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

pub use crate::models::random_weights::Size;
pub use peer::{EnginePrograms, RivalEngine};
pub(crate) use peer::{TORCH, report as report_of, reports as reports_of};
pub use task::{RaceRates, RaceTask};

/// Memory bandwidth that decoding one sample uses, at least.
const MIN_BANDWIDTH: f64 = 0.8;
/// The prompt's tokens a second over llama.cpp's, at least.
const MIN_PREFILL: f64 = 1.0;

/// The model, the group that is generated, and the engines that race.
#[derive(Clone, Debug)]
pub struct RolloutBench {
    /// The size of the model, whose weights are random.
    pub size: Size,
    /// Whom we race against.
    pub peers: Vec<RivalEngine>,
    /// The programs that peers run in.
    pub programs: EnginePrograms,
    /// Processes of each, by turns; the median counts.
    pub rounds: usize,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens drawn for each sample.
    pub new: usize,
    /// Samples of the group.
    pub samples: usize,
    /// Threads of every engine.
    pub threads: usize,
    /// In which numbers ours computes. All weights are published in bf16.
    pub precision: Precision,
}

/// The figures of every round, in order.
struct Race {
    ceilings: Vec<ProcessorCeilings>,
    ours: Vec<RaceRates>,
    peers: BTreeMap<RivalEngine, Vec<RaceRates>>,
    /// The machine's load before each round: that of other programs, if it is more than we are.
    loads: Vec<f64>,
}

/// Measures all engines round by round, and judges ours by the medians.
///
/// # Errors
/// When a peer is missing, a process fails, or a peer has computed another model.
pub fn run(bench: &RolloutBench, console: &Console) -> anyhow::Result<CommandReport> {
    for peer in &bench.peers {
        peer.probe(&bench.programs)?;
    }
    let home = workspace_root().join("target/peers");
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let places = crate::models::random_weights::places(bench.size, &home);
    console.say(format!("model: {}", places.0.display()));
    crate::models::random_weights::make(bench.size, &places.0)?;
    let numbers = [bench.prompt, bench.new, bench.samples, bench.threads];
    let task = RaceTask::new(bench.size, places, numbers, bench.precision, DeviceChoice::Cpu)?;
    if bench.peers.contains(&RivalEngine::Llama) {
        bench.programs.convert(&task)?;
    }
    let file = tempfile::Builder::new().suffix(".json").tempfile()?;
    serde_json::to_writer(&file, &task)?;

    let mut race = Race { ceilings: Vec::new(), ours: Vec::new(), peers: BTreeMap::new(), loads: Vec::new() };
    for round in 1..=bench.rounds {
        race.loads.push(machine::load());
        let ceilings = roofline::measure(bench.threads);
        race.ceilings.push(ceilings);
        let of_round = |who: &str, rates: &RaceRates| {
            console.say(format!(
                "round {round}: {who:<9} prefill {:>6.1}, one sample {:>5.1}, group {:>6.1} tokens/s",
                rates.prefill_tok_s, rates.single_tok_s, rates.group_tok_s
            ));
        };
        let ProcessorCeilings { read_gb_s, f32_gflop_s } = ceilings;
        console.say(format!("round {round}: memory {read_gb_s:.1} GB/s, products {f32_gflop_s:.0} GFLOP/s"));
        let this = std::env::current_exe().context("where this program lies")?;
        let ours = report_of(Command::new(this).arg("rollout-run").arg(file.path()), bench.threads)?;
        of_round("ours", &ours);
        for &peer in &bench.peers {
            let rates = peer.measure(file.path(), bench.threads, &bench.programs)?;
            of_round(&peer.to_string(), &rates);
            ensure!(
                (rates.logprob - ours.logprob).abs() <= peer.tolerance(bench.precision),
                "{peer} has computed another model: log-prob {} of a token to which ours gives {}",
                rates.logprob,
                ours.logprob
            );
            race.peers.entry(peer).or_default().push(rates);
        }
        race.ours.push(ours);
    }
    report(bench, &task, &race, console)
}

/// What one process of ours does: the hidden command that [`run`] starts.
///
/// # Errors
/// When the task cannot be read, or the engine fails.
pub fn run_task(path: &Path) -> anyhow::Result<RaceRates> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    ours::run(&serde_json::from_str(&text)?)
}

/// What has to be reached, and what was measured.
#[derive(Serialize)]
struct Goal {
    name: String,
    least: f64,
    figure: f64,
}

fn report(
    bench: &RolloutBench,
    task: &RaceTask,
    race: &Race,
    console: &Console,
) -> anyhow::Result<CommandReport> {
    let ours = task::median(&race.ours).context("no round was made")?;
    let ceilings = ProcessorCeilings {
        read_gb_s: median(race.ceilings.iter().map(|ceilings| ceilings.read_gb_s)),
        f32_gflop_s: median(race.ceilings.iter().map(|ceilings| ceilings.f32_gflop_s)),
    };
    let shares = Shares::of(&bench.size.config()?, bench, &ours, ceilings);
    let (mut peers, mut ratios) = (serde_json::Map::new(), serde_json::Map::new());
    let mut goals =
        vec![Goal { name: "bandwidth of one sample".into(), least: MIN_BANDWIDTH, figure: shares.bandwidth }];
    for (peer, runs) in &race.peers {
        let theirs = task::median(runs).context("no round was made")?;
        let (prefill, single, group) = (
            ours.prefill_tok_s / theirs.prefill_tok_s,
            ours.single_tok_s / theirs.single_tok_s,
            ours.group_tok_s / theirs.group_tok_s,
        );
        ratios.insert(peer.to_string(), json!({"prefill": prefill, "single": single, "group": group}));
        peers.insert(peer.to_string(), json!(theirs));
        goals.extend(peer.goal().map(|least| Goal {
            name: format!("group over {peer}"),
            least,
            figure: group,
        }));
        if peer.holds_prefill() {
            goals.push(Goal { name: format!("prefill over {peer}"), least: MIN_PREFILL, figure: prefill });
        }
    }
    for Goal { name, least, figure } in &goals {
        let verdict = if figure >= least { "reached" } else { "MISSED" };
        console.say(format!("{verdict}: {name} {figure:.2} (at least {least})"));
    }
    let by_name: BTreeMap<String, &Vec<RaceRates>> =
        race.peers.iter().map(|(peer, runs)| (peer.to_string(), runs)).collect();
    let json = json!({
        "ours": ours, "peers": peers, "ratios": ratios, "ceilings": ceilings,
        "shares": {"bandwidth": shares.bandwidth, "products_group": shares.group, "products_prefill": shares.prefill},
        "goals": goals, "machine": machine::describe(),
        "runs": {"ours": race.ours, "peers": by_name, "ceilings": race.ceilings, "load": race.loads},
        "setting": {
            "size": bench.size, "prompt": bench.prompt, "new": bench.new, "samples": bench.samples, "threads": bench.threads,
            "precision": bench.precision, "rounds": bench.rounds, "model": task.model,
        },
    });
    Ok(CommandReport { passed: goals.iter().all(|goal| goal.figure >= goal.least), json })
}

/// What ours uses of the ceilings, counting only what has to be done: published weights read once a
/// step, the cache as it is kept, and the model's own products ([`ModelConfig::forward_flops`]).
/// More than all of the products is possible where the machine multiplies bf16 faster than f32.
struct Shares {
    bandwidth: f64,
    group: f64,
    prefill: f64,
}

impl Shares {
    fn of(config: &ModelConfig, bench: &RolloutBench, ours: &RaceRates, ceilings: ProcessorCeilings) -> Self {
        // Of a weight as it is multiplied.
        let weight_bytes = match bench.precision {
            Precision::F32 | Precision::Bf16 => 2.0,
            Precision::Int8 => 68.0 / 64.0,
            Precision::Int4 => 36.0 / 64.0,
        };
        let (prompt, new) = (bench.prompt as u64, bench.new as u64);
        let unread = if config.tie_word_embeddings { 0 } else { config.vocab_size * config.hidden_size };
        let cached = ours.about["cache_bytes_per_token"].as_f64().unwrap_or_default();
        let context = prompt as f64 + new as f64 / 2.0;
        let bytes = (config.parameter_count() as f64 - unread as f64) * weight_bytes + context * cached;
        let sums = |tokens: u64| tokens * (tokens + 1) / 2;
        let behind = ScoringWork { tokens: new, targets: new, pairs: sums(prompt + new) - sums(prompt) };
        let ahead = ScoringWork { tokens: prompt, targets: 1, pairs: sums(prompt) };
        let products = |work: &ScoringWork, tok_s: f64| {
            config.forward_flops(work) / work.tokens as f64 * tok_s / (ceilings.f32_gflop_s * 1e9)
        };
        Self {
            bandwidth: bytes * ours.single_tok_s / (ceilings.read_gb_s * 1e9),
            group: products(&behind, ours.group_tok_s),
            prefill: products(&ahead, ours.prefill_tok_s),
        }
    }
}

#[cfg(test)]
mod tests;
