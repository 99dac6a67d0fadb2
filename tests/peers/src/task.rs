//! What is to be measured, and what is reported of it.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Tokens of the pass that comes before all clocks.
pub const WARM_UP: usize = 8;

/// A prompt, and what follows it in each sample of the group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerTask {
    /// A Hugging Face directory with `config.json` and `model.safetensors`.
    pub model: PathBuf,
    /// The same model for llama.cpp.
    pub gguf: PathBuf,
    /// The prompt that all samples share.
    pub prompt: Vec<u32>,
    /// By position: the token of each sample, fed instead of drawn ones. So a peer is not
    /// charged for its sampler.
    pub given: Vec<Vec<u32>>,
    /// Threads that the engine computes with.
    pub threads: usize,
}

/// Tokens a second of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rates {
    /// The prompt, up to the logits after it.
    pub prefill_tok_s: f64,
    /// Decoding one sample, alone on the engine.
    pub single_tok_s: f64,
    /// Decoding the group, all of its samples together.
    pub group_tok_s: f64,
    /// Log-prob of the first given token after the prompt: everybody has computed the same
    /// model if they agree.
    pub logprob: f64,
    /// Versions, flags and settings.
    pub about: Value,
}

impl PeerTask {
    /// Reads a task, as JSON.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let task: Self = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let samples = task.samples();
        ensure!(task.prompt.len() >= WARM_UP, "a prompt has at least {WARM_UP} tokens");
        ensure!(
            samples > 0 && task.given.iter().all(|row| row.len() == samples),
            "rows of given tokens differ in length"
        );
        Ok(task)
    }

    /// Samples of the group.
    pub fn samples(&self) -> usize {
        self.given.first().map_or(0, Vec::len)
    }

    /// Prompt and response together.
    pub fn context(&self) -> usize {
        self.prompt.len() + self.given.len()
    }
}

/// Tokens a second of something.
pub fn rate(tokens: usize, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let since = Instant::now();
    work()?;
    Ok(tokens as f64 / since.elapsed().as_secs_f64())
}

/// The log-prob of `token` in a row of logits.
pub fn logprob(logits: &[f32], token: u32) -> anyhow::Result<f64> {
    let logit = |x: &f32| f64::from(*x);
    let most = logits.iter().map(logit).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|x| (logit(x) - most).exp()).sum();
    let own = logits.get(token as usize).with_context(|| format!("token {token} has no logit"))?;
    Ok(logit(own) - most - sum.ln())
}

/// The version of a crate that this program was built with.
pub fn version(of: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{of}\"\n");
    let entry = lock.split("[[package]]\n").find_map(|entry| entry.strip_prefix(&name));
    entry.and_then(|entry| entry.split('"').nth(1)).unwrap_or("unknown")
}

/// Vector instructions of this processor that products could use.
pub fn processor() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let found = [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
            ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ];
        found.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}
