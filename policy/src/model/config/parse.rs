//! Reading `config.json`, in the older form (`rope_theta`, `rope_scaling`) and the newer (`rope_parameters`).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use super::{Family, MAX_CONFIG_BYTES, ModelConfig, ModelConfigError, RopeScaling};

type Object = Map<String, Value>;

impl ModelConfig {
    /// Reads a `config.json` of at most [`MAX_CONFIG_BYTES`].
    ///
    /// # Errors
    /// When the file cannot be read, or as [`ModelConfig::from_json`].
    pub fn from_file(path: &Path) -> Result<Self, ModelConfigError> {
        let read = |source| ModelConfigError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(read)?;
        file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text).map_err(read)?;
        Self::from_json(&text)
    }

    /// Parses the text of a `config.json`; absent fields get transformers' defaults where it has any.
    ///
    /// # Errors
    /// When the text is malformed, a size is out of range, or the model needs something this
    /// decoder does not have: another family, a sliding window in use, another activation than
    /// silu, or an unknown rope type.
    pub fn from_json(text: &str) -> Result<Self, ModelConfigError> {
        if text.len() as u64 > MAX_CONFIG_BYTES {
            return Err(ModelConfigError::TooLarge { bytes: text.len() as u64, limit: MAX_CONFIG_BYTES });
        }
        let root: Object = serde_json::from_str(text)?;
        let family = family(&root)?;
        refuse_unsupported(&root)?;
        let hidden_size = size(&root, "hidden_size")?;
        let num_attention_heads = size(&root, "num_attention_heads")?;
        let num_hidden_layers = size(&root, "num_hidden_layers")?;
        refuse_sliding_window(&root, num_hidden_layers)?;
        let head_dim = match size_or_null(&root, "head_dim")? {
            Some(value) => value,
            None if num_attention_heads > 0 && hidden_size.is_multiple_of(num_attention_heads) => {
                hidden_size / num_attention_heads
            }
            None => {
                let text = "without head_dim, num_attention_heads must divide hidden_size";
                return Err(ModelConfigError::Inconsistent(text.into()));
            }
        };
        let (rope_theta, rope_scaling) = rope(&root)?;
        let config = Self {
            family,
            vocab_size: size(&root, "vocab_size")?,
            hidden_size,
            intermediate_size: size(&root, "intermediate_size")?,
            num_hidden_layers,
            num_attention_heads,
            num_key_value_heads: size_or_null(&root, "num_key_value_heads")?.unwrap_or(num_attention_heads),
            head_dim,
            max_position_embeddings: size_or_null(&root, "max_position_embeddings")?.unwrap_or(2048),
            rms_norm_eps: number(&root, "rms_norm_eps")?.unwrap_or(1e-6),
            rope_theta,
            rope_scaling,
            tie_word_embeddings: flag(&root, "tie_word_embeddings")?.unwrap_or(false),
            attention_bias: flag(&root, "attention_bias")?.unwrap_or(false),
            mlp_bias: family == Family::Llama && flag(&root, "mlp_bias")?.unwrap_or(false),
            initializer_range: number(&root, "initializer_range")?.unwrap_or(0.02),
            bos_token_id: token(&root, "bos_token_id")?,
            eos_token_ids: tokens(&root, "eos_token_id")?,
            pad_token_id: token(&root, "pad_token_id")?,
        };
        config.validate()?;
        Ok(config)
    }
}

fn family(root: &Object) -> Result<Family, ModelConfigError> {
    match root.get("model_type").and_then(Value::as_str) {
        Some("qwen3") => Ok(Family::Qwen3),
        Some("qwen2") => Ok(Family::Qwen2),
        Some("llama") => Ok(Family::Llama),
        Some(other) => Err(unsupported(format!("model_type `{}`", shorten(other)))),
        None => Err(ModelConfigError::Field { field: "model_type", wanted: "qwen3, qwen2 or llama" }),
    }
}

fn refuse_unsupported(root: &Object) -> Result<(), ModelConfigError> {
    match root.get("hidden_act") {
        None | Some(Value::Null) => {}
        Some(Value::String(act)) if act == "silu" => {}
        Some(Value::String(act)) => return Err(unsupported(format!("hidden_act `{}`", shorten(act)))),
        Some(_) => return Err(ModelConfigError::Field { field: "hidden_act", wanted: "\"silu\"" }),
    }
    if root.get("quantization_config").is_some_and(|v| !v.is_null()) {
        return Err(unsupported("a quantized model".into()));
    }
    Ok(())
}

