//! Which tensors a configuration has, in which order.

use crate::model::config::ModelConfig;

/// Name and shape of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Hugging Face name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Shape, row-major; linear weights are `[out, in]`.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Number of elements; saturates, so that a hostile shape cannot overflow.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1usize, |product, &side| product.saturating_mul(side))
    }
}

/// The tensors of `config` in the canonical order: embedding, layers from the first to the last,
/// final norm, and the output projection when it is not tied. Snapshots, optimizer states and
/// [`crate::training::decoder::Decoder::vars`] use this order.
pub fn expected_tensors(config: &ModelConfig) -> Vec<TensorSpec> {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let mut specs = Vec::new();
    let mut push = |name: String, shape: &[usize]| specs.push(TensorSpec { name, shape: shape.to_vec() });
    push("model.embed_tokens.weight".into(), &[config.vocab_size, hidden]);
    for layer in 0..config.num_hidden_layers {
        let prefix = format!("model.layers.{layer}");
        let qkv = [("q_proj", config.q_dim()), ("k_proj", config.kv_dim()), ("v_proj", config.kv_dim())];
        push(format!("{prefix}.input_layernorm.weight"), &[hidden]);
        for (part, out) in qkv {
            push(format!("{prefix}.self_attn.{part}.weight"), &[out, hidden]);
            if config.has_qkv_bias() {
                push(format!("{prefix}.self_attn.{part}.bias"), &[out]);
            }
        }
        if config.has_qk_norm() {
            push(format!("{prefix}.self_attn.q_norm.weight"), &[config.head_dim]);
            push(format!("{prefix}.self_attn.k_norm.weight"), &[config.head_dim]);
        }
        push(format!("{prefix}.self_attn.o_proj.weight"), &[hidden, config.q_dim()]);
        if config.has_o_bias() {
            push(format!("{prefix}.self_attn.o_proj.bias"), &[hidden]);
        }
        push(format!("{prefix}.post_attention_layernorm.weight"), &[hidden]);
        for (part, out, input) in
            [("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner)]
        {
            push(format!("{prefix}.mlp.{part}.weight"), &[out, input]);
            if config.mlp_bias {
                push(format!("{prefix}.mlp.{part}.bias"), &[out]);
            }
        }
    }
    push("model.norm.weight".into(), &[hidden]);
    if !config.tie_word_embeddings {
        push("lm_head.weight".into(), &[config.vocab_size, hidden]);
    }
    specs
}
