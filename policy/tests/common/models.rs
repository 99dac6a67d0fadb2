//! Small models of every family.

use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::{DType, RawTensor, Weights};

/// A model, and what it is called in messages.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
}

/// Every family with and without what it may have, in every type of stored weights.
pub(crate) fn all() -> Vec<Model> {
    let wide =
        r#","hidden_size":160,"intermediate_size":300,"num_attention_heads":6,"num_key_value_heads":2"#;
    let narrow =
        r#","hidden_size":16,"intermediate_size":20,"num_attention_heads":4,"num_key_value_heads":2"#;
    let lone = r#","hidden_size":64,"intermediate_size":90,"num_attention_heads":10,"num_key_value_heads":1"#;
    let llama = r#","attention_bias":true,"mlp_bias":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"llama3",
        "factor":4.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":16}"#;
    [
        ("qwen3", "qwen3", wide, r#","head_dim":40,"tie_word_embeddings":true"#, DType::BF16),
        ("qwen3 in f32", "qwen3", narrow, r#","head_dim":6,"tie_word_embeddings":true"#, DType::F32),
        ("qwen3 with biases", "qwen3", lone, r#","head_dim":130,"attention_bias":true"#, DType::F16),
        ("qwen2", "qwen2", narrow, r#","tie_word_embeddings":false"#, DType::BF16),
        ("llama", "llama", narrow, llama, DType::F32),
    ]
    .map(|(name, kind, sizes, extra, dtype)| {
        let text = format!(
            r#"{{"model_type":"{kind}","vocab_size":1201,"num_hidden_layers":2,"max_position_embeddings":700,
            "initializer_range":0.2{sizes}{extra}}}"#
        );
        let config = ModelConfig::from_json(&text).expect("a configuration");
        let weights = uneven(&config, Weights::random(&config, 11), dtype);
        Model { name, config, weights }
    })
    .into()
}

/// The first of them.
pub(crate) fn one() -> Model {
    all().remove(0)
}

/// The smallest sizes with which a policy says different things: for whole generations.
pub(crate) fn tiny() -> Model {
    let sizes = TinySizes {
        vocab: 40,
        hidden: 24,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        intermediate: 40,
        positions: 256,
    };
    let config = ModelConfig::tiny_qwen3(sizes).expect("a configuration");
    let config = ModelConfig { initializer_range: 0.3, ..config };
    let weights = Weights::random(&config, 3);
    Model { name: "tiny", config, weights }
}

/// Norms of 1 and biases of 0 would hide mistakes in their use.
fn uneven(config: &ModelConfig, weights: Weights, dtype: DType) -> Weights {
    let raw = weights.iter().map(|tensor| {
        let mut values = tensor.to_f32();
        if tensor.shape().len() == 1 {
            values.iter_mut().enumerate().for_each(|(i, value)| *value += 0.3 * (i as f32 * 1.7).sin());
        }
        RawTensor::from_f32(tensor.name(), tensor.shape(), &values, dtype)
    });
    Weights::from_raw(config, raw.collect::<Vec<_>>()).expect("the same tensors")
}

/// Tokens that follow from a number.
pub(crate) fn tokens(salt: u32, count: u32, config: &ModelConfig) -> Vec<u32> {
    (0..count).map(|i| (i * i * 17 + i * salt + salt * 71) % config.vocab_size as u32).collect()
}
