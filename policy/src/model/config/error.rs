//! What can be wrong with a model configuration.

use std::path::PathBuf;

/// A model configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelConfigError {
    /// The text is not a JSON object of the expected form.
    #[error("config.json is not valid JSON: {0}; give the file as Hugging Face wrote it")]
    Json(#[from] serde_json::Error),
    /// The file could not be read.
    #[error("cannot read {path}: {source}; check that the file exists and is readable")]
    Read {
        /// File that was to be read.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// The text is longer than any real configuration.
    #[error(
        "config.json has {bytes} bytes, more than the {limit} allowed; this is not a model configuration"
    )]
    TooLarge {
        /// Length of the file or text.
        bytes: u64,
        /// Most bytes allowed: [`crate::model::config::MAX_CONFIG_BYTES`].
        limit: u64,
    },
    /// A field that has no default is absent, or has the wrong type.
    #[error("config.json: field `{field}` is missing or has the wrong type; it must be {wanted}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A size is zero or beyond its limit.
    #[error("config.json: `{field}` is {value}; it must be between 1 and {limit}")]
    Size {
        /// Name of the field.
        field: &'static str,
        /// Value that the file has.
        value: u64,
        /// The named limit of [`crate::model::config`].
        limit: u64,
    },
    /// The sizes contradict each other.
    #[error("config.json: {0}")]
    Inconsistent(String),
    /// A model of another family.
    #[error(
        "config.json: the model is of the family `{found}`, which Echo does not have; use one whose model_type is qwen3, qwen2 or llama \
         (Qwen3, Qwen2.5, Llama 3, SmolLM2 and others of their form)"
    )]
    Family {
        /// Its `model_type`.
        found: String,
    },
    /// A feature that this decoder does not implement.
    #[error(
        "config.json: {feature} is not supported; use a model of the Qwen3, Qwen2/2.5 or Llama-3 family without it"
    )]
    Unsupported {
        /// What was asked for.
        feature: String,
    },
}
