//! `echo-learner bench`: training steps on tokens that mean nothing, to see what a machine makes of
//! a run file's `[model]` and `[train]` before there is a run.

use crate::common::workload::dtype;
use crate::config::RunConfig;
use crate::founding::character_vocabulary;
use crate::training::batch::{BatchError, Sequence, pack};
use crate::training::device;
use crate::training::trainer::Trainer;
use anyhow::{Context, ensure};
use clap::Args;
use echo_policy::conformance::vectors::{VectorReport, models};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::Weights;
use echo_policy::training::decoder::Compute;
use echo_policy::training::flops::ScoringWork;
use echo_protocol::program::output::print;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is tried.
#[derive(Args, Clone, Debug)]
pub struct BenchPlan {
    /// Sequences of a step
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    sequences: u32,
    /// Tokens of each
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(2..=131_072))]
    length: u32,
    /// Steps that are timed, after one that is not; their median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Random weights instead of those of the model's directory, of which only config.json is read then
    #[arg(long)]
    random: bool,
    /// What the device computes at most in this precision, to report MFU
    #[arg(long, value_name = "TFLOPS")]
    peak: Option<f64>,
    /// Compare the device with reference models first: config.json, model.safetensors and
    /// expected.json in each directory below DIR
    #[arg(long, value_name = "DIR")]
    vectors: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Tries the run file's model and settings, and prints what it found.
///
/// # Errors
/// When device or model is not there, memory is short, or the device's numbers are not those
/// of the reference models.
pub fn run(config: &RunConfig, plan: &BenchPlan) -> anyhow::Result<()> {
    let train = &config.train;
    let report = plan.vectors.as_deref().map(|dir| compare(config, dir)).transpose()?;
    let (model, mut trainer) = trainer(config, plan.random)?;
    let positions = model.max_position_embeddings;
    ensure!(
        plan.length as usize <= positions,
        "--length {}: the model has {positions} positions; take --length {positions} or less",
        plan.length
    );
    let batch = sequences(plan, model.vocab_size);
    let median = median_step(&mut trainer, &batch, plan.steps)?;
    let tokens = f64::from(plan.sequences) * f64::from(plan.length);
    let tflops = model.training_flops(&work(&batch)?) / median / 1e12;
    let place = trainer.decoder().device();
    let memory = device::memory_in_use(place)?;
    let found = json!({
        "device": device::name(place), "compute": train.compute, "activations": train.activations,
        "micro_batch_tokens": train.micro_batch_tokens, "parameters": model.parameter_count(),
        "sequences": plan.sequences, "length": plan.length, "steps": plan.steps,
        "step_s": median, "tok_s": tokens / median, "tflops": tflops, "mfu": plan.peak.map(|peak| tflops / peak),
        "peak_memory_mb": memory.map(|bytes| bytes as f64 / 1e6), "vectors": report,
    });
    if plan.json {
        print(&format!("{found}\n"))?;
    } else {
        print(&table(&found))?;
    }
    Ok(())
}

/// Seconds of a training step of the run file's model with random weights, on so many sequences of so many
/// tokens: the median of `steps`.
///
/// # Errors
/// When device or model is not there, or memory is short.
pub(super) fn step_seconds(config: &RunConfig, count: u32, length: u32, steps: u32) -> anyhow::Result<f64> {
    let (model, mut trainer) = trainer(config, true)?;
    let plan =
        BenchPlan { sequences: count, length, steps, random: true, peak: None, vectors: None, json: false };
    median_step(&mut trainer, &sequences(&plan, model.vocab_size), steps)
}

fn trainer(config: &RunConfig, random: bool) -> anyhow::Result<(ModelConfig, Trainer)> {
    let (model, weights) = start(config, random)?;
    let trainer = Trainer::new(&model, &weights, &config.train)?;
    Ok((model, trainer.publishing(dtype(config.snapshot.dtype))?))
}

