//! A training step against PyTorch's: the same model, packed batch and loss, by turns.
//!
//! Each run is a process of its own, which reports the median of its steps and how much memory it
//! took beyond what it held before the first.

use super::step::{self, Split, StepFigures, StepSetting};
use crate::harness::machine;
use crate::harness::processes::last_line;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context, ensure};
use echo_policy::training::decoder::Activations;
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

/// PyTorch's step; its only argument is the number of steps.
const TORCH: &str = include_str!("../../peers/torch_step.py");
const SEQUENCES: usize = 8;
const LENGTH: usize = 256;
const VOCABULARY: usize = 8192;
/// Tokens per second over PyTorch's, at least; memory over PyTorch's, at most.
const MIN_SPEED: f64 = 1.0;
const MAX_MEMORY: f64 = 0.6;

/// How often each side makes its steps, and how ours holds activations.
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

/// Runs both by turns.
///
/// # Errors
/// When a process fails.
pub fn run(bench: &TrainBench, console: &Console) -> anyhow::Result<CommandReport> {
    let setting = StepSetting {
        lengths: vec![LENGTH; SEQUENCES],
        split: Split::Tokens(SEQUENCES * LENGTH),
        vocabulary: VOCABULARY,
        activations: bench.activations,
        steps: bench.steps,
    };
    let (mut ours, mut torch) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds {
        ours.push(step::measure(&setting)?);
        if let Some(python) = &bench.python {
            let steps = bench.steps.to_string();
            torch.push(last_line::<StepFigures>(Command::new(python).args(["-c", TORCH, &steps])).context(
                "the peer needs a Python with torch and transformers: make one with `python3 -m venv torch-venv && \
                 torch-venv/bin/pip install torch transformers`, and name it with --python torch-venv/bin/python",
            )?);
        }
        let of = |runs: &[StepFigures]| {
            runs.last()
                .map_or_else(String::new, |s| format!("{:.0} tokens/s, {:.0} MB", s.tok_s, s.memory_mb))
        };
        console.say(format!("round {round}: ours {}; torch {}", of(&ours), of(&torch)));
    }
    let ours_median = step::median(&ours);
    let mut json = json!({
        "ours": ours_median, "peers": {}, "ratios": {}, "machine": machine::describe(),
        "runs": {"ours": ours, "torch": torch}, "setting": setting,
    });
    let mut passed = true;
    if !torch.is_empty() {
        let peer = step::median(&torch);
        ensure!(peer.parameters == ours_median.parameters, "the models differ: {peer:?}, {ours_median:?}");
        let (speed, memory) = (ours_median.tok_s / peer.tok_s, ours_median.memory_mb / peer.memory_mb);
        passed = speed >= MIN_SPEED && memory <= MAX_MEMORY;
        json["peers"]["torch"] = json!(peer);
        json["ratios"]["torch"] = json!({"tok_s": speed, "memory": memory});
        console.say(format!("{speed:.2} × PyTorch's tokens/s (at least {MIN_SPEED}), {memory:.2} × its memory (at most {MAX_MEMORY})"));
    }
    Ok(CommandReport { passed, json })
}
