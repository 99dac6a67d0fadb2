//! Reading `config.json`, in the older form (`rope_theta`, `rope_scaling`) and the newer (`rope_parameters`).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use super::{Family, MAX_CONFIG_BYTES, ModelConfig, ModelConfigError, RopeScaling};

type Object = Map<String, Value>;

/// Width of a Qwen3 head where the file names none: transformers' default, whatever the other sizes.
const QWEN3_HEAD_DIM: usize = 128;
/// Layers below which the Qwen families have no window where the file does not say: transformers' default.
const MAX_WINDOW_LAYERS: usize = 28;
/// The kinds of layers that are known.
const ATTENTIONS: [&str; 2] = ["full_attention", "sliding_attention"];
/// Width of a window that is switched on without one: transformers' default.
const SLIDING_WINDOW: usize = 4096;

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
        let max_position_embeddings =
            size_or_null(&root, "max_position_embeddings")?.unwrap_or(default_positions(family));
        refuse_sliding_window(&root, family, num_hidden_layers, max_position_embeddings)?;
        let head_dim = match size_or_null(&root, "head_dim")? {
            Some(value) => value,
            None if family == Family::Qwen3 => QWEN3_HEAD_DIM,
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
            max_position_embeddings,
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
        Some(other) => Err(ModelConfigError::Family { found: shorten(other) }),
        None => Err(ModelConfigError::Field { field: "model_type", wanted: "qwen3, qwen2 or llama" }),
    }
}

fn refuse_unsupported(root: &Object) -> Result<(), ModelConfigError> {
    match root.get("hidden_act") {
        None | Some(Value::Null) => {}
        Some(Value::String(act)) if matches!(act.as_str(), "silu" | "swish") => {}
        Some(Value::String(act)) => return Err(unsupported(format!("hidden_act `{}`", shorten(act)))),
        Some(_) => return Err(ModelConfigError::Field { field: "hidden_act", wanted: "\"silu\"" }),
    }
    if root.get("quantization_config").is_some_and(|v| !v.is_null()) {
        return Err(unsupported("quantized weights (quantization_config)".into()));
    }
    Ok(())
}

/// Positions where the file names none, as transformers has them.
fn default_positions(family: Family) -> usize {
    match family {
        Family::Qwen3 | Family::Qwen2 => 32_768,
        Family::Llama => 2048,
    }
}

/// A window is in use when a layer is named as sliding, or, in files without `layer_types`, when
/// the switch is on, a width is given and at least one layer lies above `max_window_layers`. One that is
/// as wide as the longest sequence hides nothing. The Llama family has none, whatever the file says.
fn refuse_sliding_window(
    root: &Object,
    family: Family,
    layers: usize,
    positions: usize,
) -> Result<(), ModelConfigError> {
    if family == Family::Llama {
        return Ok(());
    }
    let named = size_or_null(root, "sliding_window")?;
    let (in_use, width) = match root.get("layer_types") {
        Some(Value::Array(types)) => {
            let mut kinds = types.iter().map(|kind| kind.as_str().unwrap_or("unknown"));
            if let Some(other) = kinds.clone().find(|kind| !ATTENTIONS.contains(kind)) {
                return Err(unsupported(format!("a layer of the kind `{}`", shorten(other))));
            }
            (kinds.any(|kind| kind == "sliding_attention"), named)
        }
        _ => {
            let width = if root.contains_key("sliding_window") { named } else { Some(SLIDING_WINDOW) };
            let lowest = size_or_null(root, "max_window_layers")?.unwrap_or(MAX_WINDOW_LAYERS);
            let is_on = flag(root, "use_sliding_window")?.unwrap_or(false);
            (is_on && width.is_some() && lowest < layers, width)
        }
    };
    let is_narrow = width.is_none_or(|width| width < positions);
    if in_use && is_narrow { Err(unsupported("a sliding attention window".into())) } else { Ok(()) }
}

/// Base and scaling of the rotary embedding. An empty object says nothing, as for transformers.
fn rope(root: &Object) -> Result<(f64, RopeScaling), ModelConfigError> {
    let object = |field: &'static str| match root.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object).filter(|object| !object.is_empty())),
        Some(_) => Err(ModelConfigError::Field { field, wanted: "an object or null" }),
    };
    let (newer, older) = (object("rope_parameters")?, object("rope_scaling")?);
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
    match (newer.map(scaling).transpose()?, older.map(scaling).transpose()?) {
        (Some(newer), Some(older)) if newer != older => {
            let text =
                "rope_parameters and rope_scaling differ; keep the one that the model was trained with";
            Err(ModelConfigError::Inconsistent(text.into()))
        }
        (newer, older) => Ok((theta, newer.or(older).unwrap_or(RopeScaling::Default))),
    }
}

fn scaling(object: &Object) -> Result<RopeScaling, ModelConfigError> {
    let kind = object.get("rope_type").or_else(|| object.get("type"));
    let needed = |field, wanted| number(object, field)?.ok_or(ModelConfigError::Field { field, wanted });
    match kind {
        // As transformers has it; but what stretches has to say how.
        None | Some(Value::Null) if !object.contains_key("factor") => Ok(RopeScaling::Default),
        None | Some(Value::Null) => {
            Err(ModelConfigError::Field { field: "rope_type", wanted: "default, linear or llama3" })
        }
        Some(Value::String(kind)) => match kind.as_str() {
            "default" => Ok(RopeScaling::Default),
            "linear" => Ok(RopeScaling::Linear { factor: needed("factor", "a number >= 1")? }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: needed("factor", "a number >= 1")?,
                low_freq_factor: needed("low_freq_factor", "a positive number")?,
                high_freq_factor: needed("high_freq_factor", "a positive number")?,
                original_positions: size(object, "original_max_position_embeddings")?,
            }),
            other => Err(unsupported(format!("rope type `{}`", shorten(other)))),
        },
        Some(_) => Err(ModelConfigError::Field { field: "rope_type", wanted: "a text" }),
    }
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
