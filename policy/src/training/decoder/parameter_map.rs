//! Which variable is which part of the model: the one description of the decoder
//! that both implementations follow.

use std::collections::BTreeMap;

use crate::model::config::ModelConfig;
use crate::model::weights::{TensorSpec, WeightsError};

/// A linear map y = x · Wᵀ + b by the places of its variables.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinearPlace {
    pub(super) weight: usize,
    pub(super) bias: Option<usize>,
    pub(super) input: usize,
    pub(super) output: usize,
}

/// The variables of one layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerPlace {
    pub(super) input_norm: usize,
    pub(super) q: LinearPlace,
    pub(super) k: LinearPlace,
    pub(super) v: LinearPlace,
    /// Norms of the query and key heads, in families that have them.
    pub(super) q_norm: Option<usize>,
    pub(super) k_norm: Option<usize>,
    pub(super) o: LinearPlace,
    pub(super) post_norm: usize,
    pub(super) gate: LinearPlace,
    pub(super) up: LinearPlace,
    pub(super) down: LinearPlace,
}

/// The variables of the model, as indices into [`super::Decoder::vars`].
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) embedding: usize,
    pub(super) layers: Vec<LayerPlace>,
    pub(super) norm: usize,
    /// The embedding itself when the two are tied.
    pub(super) head: usize,
}

impl LinearPlace {
    fn variables(&self) -> impl Iterator<Item = usize> {
        [Some(self.weight), self.bias].into_iter().flatten()
    }
}

impl LayerPlace {
    /// Every variable of the layer.
    pub(super) fn variables(&self) -> impl Iterator<Item = usize> {
        let norms = [Some(self.input_norm), self.q_norm, self.k_norm, Some(self.post_norm)];
        let linears = [self.q, self.k, self.v, self.o, self.gate, self.up, self.down];
        norms
            .into_iter()
            .flatten()
            .chain(linears.into_iter().flat_map(|linear| linear.variables().collect::<Vec<_>>()))
    }
}

impl Places {
    /// Finds the parts of `config`'s model among its tensors.
    pub(super) fn new(config: &ModelConfig, tensors: &[TensorSpec]) -> Result<Self, WeightsError> {
        let by_name: BTreeMap<&str, usize> =
            tensors.iter().enumerate().map(|(index, spec)| (spec.name.as_str(), index)).collect();
        let get = |name: &str| by_name.get(name).copied();
        let need = |name: &str| get(name).ok_or_else(|| WeightsError::Missing { name: name.to_owned() });
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (q_dim, kv_dim) = (config.q_dim(), config.kv_dim());
        let layer = |index: usize| {
            let prefix = format!("model.layers.{index}");
            let norm = |part: &str| need(&format!("{prefix}.{part}.weight"));
            let linear = |part: &str, input: usize, output: usize| {
                let bias = get(&format!("{prefix}.{part}.bias"));
                Ok::<_, WeightsError>(LinearPlace { weight: norm(part)?, bias, input, output })
            };
            let head_norm = |part: &str| if config.has_qk_norm() { norm(part).map(Some) } else { Ok(None) };
            Ok(LayerPlace {
                input_norm: norm("input_layernorm")?,
                q: linear("self_attn.q_proj", hidden, q_dim)?,
                k: linear("self_attn.k_proj", hidden, kv_dim)?,
                v: linear("self_attn.v_proj", hidden, kv_dim)?,
                q_norm: head_norm("self_attn.q_norm")?,
                k_norm: head_norm("self_attn.k_norm")?,
                o: linear("self_attn.o_proj", q_dim, hidden)?,
                post_norm: norm("post_attention_layernorm")?,
                gate: linear("mlp.gate_proj", hidden, inner)?,
                up: linear("mlp.up_proj", hidden, inner)?,
                down: linear("mlp.down_proj", inner, hidden)?,
            })
        };
        let embedding = need("model.embed_tokens.weight")?;
        Ok(Self {
            embedding,
            layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, WeightsError>>()?,
            norm: need("model.norm.weight")?,
            head: if config.tie_word_embeddings { embedding } else { need("lm_head.weight")? },
        })
    }
}
