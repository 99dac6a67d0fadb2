//! The f32 CPU backend.
//!
//! **What holds about numbers.** The logits after a token are the same, bit for bit, whether the token was fed alone or in
//! a batch, in one call with its prompt or in a later one, with a shared or an own cache, and with any number of threads.
//! Every reduction runs in an order that depends on the model's shape and on the processor alone. Processors with
//! different vector units or caches may differ in the last bits of matrix products.

mod attention;
mod layer;
mod matrix;

use super::backend::{Backend, Feed, Logits, MAX_CALL_TOKENS, Want};
use super::cache::KvCache;
use crate::config::ModelConfig;
use crate::error::{EngineError, WeightsError};
use crate::math;
use crate::weights::Weights;
use layer::Layer;
use matrix::{Matrix, padded_rows};

/// A model in f32 on the CPU; bf16 and f16 weights are widened when loaded.
pub struct CpuBackend {
    config: ModelConfig,
    inv_freq: Vec<f32>,
    /// `[vocab, hidden]`; absent when tied: rows are then read from the columns of `head`.
    embedding: Option<Vec<f32>>,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    head: Matrix,
}

impl CpuBackend {
    /// Loads weights.
    ///
    /// # Errors
    /// When the weights are not those of `config`.
    pub fn load(config: &ModelConfig, weights: &Weights) -> Result<Self, EngineError> {
        let get = |name: &str| {
            let tensor = weights.get(name);
            tensor.map(|t| t.to_f32()).ok_or_else(|| WeightsError::Missing { name: name.to_owned() })
        };
        for spec in crate::weights::expected_tensors(config) {
            let found = weights.get(&spec.name).map(|tensor| tensor.shape().to_vec());
            if found.as_ref().is_some_and(|found| *found != spec.shape) {
                let (name, expected) = (spec.name, spec.shape);
                return Err(WeightsError::Shape { name, found: found.unwrap_or_default(), expected }.into());
            }
        }
        let table = get("model.embed_tokens.weight")?;
        let (vocab, hidden) = (config.vocab_size, config.hidden_size);
        let (embedding, head) = if config.tie_word_embeddings {
            (None, Matrix::new(hidden, &[(vocab, &table)]))
        } else {
            (Some(table), Matrix::new(hidden, &[(vocab, &get("lm_head.weight")?)]))
        };
        let layers = (0..config.num_hidden_layers)
            .map(|index| Layer::load(config, &format!("model.layers.{index}"), &get))
            .collect::<Result<_, WeightsError>>()?;
        let norm = get("model.norm.weight")?;
        let inv_freq = config.inv_freq();
        Ok(Self { config: config.clone(), inv_freq, embedding, layers, norm, head })
    }

    fn check(&self, feeds: &[Feed<'_, KvCache>]) -> Result<usize, EngineError> {
        let config = &self.config;
        let total = feeds.iter().map(|feed| feed.tokens.len()).sum();
        if total > MAX_CALL_TOKENS {
            return Err(EngineError::Limit {
                what: "tokens in a call",
                value: total,
                limit: MAX_CALL_TOKENS,
            });
        }
        for (request, feed) in feeds.iter().enumerate() {
            if feed.tokens.is_empty() {
                return Err(EngineError::EmptyPrompt { request });
            }
            if !self.accepts(feed.cache) {
                return Err(EngineError::ForeignCache);
            }
            let (tokens, limit) = (feed.cache.len() + feed.tokens.len(), config.max_position_embeddings);
            if tokens > limit {
                return Err(EngineError::TooLong { tokens, limit });
            }
            if let Some(token) = feed.tokens.iter().find(|token| **token as usize >= config.vocab_size) {
                return Err(EngineError::Token { token: *token, vocab: config.vocab_size });
            }
        }
        Ok(total)
    }

    fn embed(&self, token: u32, row: &mut [f32]) {
        let token = token as usize;
        match &self.embedding {
            Some(table) => row.copy_from_slice(&table[token * row.len()..(token + 1) * row.len()]),
            None => self.head.weight_row(token, row),
        }
    }

    /// Rows of the final hidden states that logits are wanted for, `[rows, hidden]` and padded.
    fn select(&self, x: &[f32], feeds: &[Feed<'_, KvCache>], want: Want) -> (usize, Vec<f32>) {
        let hidden = self.config.hidden_size;
        let mut rows = Vec::new();
        let mut start = 0;
        for feed in feeds {
            let end = start + feed.tokens.len();
            let from = if want == Want::All { start } else { end - 1 };
            rows.extend_from_slice(&x[from * hidden..end * hidden]);
            start = end;
        }
        let count = rows.len() / hidden;
        rows.resize(padded_rows(count) * hidden, 0.0);
        (count, rows)
    }
}

impl Backend for CpuBackend {
    type Cache = KvCache;

    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn new_cache(&self) -> KvCache {
        KvCache::new(self.config.num_hidden_layers, self.config.kv_dim())
    }

    fn freeze(&self, cache: &mut KvCache) {
        cache.freeze();
    }

    fn cached_tokens(&self, cache: &KvCache) -> usize {
        cache.len()
    }

    fn cache_bytes_per_token(&self) -> usize {
        2 * self.config.num_hidden_layers * self.config.kv_dim() * size_of::<f32>()
    }

    fn accepts(&self, cache: &KvCache) -> bool {
        cache.fits(self.config.num_hidden_layers, self.config.kv_dim())
    }

    fn forward(&self, feeds: &mut [Feed<'_, KvCache>], want: Want) -> Result<Logits, EngineError> {
        let total = self.check(feeds)?;
        let (vocab, hidden) = (self.config.vocab_size, self.config.hidden_size);
        if total == 0 {
            return Ok(Logits::new(vocab, Vec::new()));
        }
        let half = self.inv_freq.len();
        let mut x = vec![0.0; padded_rows(total) * hidden];
        let (mut cos, mut sin) = (vec![0.0; total * half], vec![0.0; total * half]);
        let mut row = 0;
        for feed in feeds.iter() {
            for (offset, token) in feed.tokens.iter().enumerate() {
                self.embed(*token, &mut x[row * hidden..(row + 1) * hidden]);
                let angles = row * half..(row + 1) * half;
                let position = feed.cache.len() + offset;
                math::rope_row(position, &self.inv_freq, &mut cos[angles.clone()], &mut sin[angles]);
                row += 1;
            }
        }
        let mut scratch = layer::Scratch::new(&self.config, total);
        for (index, layer) in self.layers.iter().enumerate() {
            layer.forward(&self.config, index, &mut x, feeds, (&cos, &sin), &mut scratch);
        }
        for feed in feeds.iter_mut() {
            feed.cache.advance(feed.tokens.len());
        }
        if want == Want::Nothing {
            return Ok(Logits::new(vocab, Vec::new()));
        }
        let (count, rows) = self.select(&x, feeds, want);
        let mut normed = vec![0.0; rows.len()];
        layer::rms_norm(&rows, &self.norm, self.config.rms_norm_eps as f32, &mut normed);
        let mut logits = vec![0.0; padded_rows(count) * vocab];
        self.head.multiply(&normed, hidden, padded_rows(count), &mut logits, false);
        logits.truncate(count * vocab);
        Ok(Logits::new(vocab, logits))
    }
}
