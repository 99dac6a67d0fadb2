//! How fast the learner trains, beside PyTorch: `echo-learner bench` on the shape of Qwen3-0.6B,
//! and the reference models' gradients on the device.

use super::card::{ceilings, learner_device};
use super::{GpuStepOutcome, StepOptions};
use crate::gpu::kit;
use crate::gpu::libraries::OF_OTHERS;
use crate::harness::binaries::Binaries;
use crate::harness::processes::{last_line, succeeds};
use crate::models::random_weights::make;
use anyhow::Context as _;
use echo_policy::bench_models::Size;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// PyTorch's side; its arguments are a setting as JSON.
const TORCH: &str = include_str!("../../../peers/torch_train.py");
/// Tokens of a step, and the lengths of the sequences that it is made of.
const FULL: (usize, [usize; 2]) = (16_384, [1_024, 8_192]);
const SMALL: (usize, [usize; 2]) = (256, [32, 128]);
/// Steps that are timed, after one that is not.
const STEPS: usize = 5;

pub(super) fn run(options: &StepOptions, outcome: &mut GpuStepOutcome) -> anyhow::Result<()> {
    options.cuda()?;
    let size = if options.rehearse { Size::Tiny } else { Size::B06 };
    let model = options.dir.join("model");
    make(size, &model)?;
    let peak = learner_device(options.rehearse).and_then(|device| Ok(ceilings(&device)?));
    let peak = peak.map(|found| found.product_tflop_s);
    outcome.figure("product_tflop_s", peak.as_ref().ok());
    let peak = peak.unwrap_or(f64::NAN);
    let compared = gradients(options, &model, outcome);
    outcome.part("gradients of the reference models", compared);
    let (tokens, lengths) = if options.rehearse { SMALL } else { FULL };
    let torch = has_torch();
    if !torch {
        outcome.figure("torch", "python3 cannot import torch and transformers: not measured");
    }
    for length in lengths {
        let ours = ours(options, &model, tokens / length, length, &[]);
        let ours = take(&format!("ours_{length}"), ours, peak, outcome);
        if !torch {
            continue;
        }
        let theirs = peer(options, &model, tokens / length, length);
        if let Some(theirs) = &theirs.as_ref().ok().filter(|_| ours.is_some()) {
            let ratio = |name: &str| Some(ours.as_ref()?[name].as_f64()? / theirs[name].as_f64()?);
            outcome.figure(
                &format!("over_torch_{length}"),
                json!({"tok_s": ratio("tok_s"), "memory": ratio("peak_memory_mb")}),
            );
        }
        match theirs {
            Ok(theirs) => drop(take(&format!("torch_{length}"), Ok(theirs), peak, outcome)),
            // A peer that cannot be measured is nothing that ours did wrong.
            Err(error) => outcome.figure(&format!("torch_{length}"), format!("{error:#}")),
        }
    }
    Ok(())
}

/// Keeps a report, with the share of what the device can do.
fn take(name: &str, report: anyhow::Result<Value>, peak: f64, outcome: &mut GpuStepOutcome) -> Option<Value> {
    match report {
        Ok(mut report) => {
            if let (Some(tflops), Value::Object(fields)) = (report["tflops"].as_f64(), &mut report) {
                fields.insert("mfu".into(), json!(tflops / peak));
            }
            outcome.figure(name, &report);
            Some(report)
        }
        Err(error) => {
            outcome.part(name, Err(error));
            None
        }
    }
}

/// Losses and gradients of the reference models in f32: the bench compares them before its steps.
fn gradients(options: &StepOptions, model: &Path, outcome: &mut GpuStepOutcome) -> anyhow::Result<()> {
    let Some(models) = kit::models()? else {
        outcome.figure("gradients", "no reference models were packed: not compared");
        return Ok(());
    };
    let words = ["--vectors".as_ref(), models.as_os_str()];
    let found = ours(options, model, 1, 16, &words)?;
    outcome.figure("gradients", &found["vectors"]);
    outcome.claim(
        "losses and gradients of the reference models",
        found["vectors"]["failed"] == 0 && found["vectors"]["passed"] != 0,
    );
    Ok(())
}

/// What `echo-learner bench` reports of its steps, as JSON.
fn ours(
    options: &StepOptions,
    model: &Path,
    sequences: usize,
    length: usize,
    words: &[&std::ffi::OsStr],
) -> anyhow::Result<Value> {
    let file = options.dir.join(format!("run-{length}.toml"));
    let (device, compute) = if options.rehearse { ("cpu", "f32") } else { ("cuda", "bf16") };
    let settings = json!({
        "task": "chain_sum",
        "run": {"name": "bench", "dir": options.dir.join("run"), "updates": 1},
        "model": {"path": model},
        "train": {
            "device": device, "compute": compute, "activations": "recompute",
            "micro_batch_tokens": sequences * length,
        },
    });
    fs::write(&file, toml::to_string(&settings)?)?;
    let mut learner = Command::new(Binaries::locate()?.learner);
    learner.args(["bench", "--json", "--config"]).arg(file).args(words);
    for (flag, number) in [("--sequences", sequences), ("--length", length), ("--steps", STEPS)] {
        learner.arg(flag).arg(number.to_string());
    }
    last_line(&mut learner)
}

/// What PyTorch's process reports of the same steps, with its TFLOP/s.
fn peer(options: &StepOptions, model: &Path, sequences: usize, length: usize) -> anyhow::Result<Value> {
    let setting = json!({
        "model": model, "device": if options.rehearse { "cpu" } else { "cuda" }, "sequences": sequences, "length": length, "steps": STEPS,
    });
    let mut python = python();
    python.args(["-c", TORCH, &setting.to_string()]);
    let mut found = last_line::<Value>(&mut python)?;
    let config = echo_policy::model::config::ModelConfig::from_file(&model.join("config.json"))?;
    let (count, length) = (sequences as u64, length as u64);
    let work = echo_policy::training::flops::ScoringWork {
        tokens: count * (length - 1),
        targets: count * (length - 1),
        pairs: count * (length - 1) * length / 2,
    };
    let seconds = found["step_s"].as_f64().context("no step_s")?;
    found["tflops"] = json!(config.training_flops(&work) / seconds / 1e12);
    Ok(found)
}

/// Python, with its own libraries.
pub(super) fn python() -> Command {
    let mut python = Command::new("python3");
    if let Some(before) = std::env::var_os(OF_OTHERS) {
        python.env("LD_LIBRARY_PATH", before);
    }
    python.env("HF_HUB_OFFLINE", "1");
    python
}

/// Whether Python has what the peers need.
pub(super) fn has_torch() -> bool {
    succeeds(python().args(["-c", "import torch, transformers"]))
}
