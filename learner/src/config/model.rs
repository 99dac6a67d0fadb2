//! `[model]`

use echo_policy::model::config::TinySizes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[model]`: exactly one of `path` and `tiny`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// A Hugging Face directory with weights and tokenizer, or a model's name on the Hub.
    pub path: Option<PathBuf>,
    /// Whether prompts, and what environments say, are messages of the chat template in `path`;
    /// left out, where one is there. The same as `[prompt] chat`.
    pub chat: Option<bool>,
    /// A small model of the Qwen3 form with random weights and the character tokenizer.
    pub tiny: Option<TinySection>,
}

/// `[model.tiny]`: the sizes of a model with random weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TinySection {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Transformer layers, each attention and an MLP.
    pub layers: usize,
    /// Query heads in each layer; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Width of the MLP.
    pub intermediate: usize,
    /// Longest sequence, in tokens.
    pub positions: usize,
}

impl TinySection {
    /// The model's sizes with a vocabulary of `vocab` tokens.
    pub fn sizes(&self, vocab: usize) -> TinySizes {
        let Self { hidden, layers, heads, kv_heads, head_dim, intermediate, positions } = *self;
        TinySizes { vocab, hidden, layers, heads, kv_heads, head_dim, intermediate, positions }
    }
}
