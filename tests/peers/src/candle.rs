//! candle-transformers' Qwen3 in f32.

use crate::task::{self, Rates, PeerTask, WARM_UP};
use anyhow::{Context as _, ensure};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::qwen3::{Config, ModelForCausalLM};
use serde_json::{Value, json};
use std::path::Path;

/// Feeds prompt and given tokens through candle-transformers in f32, and times them.
pub fn run(task: &PeerTask) -> anyhow::Result<Rates> {
    let threads = candle_core::utils::get_num_threads();
    ensure!(threads == task.threads, "candle has {threads} threads: set RAYON_NUM_THREADS={}", task.threads);
    let file = task.model.join("model.safetensors");
    // SAFETY: nobody writes to a model's file once its directory has its name.
    let weights = unsafe { VarBuilder::from_mmaped_safetensors(&[file], DType::F32, &Device::Cpu)? };
    let mut model = ModelForCausalLM::new(&config(&task.model, task.context())?, weights)?;
    let (prompt, samples) = (task.prompt.len(), task.samples());

    model.forward(&rows(&task.prompt[..WARM_UP], 1)?, 0)?;
    model.clear_kv_cache();
    let shared = rows(&task.prompt, 1)?;
    let mut last = Vec::new();
    let prefill_tok_s = task::rate(prompt, || {
        last = model.forward(&shared, 0)?.flatten_all()?.to_vec1::<f32>()?;
        Ok(())
    })?;
    let single_tok_s = decode(&mut model, task, 1)?;
    // Its caches cannot be copied from outside: the group's prompt is computed for every sample,
    // before the clock starts.
    model.clear_kv_cache();
    model.forward(&shared.repeat((samples, 1))?, 0)?;
    let group_tok_s = decode(&mut model, task, samples)?;
    let about = json!({
        "candle-transformers": task::version("candle-transformers"), "gemm": task::version("gemm"), "gemm_features": ["x86-v4"], "allocator": "mimalloc",
        "target_features": task::processor(), "weights": "f32", "cache": "f32", "threads": threads, "drawn": "nothing: tokens are given",
    });
    let logprob = task::logprob(&last, task.given[0][0])?;
    Ok(Rates { prefill_tok_s, single_tok_s, group_tok_s, logprob, about })
}

/// Feeds the given tokens of the first `samples` samples after the prompt.
fn decode(model: &mut ModelForCausalLM, task: &PeerTask, samples: usize) -> anyhow::Result<f64> {
    task::rate(samples * task.given.len(), || {
        for (at, given) in task.given.iter().enumerate() {
            let fed = Tensor::new(&given[..samples], &Device::Cpu)?.reshape((samples, 1))?;
            model.forward(&fed, task.prompt.len() + at)?;
        }
        Ok(())
    })
}

fn rows(tokens: &[u32], count: usize) -> candle_core::Result<Tensor> {
    Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?.repeat((count, 1))
}

/// `config.json`, with what candle wants to be told although Qwen3 has it no other way. Positions
/// are those of the task: a table of rotations for all 40,960 would only take memory.
fn config(dir: &Path, positions: usize) -> anyhow::Result<Config> {
    let path = dir.join("config.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut config: Value = serde_json::from_str(&text)?;
    config["sliding_window"] = Value::Null;
    config["max_window_layers"] = json!(0);
    config["max_position_embeddings"] = json!(positions);
    Ok(serde_json::from_value(config)?)
}
