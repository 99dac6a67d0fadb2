//! The shape of a language model, read from and written to a Hugging Face `config.json`.

mod error;
mod parse;
mod rope;
mod write;

pub use error::ModelConfigError;
pub use rope::RopeScaling;

/// Longest `config.json` that is read, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Most token ids of a vocabulary.
pub const MAX_VOCAB: usize = 1 << 20;
/// Largest width of the residual stream.
pub const MAX_HIDDEN: usize = 1 << 15;
/// Largest intermediate size of the MLP.
pub const MAX_INTERMEDIATE: usize = 1 << 17;
/// Largest number of layers.
pub const MAX_LAYERS: usize = 256;
/// Largest number of query heads.
pub const MAX_HEADS: usize = 512;
/// Largest number of dimensions of an attention head.
pub const MAX_HEAD_DIM: usize = 1 << 10;
/// Largest number of positions.
pub const MAX_POSITIONS: usize = 1 << 24;
/// Largest number of end-of-sequence ids.
pub const MAX_EOS_IDS: usize = 64;
/// Largest number of parameters: sizes that are each within their limit may still
/// multiply to something absurd.
pub const MAX_PARAMETERS: u64 = 1 << 40;

/// The decoder families, which differ in biases and in the normalisation of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Qwen3: RMS norm on every query and key head.
    Qwen3,
    /// Qwen2 and Qwen2.5: biases on q, k and v.
    Qwen2,
    /// Llama 3 and models of the same form.
    Llama,
}

/// The shape and constants of a decoder. Fields are named as in `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Which family of decoders.
    pub family: Family,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP.
    pub intermediate_size: usize,
    /// Number of decoder layers, each attention and MLP.
    pub num_hidden_layers: usize,
    /// Query heads of each layer.
    pub num_attention_heads: usize,
    /// Key and value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Width of one head; even.
    pub head_dim: usize,
    /// Longest sequence, in tokens: prompt and response together.
    pub max_position_embeddings: usize,
    /// Epsilon of every RMS norm.
    pub rms_norm_eps: f64,
    /// Base of the rotary embedding.
    pub rope_theta: f64,
    /// How the rotary frequencies are stretched.
    pub rope_scaling: RopeScaling,
    /// Whether the output projection is the embedding.
    pub tie_word_embeddings: bool,
    /// Biases on the attention projections (q, k, v and o; in Qwen2 always on q, k and v, never on o).
    pub attention_bias: bool,
    /// Biases on the MLP projections (Llama only).
    pub mlp_bias: bool,
    /// Standard deviation of random weights.
    pub initializer_range: f64,
    /// Id that begins a sequence; None where none is declared.
    pub bos_token_id: Option<u32>,
    /// Ids that end a response.
    pub eos_token_ids: Vec<u32>,
    /// Id that pads sequences; None where none is declared.
    pub pad_token_id: Option<u32>,
}

/// The sizes of a small Qwen3-form model, for [`ModelConfig::tiny_qwen3`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TinySizes {
    /// Number of token ids.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Query heads of each layer.
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

impl ModelConfig {
    /// A small model of the Qwen3 form with tied embeddings, without special tokens.
    ///
    /// # Errors
    /// When a size is zero, beyond its limit or does not fit the others.
    pub fn tiny_qwen3(sizes: TinySizes) -> Result<Self, ModelConfigError> {
        let config = Self {
            family: Family::Qwen3,
            vocab_size: sizes.vocab,
            hidden_size: sizes.hidden,
            intermediate_size: sizes.intermediate,
            num_hidden_layers: sizes.layers,
            num_attention_heads: sizes.heads,
            num_key_value_heads: sizes.kv_heads,
            head_dim: sizes.head_dim,
            max_position_embeddings: sizes.positions,
            rms_norm_eps: 1e-6,
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::Default,
            tie_word_embeddings: true,
            attention_bias: false,
            mlp_bias: false,
            initializer_range: 0.02,
            bos_token_id: None,
            eos_token_ids: Vec::new(),
            pad_token_id: None,
        };
        config.validate()?;
        Ok(config)
    }

