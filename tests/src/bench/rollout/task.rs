//! What every process of the race is given, and what it reports. `tests/peers/src/task.rs` reads
//! and writes the same, but for what only ours is told.

use crate::harness::statistics;
use crate::models::random_weights;
use crate::models::random_weights::Size;
use echo_policy::generation::device::DeviceChoice;
use echo_policy::model::precision::Precision;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// A prompt, and what follows it in each sample of the group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RaceTask {
    /// A Hugging Face directory.
    pub model: PathBuf,
    /// The same model for llama.cpp.
    pub gguf: PathBuf,
    /// The prompt that all samples share.
    pub prompt: Vec<u32>,
    /// By position: the token of each sample. Peers that draw nothing are fed with it; ours draws as many.
    pub given: Vec<Vec<u32>>,
    /// Threads that the engine computes with.
    pub threads: usize,
    /// In which numbers ours computes.
    pub precision: Precision,
    /// On which device ours does.
    pub device: DeviceChoice,
}

/// What one process reports. Rates are tokens a second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RaceRates {
    /// The prompt, up to the logits after it.
    pub prefill_tok_s: f64,
    /// Decoding one sample, alone on the engine.
    pub single_tok_s: f64,
    /// Decoding the group, all of its samples together.
    pub group_tok_s: f64,
    /// Log-prob of the first given token after the prompt: who agrees has computed the same model.
    pub logprob: f64,
    /// Versions, flags and settings.
    pub about: Value,
}

impl RaceTask {
    /// A task on the model of `size`, of seeded random tokens.
    pub(crate) fn new(
        size: Size,
        (model, gguf): (PathBuf, PathBuf),
        [prompt, new, samples, threads]: [usize; 4],
        precision: Precision,
        device: DeviceChoice,
    ) -> anyhow::Result<Self> {
        let vocabulary = size.config()?.vocab_size;
        let given = (1..).take(new).map(|at| random_weights::tokens(at, samples, vocabulary)).collect();
        Ok(Self {
            model,
            gguf,
            prompt: random_weights::tokens(0, prompt, vocabulary),
            given,
            threads,
            precision,
            device,
        })
    }

    /// Samples of the group.
    pub(super) fn samples(&self) -> usize {
        self.given.first().map_or(0, Vec::len)
    }

    /// The prompt and the first given token.
    pub(super) fn probe(&self) -> Option<Vec<u32>> {
        let first = *self.given.first()?.first()?;
        Some(self.prompt.iter().copied().chain([first]).collect())
    }
}

/// Medians of each figure; log-prob and description are those of the first.
pub(super) fn median(runs: &[RaceRates]) -> Option<RaceRates> {
    let of = |figure: fn(&RaceRates) -> f64| statistics::median(runs.iter().map(figure));
    Some(RaceRates {
        prefill_tok_s: of(|rates| rates.prefill_tok_s),
        single_tok_s: of(|rates| rates.single_tok_s),
        group_tok_s: of(|rates| rates.group_tok_s),
        ..runs.first()?.clone()
    })
}
