//! Writing a `config.json` that `transformers` opens, whichever of the two rope forms its version reads.

use serde_json::{Value, json};

use super::{Family, ModelConfig, RopeScaling};
use crate::model::dtype::DType;

impl ModelConfig {
    /// The text of a `config.json` for weights stored as `dtype`.
    pub fn to_json(&self, dtype: DType) -> String {
        let (model_type, architecture) = match self.family {
            Family::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
            Family::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
            Family::Llama => ("llama", "LlamaForCausalLM"),
        };
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            many => json!(many),
        };
        let (older, newer) = self.rope_json();
        let torch_dtype = match dtype {
            DType::F32 => "float32",
            DType::BF16 => "bfloat16",
            DType::F16 => "float16",
        };
        let mut root = json!({
            "architectures": [architecture],
            "model_type": model_type,
            "dtype": torch_dtype,
            "torch_dtype": torch_dtype,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": self.max_position_embeddings,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": older,
            "rope_parameters": newer,
            "tie_word_embeddings": self.tie_word_embeddings,
            "attention_dropout": 0.0,
            "initializer_range": self.initializer_range,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": eos,
            "pad_token_id": self.pad_token_id,
            "use_cache": true,
        });
        match self.family {
            Family::Qwen3 => root["attention_bias"] = json!(self.attention_bias),
            Family::Qwen2 => {}
            Family::Llama => {
                root["attention_bias"] = json!(self.attention_bias);
                root["mlp_bias"] = json!(self.mlp_bias);
            }
        }
        if self.family != Family::Llama {
            root["use_sliding_window"] = json!(false);
        }
        format!("{root:#}\n")
    }

    /// The same scaling in the older form (`rope_scaling`, null when there is none)
    /// and the newer (`rope_parameters`).
    fn rope_json(&self) -> (Value, Value) {
        let mut newer = match self.rope_scaling {
            RopeScaling::Default => json!({ "rope_type": "default" }),
            RopeScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                "original_max_position_embeddings": original_positions,
            }),
        };
        let older = if self.rope_scaling == RopeScaling::Default { Value::Null } else { newer.clone() };
        newer["rope_theta"] = json!(self.rope_theta);
        (older, newer)
    }
}
