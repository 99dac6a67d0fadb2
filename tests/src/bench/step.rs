//! Training steps of a 17 million parameter policy, in a process of their own that reports how fast
//! it was and what it held.
//!
//! Qwen3 form (hidden 384, 8 layers, tied), f32, PPO's clipped loss around the current policy,
//! AdamW: what PyTorch does in `tests/peers/torch_step.py`.

use super::memory;
use crate::harness::processes::last_line;
use crate::harness::statistics;
use anyhow::{Context, ensure};
use candle_core::Device;
use echo_learner::training::batch::{Sequence, micro_batches, pack};
use echo_learner::training::lr_schedule::Schedule;
use echo_learner::training::objective::{Evaluation, Known, Objective, Preset, ScoredResponse};
use echo_learner::training::optimizer::{AdamW, AdamWConfig};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::Weights;
use echo_policy::training::decoder::{Activations, Decoder, Gradients};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::process::Command;
use std::time::Instant;

/// Bytes of a parameter's gradient and of its two moments, which are held from the first step on.
const STATE_BYTES: u64 = 12;

/// What a process is to train on, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepSetting {
    /// Rows of each sequence of the batch.
    pub lengths: Vec<usize>,
    /// How the batch is split into micro-batches.
    pub split: Split,
    /// Tokens that the policy knows.
    pub vocabulary: usize,
    /// What is held between forward and backward.
    pub activations: Activations,
    /// Steps; their median counts.
    pub steps: usize,
}

/// How a batch is split.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Split {
    /// As many tokens as fit (AReaL, algorithm 1).
    Tokens(usize),
    /// A fixed number of sequences.
    Sequences(usize),
}

/// What a process reports.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StepFigures {
    /// Median over its steps.
    pub tok_s: f64,
    /// Most that it held beyond what it held before its first step, MB.
    pub memory_mb: f64,
    /// Parameters of the policy, all of which are trained.
    pub parameters: u64,
}

impl StepFigures {
    /// Memory beyond gradients and moments, MB: what passes through a step.
    pub(super) fn working_mb(&self) -> f64 {
        self.memory_mb - (self.parameters * STATE_BYTES) as f64 / 1e6
    }
}

/// The steps of `setting`, in a process of their own.
pub(super) fn measure(setting: &StepSetting) -> anyhow::Result<StepFigures> {
    let this = std::env::current_exe().context("where this program lies")?;
    last_line(Command::new(this).arg("train-step").arg(serde_json::to_string(setting)?))
}

/// Medians of each figure.
pub(super) fn median(runs: &[StepFigures]) -> StepFigures {
    let of = |figure: fn(&StepFigures) -> f64| statistics::median(runs.iter().map(figure));
    let parameters = runs.first().map_or(0, |run| run.parameters);
    StepFigures { tok_s: of(|run| run.tok_s), memory_mb: of(|run| run.memory_mb), parameters }
}

fn model(vocabulary: usize, longest: usize) -> anyhow::Result<ModelConfig> {
    let form = json!({
        "model_type": "qwen3", "vocab_size": vocabulary, "hidden_size": 384, "intermediate_size": 1152, "num_hidden_layers": 8,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": true,
        "max_position_embeddings": longest.max(1024),
    });
    Ok(ModelConfig::from_json(&form.to_string())?)
}

/// A batch of made-up tokens: one prompt token each, so that every row predicts one.
fn batch(setting: &StepSetting) -> Vec<Sequence> {
    let mut tokens = (0..).map(|t: usize| (t * 7919 % setting.vocabulary) as u32);
    let sequence = |(group, &rows): (usize, &usize)| Sequence {
        prompt: tokens.by_ref().take(1).collect(),
        response: tokens.by_ref().take(rows).collect(),
        heard: Vec::new(),
        group,
    };
    setting.lengths.iter().enumerate().map(sequence).collect()
}

/// Makes the steps of `setting` in this process, on random weights.
///
/// # Errors
/// When the model cannot be made, or a step fails.
pub fn run(setting: &StepSetting) -> anyhow::Result<StepFigures> {
    let config = model(setting.vocabulary, setting.lengths.iter().copied().max().unwrap_or_default())?;
    let decoder = Decoder::trainable(&config, &Weights::random(&config, 0), &Device::Cpu)?;
    let sequences = batch(setting);
    let parts = match setting.split {
        Split::Tokens(budget) => micro_batches(&sequences, budget, 1, false)?,
        Split::Sequences(count) => {
            let indices: Vec<usize> = (0..sequences.len()).collect();
            indices.chunks(count).map(<[usize]>::to_vec).collect()
        }
    };
    let (before, _) = memory::resident()?;
    let mut optimizer =
        AdamW::new(decoder.vars().to_vec(), AdamWConfig::default(), Schedule::constant(1e-4, 0))?;
    let mut gradients = Gradients::zeros(&decoder)?;
    let mut seconds = Vec::new();
    for _ in 0..setting.steps {
        let since = Instant::now();
        gradients.zero()?;
        for part in &parts {
            pass(&decoder, &sequences, part, setting.activations, &mut gradients)?;
        }
        optimizer.step(gradients.buffers())?;
        seconds.push(since.elapsed().as_secs_f64());
    }
    let (_, peak) = memory::resident()?;
    let tokens = setting.lengths.iter().sum::<usize>() as f64;
    ensure!(!seconds.is_empty(), "no step was made");
    Ok(StepFigures {
        tok_s: tokens / statistics::median(seconds),
        memory_mb: peak - before,
        parameters: config.parameter_count(),
    })
}

/// Adds the gradients of a micro-batch.
fn pass(
    decoder: &Decoder,
    sequences: &[Sequence],
    part: &[usize],
    activations: Activations,
    gradients: &mut Gradients,
) -> anyhow::Result<()> {
    let objective = Objective { correction: None, ..Preset::DecoupledPpo.objective() };
    let (packed, targets) = pack(sequences, part)?;
    let scored = decoder.score_for_training(&packed, &targets, activations)?;
    let logp: Vec<f64> = scored.scores().logp.iter().map(|logp| f64::from(*logp)).collect();
    let known = Known { behaviour: logp.clone(), advantage: vec![1.0], ..Known::default() };
    let Evaluation { d_logp, .. } = objective.plan(vec![known], 0)?.evaluate(&[ScoredResponse {
        response: 0,
        logp: &logp,
        entropy: &[],
    }])?;
    let slopes: Vec<f32> = d_logp.iter().flatten().map(|d| *d as f32).collect();
    Ok(scored.backward(&slopes, None, gradients)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_made_and_measured() {
        let setting = StepSetting {
            lengths: vec![5, 3, 2],
            split: Split::Tokens(6),
            vocabulary: 64,
            activations: Activations::Recompute,
            steps: 1,
        };
        let sequences = batch(&setting);
        assert_eq!(sequences.iter().map(Sequence::rows).collect::<Vec<_>>(), setting.lengths);
        let step = run(&setting).unwrap();
        assert!(step.tok_s > 0.0 && step.memory_mb > 0.0);
        assert_eq!(step.parameters, 16_915_840 - (8192 - 64) * 384);
        run(&StepSetting { split: Split::Sequences(2), ..setting }).unwrap();
    }
}
