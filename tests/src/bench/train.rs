//! A training step against PyTorch's: the same model, packed batch and loss, by turns.
//!
//! Qwen3 form of 17 million parameters (hidden 384, 8 layers, vocabulary 8,192), 8 sequences of 256 tokens, f32, PPO's clipped loss around
//! the current policy, AdamW. Each run is a process of its own, which reports the median of its steps and how much memory it took beyond
//! what it held before the first.

use super::{machine, memory};
use crate::console::{Console, Report};
use anyhow::{Context, ensure};
use candle_core::Device;
use echo_learner::objective::{Evaluation, Known, Objective, Preset, Scored};
use echo_learner::optimizer::{AdamW, AdamWConfig};
use echo_learner::schedule::Schedule;
use echo_policy::config::ModelConfig;
use echo_policy::decoder::{Activations, Decoder, Gradients};
use echo_policy::packed::Packed;
use echo_policy::weights::Weights;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// PyTorch's step; its only argument is the number of steps.
const TORCH: &str = include_str!("torch_step.py");
const SEQUENCES: usize = 8;
const LENGTH: usize = 256;
const VOCABULARY: usize = 8192;
const MODEL: &str = r#"{"model_type":"qwen3","vocab_size":8192,"hidden_size":384,"intermediate_size":1152,"num_hidden_layers":8,
    "num_attention_heads":6,"num_key_value_heads":2,"head_dim":64,"tie_word_embeddings":true,"max_position_embeddings":1024}"#;
/// Tokens per second over PyTorch's, at least; memory over PyTorch's, at most.
const MIN_SPEED: f64 = 1.0;
const MAX_MEMORY: f64 = 0.6;

/// What is measured.
#[derive(Clone, Debug)]
pub struct TrainBench {
    /// A Python with `torch` and `transformers`; without one, only ours is measured.
    pub python: Option<PathBuf>,
    /// Steps of each process; the median counts.
    pub steps: usize,
    /// Processes of each, by turns; the median counts.
    pub rounds: usize,
    /// What ours holds between forward and backward.
    pub activations: Activations,
}

/// What one process reports.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Median over its steps.
    tok_s: f64,
    /// Most that it held beyond what it held before its first step, MB.
    memory_mb: f64,
    /// Parameters trained.
    parameters: u64,
}

/// Runs both by turns.
///
/// # Errors
/// When a process fails.
pub fn run(bench: &TrainBench, console: &Console) -> anyhow::Result<Report> {
    let this = std::env::current_exe().context("where this program lies")?;
    let steps = bench.steps.to_string();
    let activations = serde_json::to_value(bench.activations)?;
    let activations = activations.as_str().unwrap_or_default();
    let (mut ours, mut torch) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds {
        ours.push(measure(Command::new(&this).args([
            "train-step",
            "--steps",
            &steps,
            "--activations",
            activations,
        ]))?);
        if let Some(python) = &bench.python {
            torch.push(measure(Command::new(python).args(["-c", TORCH, &steps])).context(
                "the peer needs a Python with torch and transformers: make one with `python3 -m venv torch-venv && \
                 torch-venv/bin/pip install torch transformers`, and name it with --python torch-venv/bin/python",
            )?);
        }
        let of = |runs: &[Step]| {
            runs.last()
                .map_or_else(String::new, |s| format!("{:.0} tokens/s, {:.0} MB", s.tok_s, s.memory_mb))
        };
        console.say(format!("round {round}: ours {}; torch {}", of(&ours), of(&torch)));
    }
    let ours_median = median(&ours);
    let mut json = json!({
        "ours": ours_median, "peers": {}, "ratios": {}, "machine": machine::describe(),
        "runs": {"ours": ours, "torch": torch},
        "setting": {"sequences": SEQUENCES, "length": LENGTH, "activations": activations, "steps": bench.steps, "dtype": "f32"},
    });
    let mut passed = true;
    if !torch.is_empty() {
        let peer = median(&torch);
        ensure!(peer.parameters == ours_median.parameters, "the models differ: {peer:?}, {ours_median:?}");
        let (speed, memory) = (ours_median.tok_s / peer.tok_s, ours_median.memory_mb / peer.memory_mb);
        passed = speed >= MIN_SPEED && memory <= MAX_MEMORY;
        json["peers"]["torch"] = json!(peer);
        json["ratios"]["torch"] = json!({"tok_s": speed, "memory": memory});
        console.say(format!("{speed:.2} × PyTorch's tokens/s (at least {MIN_SPEED}), {memory:.2} × its memory (at most {MAX_MEMORY})"));
    }
    Ok(Report { passed, json })
}

/// What the process says in the last line of its output.
fn measure(command: &mut Command) -> anyhow::Result<Step> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{:?} ended with {}", command.get_program(), output.status);
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().context("it said nothing")?;
    Ok(serde_json::from_str(last)?)
}

/// Medians of each figure.
fn median(runs: &[Step]) -> Step {
    let of = |figure: fn(&Step) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let parameters = runs.first().map_or(0, |run| run.parameters);
    Step { tok_s: of(|run| run.tok_s), memory_mb: of(|run| run.memory_mb), parameters }
}

/// Our side, in a process of its own.
///
/// # Errors
/// When training fails.
pub fn step(steps: usize, activations: Activations) -> anyhow::Result<Step> {
    let config = ModelConfig::from_json(MODEL)?;
    let decoder = Decoder::trainable(&config, &Weights::random(&config, 0), &Device::Cpu)?;
    let ids: Vec<Vec<u32>> = (0..SEQUENCES)
        .map(|row| (0..LENGTH).map(|t| ((row * LENGTH + t) * 7919 % VOCABULARY) as u32).collect())
        .collect();
    let packed = Packed::of(&ids)?;
    let targets = packed.next_tokens();
    let objective = Objective { correction: None, ..Preset::DecoupledPpo.objective() };
    let (before, _) = memory::resident()?;
    let mut optimizer =
        AdamW::new(decoder.vars().to_vec(), AdamWConfig::default(), Schedule::constant(1e-4, 0))?;
    let mut gradients = Gradients::zeros(&decoder)?;
    let mut seconds = Vec::new();
    for _ in 0..steps {
        let since = Instant::now();
        gradients.zero()?;
        let scored = decoder.score_for_training(&packed, &targets, activations)?;
        let logp: Vec<f64> = scored.scores().logp.iter().map(|logp| f64::from(*logp)).collect();
        let known = Known { behaviour: logp.clone(), advantage: vec![1.0], ..Known::default() };
        let Evaluation { d_logp, .. } =
            objective.plan(vec![known], 0)?.evaluate(&[Scored { response: 0, logp: &logp, entropy: &[] }])?;
        let slopes: Vec<f32> = d_logp.iter().flatten().map(|d| *d as f32).collect();
        scored.backward(&slopes, None, &mut gradients)?;
        optimizer.step(gradients.buffers())?;
        seconds.push(since.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let (_, peak) = memory::resident()?;
    let tokens = (SEQUENCES * LENGTH) as f64;
    let tok_s = tokens / seconds.get(seconds.len() / 2).copied().context("no step was made")?;
    Ok(Step { tok_s, memory_mb: peak - before, parameters: config.parameter_count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_made_and_measured() {
        let step = step(1, Activations::Recompute).unwrap();
        assert!(step.tok_s > 0.0 && step.memory_mb > 0.0);
        assert_eq!(step.parameters, 16_915_840);
    }
}
