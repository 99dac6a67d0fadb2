//! Random models of every family, with and without what each may have, in every type of stored weights.

use candle_core::Device;

use super::AgreementError;
use crate::model::config::ModelConfig;
use crate::model::weights::{DType, RawTensor, WeightTensor, Weights};
use crate::training::decoder::Decoder;

/// Seed of the weights.
const SEED: u64 = 11;
/// How far norms are from 1 and biases from 0, at most: else mistakes in their use would not show.
const UNEVEN: f32 = 0.3;

/// A model, and what it is called in messages.
pub struct NamedModel {
    /// What reports and failures call it.
    pub name: &'static str,
    /// Shape that leaves blocks, pages and vectors partly filled.
    pub config: ModelConfig,
    /// As they would be published.
    pub weights: Weights,
}

impl NamedModel {
    /// The f32 reference with these weights.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn reference(&self) -> Result<Decoder, AgreementError> {
        Ok(Decoder::trainable(&self.config, &self.weights, &Device::Cpu)?.composed())
    }
}

/// Five models, each of which leaves no block, page or vector of a kernel whole. Grouped
/// heads, heads that share one key and heads of their own; output projections that are the
/// embedding and that are not; biases, norms of heads and stretched rotations. 700 positions:
/// more than a call's tokens.
///
/// A matrix keeps the size of what it multiplies, as the matrices of real models about do, so
/// logits are about as far apart as 1.
///
/// # Errors
/// Never but by a mistake in this list.
pub fn models() -> Result<Vec<NamedModel>, AgreementError> {
    let llama = r#","attention_bias":true,"mlp_bias":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"llama3",
        "factor":4.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":16}"#;
    let tied = r#","head_dim":40,"tie_word_embeddings":true"#;
    let biased = r#","head_dim":66,"attention_bias":true,"tie_word_embeddings":false"#;
    let narrow = r#","head_dim":16,"tie_word_embeddings":true"#;
    [
        // Name, family, vocabulary, hidden, intermediate, heads, heads of keys, the rest.
        ("qwen3 in bf16, tied", "qwen3", [1201, 96, 250, 6, 2], tied, DType::BF16),
        ("qwen3 in f16 with biases", "qwen3", [263, 64, 90, 10, 1], biased, DType::F16),
        ("qwen2 in bf16", "qwen2", [500, 56, 77, 4, 2], r#","tie_word_embeddings":false"#, DType::BF16),
        ("llama in f32 with biases", "llama", [97, 40, 51, 5, 5], llama, DType::F32),
        ("qwen3 in f32, tied", "qwen3", [640, 128, 200, 8, 4], narrow, DType::F32),
    ]
    .into_iter()
    .map(|(name, kind, [vocab, hidden, inner, heads, kv_heads], rest, dtype)| {
        let deviation = 1.0 / f64::from(hidden).sqrt();
        let config = ModelConfig::from_json(&format!(
            r#"{{"model_type":"{kind}","vocab_size":{vocab},"hidden_size":{hidden},"intermediate_size":{inner},
            "num_attention_heads":{heads},"num_key_value_heads":{kv_heads},"num_hidden_layers":2,
            "max_position_embeddings":700,"initializer_range":{deviation}{rest}}}"#
        ))?;
        let raw = Weights::random(&config, SEED).iter().map(|tensor| uneven(tensor, dtype)).collect::<Vec<_>>();
        let weights = Weights::from_raw(&config, raw)?;
        Ok(NamedModel { name, config, weights })
    })
    .collect()
}

fn uneven(tensor: &WeightTensor, dtype: DType) -> RawTensor {
    let mut values = tensor.to_f32();
    if tensor.shape().len() == 1 {
        values.iter_mut().enumerate().for_each(|(i, value)| *value += UNEVEN * (i as f32 * 1.7).sin());
    }
    RawTensor::from_f32(tensor.name(), tensor.shape(), &values, dtype)
}