/// The median of so many steps, after one that is not timed.
fn median_step(trainer: &mut Trainer, batch: &[Sequence], steps: u32) -> anyhow::Result<f64> {
    let mut seconds = Vec::new();
    for step in 0..=steps {
        let since = Instant::now();
        trainer.imitate(batch)?;
        if step > 0 {
            seconds.push(since.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().context("no step was timed")
}

fn table(found: &Value) -> String {
    let known = found.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    known.map(|(key, value)| format!("{key:<20} {value}\n")).collect()
}

/// Holds the device to reference models, in f32.
fn compare(config: &RunConfig, dir: &Path) -> anyhow::Result<VectorReport> {
    let device = config.train.device.open(Compute::F32)?;
    let report = models::check_dir_on(dir, &device)?;
    ensure!(report.failed == 0, "the device's numbers are wrong:\n{}", report.failures.join("\n"));
    Ok(report)
}

/// The run file's model.
///
/// # Errors
/// When its directory is not there, or none is named.
pub(super) fn model(config: &RunConfig) -> anyhow::Result<ModelConfig> {
    Ok(match (&config.model.path, &config.model.tiny) {
        (Some(path), _) => ModelConfig::from_file(&path.join("config.json"))?,
        (None, Some(tiny)) => ModelConfig::tiny_qwen3(tiny.sizes(character_vocabulary(config)?))?,
        (None, None) => anyhow::bail!(crate::config::RunFileError::Model),
    })
}

fn start(config: &RunConfig, random: bool) -> anyhow::Result<(ModelConfig, Weights)> {
    let model = model(config)?;
    let weights = match &config.model.path {
        Some(path) if !random => Weights::load_dir(path, &model)
            .with_context(|| format!("{}; --random does without weights", path.display()))?,
        _ => Weights::random(&model, config.run.seed),
    };
    Ok((model, weights))
}

fn sequences(plan: &BenchPlan, vocabulary: usize) -> Vec<Sequence> {
    let token = |at: u64| (at * 7919 % vocabulary as u64) as u32;
    let sequence = |index: u32| {
        let first = u64::from(index) * u64::from(plan.length);
        let response = (first + 1..first + u64::from(plan.length)).map(token).collect();
        Sequence { prompt: vec![token(first)], response, heard: Vec::new(), group: index as usize }
    };
    (0..plan.sequences).map(sequence).collect()
}

/// What a step has the policy do. Sequences attend to themselves alone, so how they are
/// packed makes no difference.
fn work(sequences: &[Sequence]) -> Result<ScoringWork, BatchError> {
    let mut work = ScoringWork::default();
    for index in 0..sequences.len() {
        let (packed, targets) = pack(sequences, &[index])?;
        work += ScoringWork::of(&packed, &targets);
    }
    Ok(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TaskEntry;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: BenchPlan,
    }

    #[test]
    fn a_step_of_a_tiny_model_is_tried_and_its_work_is_counted() {
        let config: RunConfig = toml::from_str(
            r#"
            run = { name = "bench", dir = "", updates = 1 }
            task = [{ name = "chain_sum" }]
            train = { device = "cpu" }
            [model.tiny]
            hidden = 16
            layers = 2
            heads = 2
            kv_heads = 1
            head_dim = 8
            intermediate = 24
            positions = 32
            "#,
        )
        .unwrap();
        let Line { plan } = Line::parse_from("bench --sequences 3 --length 8 --steps 1".split(' '));
        run(&config, &plan).unwrap();
        let (model, _) = start(&config, true).unwrap();
        assert_eq!(model.vocab_size, 64);
        let batch = sequences(&plan, model.vocab_size);
        assert_eq!((batch.len(), batch[2].prompt.len() + batch[2].response.len()), (3, 8));
        // The last token is predicted, and nothing is asked after it.
        let exact = ScoringWork { tokens: 3 * 7, targets: 3 * 7, pairs: 3 * (7 * 8 / 2) };
        assert_eq!(work(&batch).unwrap(), exact);
        let long = BenchPlan { length: 64, ..plan };
        assert!(run(&config, &long).is_err(), "the model has 32 positions");

        // A file's characters make the vocabulary, as they do in the run.
        let scratch = tempfile::tempdir().unwrap();
        let rows = scratch.path().join("rows.jsonl");
        let many: String = ('\u{4e00}'..).take(40).collect();
        std::fs::write(&rows, format!(r#"{{"question": "{many}", "answer": "2"}}"#)).unwrap();
        let mut config = config;
        config.tasks = vec![TaskEntry::new("math")];
        config.data.insert("math".into(), rows);
        assert_eq!(start(&config, true).unwrap().0.vocab_size, 128);
    }
}
