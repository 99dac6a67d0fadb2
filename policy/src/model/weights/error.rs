//! What can be wrong with weights.

use std::path::PathBuf;

/// Weights that could not be read, or that do not fit their configuration.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}; check that the model directory is complete")]
    Read {
        /// File that was to be read.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// The directory has no safetensors file.
    #[error("{dir} has no weights that can be read: {found}")]
    NoWeights {
        /// The model's directory.
        dir: PathBuf,
        /// What is there instead, and what to do.
        found: String,
    },
    /// The embeddings are tied, and the file has another output projection.
    #[error(
        "config.json ties the output projection to the embedding (tie_word_embeddings), and the file has another `lm_head.weight`: \
         write \"tie_word_embeddings\": false to use that tensor, or remove it from the file"
    )]
    OtherHead,
    /// A number of the weights is none.
    #[error(
        "tensor `{name}` holds NaN or infinity: its training has diverged, or the file is damaged; fetch it again, or take an earlier checkpoint"
    )]
    NotFinite {
        /// Its Hugging Face name.
        name: String,
    },
    /// A safetensors file or shard index is malformed.
    #[error("{path} is malformed: {reason}; fetch the file again")]
    Malformed {
        /// File that cannot be understood.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor that the configuration calls for is absent.
    #[error("tensor `{name}` is missing; take config.json and all weight files of one and the same model")]
    Missing {
        /// Its Hugging Face name.
        name: String,
    },
    /// A tensor that the configuration does not know.
    #[error("tensor `{name}` is not part of this configuration; {}", unexpected(.name))]
    Unexpected {
        /// First 80 characters of its name.
        name: String,
    },
    /// The same tensor was given twice.
    #[error("tensor `{name}` is given twice; each tensor must appear once")]
    Duplicate {
        /// Its Hugging Face name.
        name: String,
    },
    /// A tensor has another shape than the configuration says.
    #[error(
        "tensor `{name}` has shape {found:?}, the configuration says {expected:?}; the two do not belong together"
    )]
    Shape {
        /// Its Hugging Face name.
        name: String,
        /// Shape that the tensor has.
        found: Vec<usize>,
        /// Shape that the configuration says.
        expected: Vec<usize>,
    },
    /// The bytes of a tensor do not add up to its shape.
    #[error(
        "tensor `{name}` has {found} bytes, its shape and dtype need {expected}; the data is cut or padded"
    )]
    Length {
        /// Its Hugging Face name.
        name: String,
        /// Bytes that the tensor has.
        found: usize,
        /// Bytes that shape and dtype need.
        expected: usize,
    },
    /// An element type other than f32, bf16 and f16.
    #[error("tensor `{name}` is stored as {dtype}; convert the model to f32, bf16 or f16")]
    Dtype {
        /// Name of the tensor.
        name: String,
        /// Element type that the file declares.
        dtype: String,
    },
    /// No image could be written or mapped.
    #[error(
        "cannot keep weights of {bytes} bytes in a file in {dir}: {source}; free so much disk space there, or make it writable"
    )]
    Image {
        /// Directory for files without a name.
        dir: PathBuf,
        /// How long the file is to be.
        bytes: usize,
        /// What the system reported.
        source: std::io::Error,
    },
    /// candle could not build a tensor.
    #[error("cannot build a tensor on the device: {0}")]
    Candle(#[from] candle_core::Error),
}

/// What to do about a tensor that nobody expects.
fn unexpected(name: &str) -> &'static str {
    if name.ends_with(".bias") && name.contains(".self_attn.") {
        "where the model has biases, config.json says \"attention_bias\": true"
    } else if name.ends_with(".bias") && name.contains(".mlp.") {
        "where the model has biases, config.json says \"mlp_bias\": true"
    } else if name == "lm_head.weight" {
        "where it is not the embedding, config.json says \"tie_word_embeddings\": false"
    } else if name.starts_with("model.layers.") {
        "take config.json and weights of the same model (num_hidden_layers may be too small)"
    } else if name.contains("lora_") {
        "it is a LoRA adapter: merge it into its model first (peft: merge_and_unload)"
    } else if name.starts_with("v_head.") || name.starts_with("score.") {
        "it is a head for values or classes: take the language model alone"
    } else {
        "take config.json and weights of the same model"
    }
}