/// A window is in use when a layer is named as sliding, or, in files without `layer_types`, when
/// the switch is on, a width is given and at least one layer lies above `max_window_layers`.
fn refuse_sliding_window(root: &Object, layers: usize) -> Result<(), ModelConfigError> {
    let in_use = match root.get("layer_types") {
        Some(Value::Array(types)) => types.iter().any(|t| t.as_str() != Some("full_attention")),
        _ => {
            flag(root, "use_sliding_window")?.unwrap_or(false)
                && root.get("sliding_window").is_some_and(|v| !v.is_null())
                && size_or_null(root, "max_window_layers")?.unwrap_or(0) < layers
        }
    };
    if in_use { Err(unsupported("a sliding attention window".into())) } else { Ok(()) }
}

fn rope(root: &Object) -> Result<(f64, RopeScaling), ModelConfigError> {
    let newer = match root.get("rope_parameters") {
        None | Some(Value::Null) => None,
        Some(Value::Object(object)) => Some(object),
        Some(_) => return Err(ModelConfigError::Field { field: "rope_parameters", wanted: "an object" }),
    };
    let older = match root.get("rope_scaling") {
        None | Some(Value::Null) => None,
        Some(Value::Object(object)) => Some(object),
        Some(_) => {
            return Err(ModelConfigError::Field { field: "rope_scaling", wanted: "an object or null" });
        }
    };
    let theta_inside = match newer.or(older) {
        Some(object) => number(object, "rope_theta")?,
        None => None,
    };
    let theta = match theta_inside {
        Some(theta) => theta,
        None => number(root, "rope_theta")?.unwrap_or(10_000.0),
    };
    for object in [Some(root), newer, older].into_iter().flatten() {
        if number(object, "partial_rotary_factor")?.is_some_and(|factor| factor != 1.0) {
            return Err(unsupported("partial_rotary_factor other than 1".into()));
        }
    }
    let Some(object) = newer.or(older) else { return Ok((theta, RopeScaling::Default)) };
    let kind = object.get("rope_type").or_else(|| object.get("type"));
    let needed = |field, wanted| number(object, field)?.ok_or(ModelConfigError::Field { field, wanted });
    let scaling = match kind {
        None => {
            return Err(ModelConfigError::Field { field: "rope_type", wanted: "default, linear or llama3" });
        }
        Some(Value::String(kind)) => match kind.as_str() {
            "default" => RopeScaling::Default,
            "linear" => RopeScaling::Linear { factor: needed("factor", "a number >= 1")? },
            "llama3" => RopeScaling::Llama3 {
                factor: needed("factor", "a number >= 1")?,
                low_freq_factor: needed("low_freq_factor", "a positive number")?,
                high_freq_factor: needed("high_freq_factor", "a positive number")?,
                original_positions: size(object, "original_max_position_embeddings")?,
            },
            other => return Err(unsupported(format!("rope type `{}`", shorten(other)))),
        },
        Some(_) => return Err(ModelConfigError::Field { field: "rope_type", wanted: "a text" }),
    };
    Ok((theta, scaling))
}

fn unsupported(feature: String) -> ModelConfigError {
    ModelConfigError::Unsupported { feature }
}

/// Texts of a hostile file must not fill our logs.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

fn size(object: &Object, field: &'static str) -> Result<usize, ModelConfigError> {
    size_or_null(object, field)?.ok_or(ModelConfigError::Field { field, wanted: "a whole number" })
}

fn size_or_null(object: &Object, field: &'static str) -> Result<Option<usize>, ModelConfigError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|v| usize::try_from(v).ok())
            .map(Some)
            .ok_or(ModelConfigError::Field { field, wanted: "a whole number" }),
    }
}

fn number(object: &Object, field: &'static str) -> Result<Option<f64>, ModelConfigError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(ModelConfigError::Field { field, wanted: "a number" }),
    }
}

fn flag(object: &Object, field: &'static str) -> Result<Option<bool>, ModelConfigError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            value.as_bool().map(Some).ok_or(ModelConfigError::Field { field, wanted: "true or false" })
        }
    }
}

fn token_id(value: &Value, field: &'static str) -> Result<u32, ModelConfigError> {
    let id = value.as_u64().and_then(|v| u32::try_from(v).ok());
    id.ok_or(ModelConfigError::Field { field, wanted: "a token id or null" })
}

fn token(object: &Object, field: &'static str) -> Result<Option<u32>, ModelConfigError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        // Older files write -1 for "none".
        Some(Value::Number(n)) if n.as_i64() == Some(-1) => Ok(None),
        Some(value) => token_id(value, field).map(Some),
    }
}

fn tokens(object: &Object, field: &'static str) -> Result<Vec<u32>, ModelConfigError> {
    match object.get(field) {
        Some(Value::Array(list)) => list.iter().map(|v| token_id(v, field)).collect(),
        _ => Ok(token(object, field)?.into_iter().collect()),
    }
}