    /// Width of all query heads together.
    pub fn q_dim(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Width of all key (or value) heads together.
    pub fn kv_dim(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// Bytes of the keys and values of one token in all layers, in f32. The caches of a backend may have
    /// padding besides.
    pub fn key_value_bytes_per_token(&self) -> u64 {
        let numbers = 2 * self.num_hidden_layers * self.kv_dim();
        (numbers * size_of::<f32>()) as u64
    }

    /// Whether queries and keys pass an RMS norm per head.
    pub fn has_qk_norm(&self) -> bool {
        self.family == Family::Qwen3
    }

    /// Whether q, k and v have biases.
    pub fn has_qkv_bias(&self) -> bool {
        self.family == Family::Qwen2 || self.attention_bias
    }

    /// Whether the attention's output projection has a bias.
    pub fn has_o_bias(&self) -> bool {
        self.family != Family::Qwen2 && self.attention_bias
    }

    /// Rotary inverse frequencies, `[head_dim / 2]`, in f32 as transformers computes them.
    pub fn inv_freq(&self) -> Vec<f32> {
        rope::inv_freq(self.head_dim, self.rope_theta, &self.rope_scaling)
    }

    /// Number of parameters, embeddings counted once when they are tied.
    pub fn parameter_count(&self) -> u64 {
        let (h, i) = (self.hidden_size as u64, self.intermediate_size as u64);
        let (q, kv, d) = (self.q_dim() as u64, self.kv_dim() as u64, self.head_dim as u64);
        let bias = u64::from(self.has_qkv_bias()) * (q + 2 * kv)
            + u64::from(self.has_o_bias()) * h
            + u64::from(self.mlp_bias) * (2 * i + h);
        let layer = h * (2 * q + 2 * kv) + 3 * h * i + 2 * h + u64::from(self.has_qk_norm()) * 2 * d + bias;
        let embeddings = if self.tie_word_embeddings { 1 } else { 2 };
        self.num_hidden_layers as u64 * layer + h + embeddings * self.vocab_size as u64 * h
    }

    /// Checks every size against its limit and against the others.
    ///
    /// # Errors
    /// The first size that does not hold.
    pub fn validate(&self) -> Result<(), ModelConfigError> {
        for (field, value, limit) in [
            ("vocab_size", self.vocab_size, MAX_VOCAB),
            ("hidden_size", self.hidden_size, MAX_HIDDEN),
            ("intermediate_size", self.intermediate_size, MAX_INTERMEDIATE),
            ("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", self.num_attention_heads, MAX_HEADS),
            ("num_key_value_heads", self.num_key_value_heads, MAX_HEADS),
            ("head_dim", self.head_dim, MAX_HEAD_DIM),
            ("max_position_embeddings", self.max_position_embeddings, MAX_POSITIONS),
        ] {
            if value == 0 || value > limit {
                return Err(ModelConfigError::Size { field, value: value as u64, limit: limit as u64 });
            }
        }
        let inconsistent = |text: &str| Err(ModelConfigError::Inconsistent(text.into()));
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            return inconsistent("num_key_value_heads must divide num_attention_heads");
        }
        if !self.head_dim.is_multiple_of(2) {
            return inconsistent("head_dim must be even for rotary embeddings");
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps > 0.0) {
            return inconsistent("rms_norm_eps must be a positive number");
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return inconsistent("rope_theta must be a positive number");
        }
        if !(self.initializer_range.is_finite() && self.initializer_range >= 0.0) {
            return inconsistent("initializer_range must be a number that is not negative");
        }
        if self.mlp_bias && self.family != Family::Llama {
            return inconsistent("mlp_bias exists in the Llama family only");
        }
        if self.eos_token_ids.len() > MAX_EOS_IDS {
            return inconsistent("eos_token_id lists more than 64 ids");
        }
        if self.parameter_count() > MAX_PARAMETERS {
            return inconsistent("the sizes multiply to more than 2^40 parameters");
        }
        self.rope_scaling.validate()
    }
}

#[cfg(test)]
mod tests;
