//! The model that everybody answers with, and the orders.

use super::super::Order;
use super::super::policies::{elsewhere, with_norms};
use super::VocabularyStudy;
use crate::models::random_weights;
use echo_policy::bench_models;
use echo_policy::generation::Policy;
use echo_policy::generation::wgpu::{Gpu, WgpuBackend};
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::{DrawRule, SamplingParams};
use echo_policy::text::tokenizer::Tokenizer;
use std::path::Path;
use std::sync::Arc;

/// Prompts that orders take in turn.
const PROMPTS: u64 = 64;
/// Tokens of a prompt of the random model.
const PROMPT_TOKENS: usize = 12;
/// What random logits are multiplied with: so they have the deviation of those of larger random
/// models, for which limits were measured.
const SHARPER: f32 = 4.0;

/// A published policy, and what is asked of nodes.
pub(super) struct Setting {
    config: ModelConfig,
    weights: Weights,
    prompts: Vec<Vec<u32>>,
    tokens: u32,
    seed: u64,
}

impl Setting {
    pub(super) fn of(study: &VocabularyStudy) -> anyhow::Result<Self> {
        let (tokens, seed) = (study.tokens, study.seed);
        let (config, weights, prompts) = match &study.model {
            Some(dir) => published(dir)?,
            None => random(study.vocabulary, tokens)?,
        };
        Ok(Self { config, weights, prompts, tokens, seed })
    }

    /// The policy as the audit and honest machines of its kind compute it.
    pub(super) fn policy(&self, precision: Precision) -> anyhow::Result<Arc<Policy>> {
        Ok(Arc::new(Policy::load_as(1, &self.config, &self.weights, precision)?))
    }

    /// The same on a machine that adds in another order.
    pub(super) fn elsewhere(&self, precision: Precision) -> anyhow::Result<Arc<Policy>> {
        let weights = elsewhere(&self.config, &self.weights)?;
        Ok(Arc::new(Policy::load_as(1, &self.config, &weights, precision)?))
    }

    /// The same on a GPU, in f32.
    pub(super) fn on_gpu(&self, gpu: &Arc<Gpu>) -> anyhow::Result<Arc<Policy<WgpuBackend>>> {
        Ok(Arc::new(Policy::new(1, WgpuBackend::load(gpu, &self.config, &self.weights)?)))
    }

    pub(super) fn vocabulary(&self) -> usize {
        self.config.vocab_size
    }

    /// Tokens race.
    pub(super) fn params(&self) -> SamplingParams {
        SamplingParams { rule: DrawRule::Race, ..SamplingParams::unbiased(self.tokens) }
    }

    /// Order `group` of a node. No two nodes of a study have the same.
    pub(super) fn order(&self, node: u64, group: u64) -> Order {
        let mut seed = [0; 32];
        for (bytes, number) in seed.chunks_exact_mut(8).zip([self.seed, node, group]) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let prompt = self.prompts[((node + group) % self.prompts.len() as u64) as usize].clone();
        Order { prompt, seed }
    }
}

/// Random weights over a vocabulary of so many tokens.
fn random(vocabulary: usize, tokens: u32) -> anyhow::Result<(ModelConfig, Weights, Vec<Vec<u32>>)> {
    let config = ModelConfig::tiny_qwen3(TinySizes {
        vocab: vocabulary,
        hidden: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        intermediate: 128,
        positions: PROMPT_TOKENS + tokens as usize,
    })?;
    let weights = with_norms(&config, &bench_models::weights(&config)?, |name, value| {
        if name == "model.norm.weight" { SHARPER * value } else { value }
    })?;
    let prompt = |stream| random_weights::tokens(stream, PROMPT_TOKENS, vocabulary);
    Ok((config, weights, (0..PROMPTS).map(prompt).collect()))
}

/// A model of the Hugging Face directory `dir`, and questions to it.
fn published(dir: &Path) -> anyhow::Result<(ModelConfig, Weights, Vec<Vec<u32>>)> {
    let config = ModelConfig::from_file(&dir.join("config.json"))?;
    let (weights, tokenizer) = (Weights::load_dir(dir, &config)?, Tokenizer::from_dir(dir)?);
    let question = |at: u64| format!("What is {} plus {}? Tell me how you know.", 7 * at % 90, 13 * at % 70);
    let prompts = (0..PROMPTS).map(|at| tokenizer.encode(&question(at))).collect::<Result<Vec<_>, _>>()?;
    Ok((config, weights, prompts))
}
