//! What can go wrong in this crate: one enum per family of operations.

use std::path::PathBuf;

use crate::engine::device::DeviceChoice;
use crate::precision::Precision;

/// A model configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not a JSON object of the expected form.
    #[error("config.json is not valid JSON: {0}; give the file as Hugging Face wrote it")]
    Json(#[from] serde_json::Error),
    /// The file could not be read.
    #[error("cannot read {path}: {source}; check that the file exists and is readable")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is longer than any real configuration.
    #[error(
        "config.json has {bytes} bytes, more than the {limit} allowed; this is not a model configuration"
    )]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// [`crate::config::MAX_CONFIG_BYTES`].
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
        /// The value found.
        value: u64,
        /// The named limit of [`crate::config`].
        limit: u64,
    },
    /// The sizes contradict each other.
    #[error("config.json: {0}")]
    Inconsistent(String),
    /// A feature that this decoder does not implement.
    #[error(
        "config.json: {feature} is not supported; use a model of the Qwen3, Qwen2/2.5 or Llama-3 family without it"
    )]
    Unsupported {
        /// What was asked for.
        feature: String,
    },
}

/// Weights that could not be read, or that do not fit their configuration.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}; check that the model directory is complete")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A safetensors file or shard index is malformed.
    #[error("{path} is malformed: {reason}; fetch the file again")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor that the configuration calls for is absent.
    #[error("tensor `{name}` is missing; the weights belong to another configuration or are incomplete")]
    Missing {
        /// Its Hugging Face name.
        name: String,
    },
    /// A tensor that the configuration does not know.
    #[error("tensor `{name}` is not part of this configuration; the weights belong to another one")]
    Unexpected {
        /// Its name, shortened.
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
        /// Shape found.
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
        /// Bytes found.
        found: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// An element type other than f32, bf16 and f16.
    #[error("tensor `{name}` is stored as {dtype}; convert the model to f32, bf16 or f16")]
    Dtype {
        /// Name of the tensor.
        name: String,
        /// Type found.
        dtype: String,
    },
    /// No image could be written or mapped.
    #[error(
        "cannot keep weights of {bytes} bytes in a file in {dir}: {source}; free so much disk space there, or make it writable"
    )]
    Image {
        /// The directory.
        dir: PathBuf,
        /// How long the file is to be.
        bytes: usize,
        /// Why.
        source: std::io::Error,
    },
    /// candle could not build a tensor.
    #[error("cannot build a tensor on the device: {0}")]
    Candle(#[from] candle_core::Error),
}

/// Sequences that cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackedError {
    /// There is no sequence.
    #[error("no sequence to pack; give at least one")]
    Empty,
    /// A sequence without tokens.
    #[error("sequence {sequence} is empty; leave it out")]
    EmptySequence {
        /// Its index.
        sequence: usize,
    },
    /// The lengths are not those of the ids.
    #[error("the lengths add up to {sum}, there are {ids} ids; give the length of every sequence")]
    Lengths {
        /// Sum of the lengths, or the largest number there is.
        sum: usize,
        /// Number of ids.
        ids: usize,
    },
    /// Too many sequences.
    #[error("{found} sequences in one pack, the limit is {limit}; make several packs")]
    TooManySequences {
        /// How many.
        found: usize,
        /// [`crate::packed::MAX_PACKED_SEQUENCES`].
        limit: usize,
    },
    /// Too many tokens.
    #[error("{found} tokens in one pack, the limit is {limit}; make several packs")]
    TooManyTokens {
        /// How many.
        found: usize,
        /// [`crate::packed::MAX_PACKED_TOKENS`].
        limit: usize,
    },
}

/// A failure of the training pass.
#[derive(Debug, thiserror::Error)]
pub enum DecoderError {
    /// The parameters given are not those of the configuration.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A sequence is longer than the model's positions.
    #[error("a sequence of {found} tokens; the model has {limit} positions: shorten it")]
    TooLong {
        /// Tokens of the sequence.
        found: usize,
        /// `max_position_embeddings`.
        limit: usize,
    },
    /// A token id, in a sequence or as a target, outside of the vocabulary.
    #[error(
        "token {token} at row {row} is outside of the vocabulary of {vocab}; the tokenizer and the model do not belong together"
    )]
    Token {
        /// The id.
        token: u32,
        /// Row of the pack.
        row: usize,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// The rows of the targets are not rows of the pack in ascending order.
    #[error(
        "target {index} is of row {row}, in a pack of {rows} rows; give each row once, in ascending order"
    )]
    TargetRow {
        /// Index of the target.
        index: usize,
        /// Its row.
        row: usize,
        /// Rows of the pack.
        rows: usize,
    },
    /// More logits asked for at once than anyone should hold.
    #[error("{found} logits at once, the limit is {limit}; ask for fewer rows")]
    TooManyLogits {
        /// Rows times vocabulary.
        found: usize,
        /// [`crate::decoder::MAX_LOGITS`].
        limit: usize,
    },
    /// The derivatives given are not one per scored token.
    #[error("{found} values of `{what}`, {expected} tokens were scored; give one for each")]
    Derivatives {
        /// Which derivatives.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// Number of targets.
        expected: usize,
    },
    /// The gradients to add to are not those of this decoder's parameters.
    #[error(
        "the gradients belong to another model or device; make them with Gradients::zeros of this decoder"
    )]
    ForeignGradients,
    /// The graph did not reach a parameter.
    #[error("parameter `{name}` got no gradient: an operation without a backward pass severed the graph")]
    MissingGradient {
        /// Its Hugging Face name.
        name: String,
    },
    /// A fused kernel was given a parameter that it cannot read in place.
    #[error("parameter `{name}` is not contiguous f32 on the CPU; rebuild the decoder from its weights")]
    NotHost {
        /// Its Hugging Face name.
        name: String,
    },
    /// candle reported an error (shape, device or memory).
    #[error("tensor operation failed: {0}")]
    Candle(#[from] candle_core::Error),
}

/// A failure of generation, sampling or scoring.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A token id outside of the vocabulary.
    #[error(
        "token {token} is outside of the vocabulary of {vocab}; the tokenizer and the model do not belong together"
    )]
    Token {
        /// The id.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
    /// A prompt or sequence without tokens.
    #[error("request {request}: the prompt is empty; give at least one token")]
    EmptyPrompt {
        /// Index of the request.
        request: usize,
    },
    /// Prompt and response do not fit into the model's positions.
    #[error(
        "{tokens} tokens do not fit into the {limit} positions of the model; shorten the prompt or max_new_tokens"
    )]
    TooLong {
        /// Tokens needed.
        tokens: usize,
        /// `max_position_embeddings`.
        limit: usize,
    },
    /// A request beyond one of the engine's limits.
    #[error("`{what}` is {value}, the limit is {limit}; split the work")]
    Limit {
        /// Which quantity.
        what: &'static str,
        /// The value asked for.
        value: usize,
        /// The named limit.
        limit: usize,
    },
    /// Sampling parameters out of range.
    #[error("sampling parameter `{name}` is {value}; it must be {wanted}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The allowed range.
        wanted: &'static str,
    },
    /// The model's output cannot be sampled from.
    #[error("the logits contain {found}; the policy's weights are broken: install another version")]
    Logits {
        /// What was found.
        found: &'static str,
    },
    /// The new policy has another shape than the one in use.
    #[error(
        "policy version {version} has another configuration than the one in flight; start a new generation"
    )]
    OtherConfig {
        /// Version of the new policy.
        version: u64,
    },
    /// The device has no room for what a call adds to the caches. Nothing is changed; with fewer sequences in flight it goes on.
    #[error(
        "the device is out of memory: {wanted} bytes are wanted, {free} are free; lower the memory or the number of sequences in the settings"
    )]
    Memory {
        /// Bytes that the call needs.
        wanted: usize,
        /// Bytes that are left; 0 where the device does not tell.
        free: usize,
    },
    /// The device does not answer any more: whatever was loaded on it is gone.
    #[error("{device} was lost: {why}; load the policy on it again, or on another device")]
    DeviceLost {
        /// Its name.
        device: String,
        /// What its driver said.
        why: String,
    },
    /// The backend does not compute in this precision.
    #[error("this backend does not compute in {precision}; choose {wanted}")]
    Precision {
        /// The one asked for.
        precision: Precision,
        /// Those that there are.
        wanted: &'static str,
    },
    /// The cache handed in is not of this backend and configuration.
    #[error("the key-value cache belongs to another model; start with an empty cache")]
    ForeignCache,
    /// The thread pool exists already with another size.
    #[error(
        "the thread pool already has {existing} threads, {wanted} were asked for; call set_threads before anything is computed"
    )]
    Threads {
        /// Size of the pool.
        existing: usize,
        /// Size asked for.
        wanted: usize,
    },
    /// The weights could not be loaded into the backend.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl EngineError {
    /// Whether it is one request's own fault, so that others may be generated without it.
    #[must_use]
    pub fn is_of_request(&self) -> bool {
        matches!(self, Self::Token { .. } | Self::EmptyPrompt { .. } | Self::TooLong { .. })
    }
}

/// A device to generate on that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Nothing is there of what was asked for, or it cannot be used.
    #[error("no device {choice} can be used here: {reasons}")]
    None {
        /// What was asked for.
        choice: DeviceChoice,
        /// Why each of those that there are was passed over.
        reasons: String,
    },
    /// This program cannot open such devices.
    #[error("{device} cannot be opened: this program was built without support for it; take another build")]
    NotBuilt {
        /// Which it was.
        device: DeviceChoice,
    },
    /// An NVIDIA GPU cannot be opened.
    #[cfg(feature = "nvidia")]
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// An adapter cannot be opened.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// An NVIDIA GPU that cannot be opened.
#[cfg(feature = "nvidia")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no driver, or one without a GPU.
    #[error("no NVIDIA driver found; install it (525 or newer), or generate on the CPU")]
    NoDriver,
    /// The driver does not read the kernels.
    #[error(
        "the NVIDIA driver is of CUDA {major}.{minor}, and 12.0 (driver 525) is needed; update the driver"
    )]
    OldDriver {
        /// The version of CUDA that it brings.
        major: i32,
        /// The part behind the point.
        minor: i32,
    },
    /// There are fewer GPUs.
    #[error("there is no NVIDIA GPU {index}: {count} were found, and counting begins with 0; choose another")]
    NoSuchDevice {
        /// The one asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The GPU is too old.
    #[error("{device} has compute capability {major}.{minor}, and 8.0 is needed; choose another device")]
    Capability {
        /// Its name.
        device: String,
        /// Its compute capability.
        major: i32,
        /// The part behind the point.
        minor: i32,
    },
    /// The driver does not open it.
    #[error("{device} cannot be used: {why}; update the driver, or choose another device")]
    Refused {
        /// Its name.
        device: String,
        /// What the driver says.
        why: String,
    },
}

/// A GPU that cannot be opened.
#[cfg(feature = "gpu")]
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// There is none, or none that is not software.
    #[error(
        "no adapter found: no GPU with a driver for Vulkan, Metal or DX12 is on this machine; install its driver, or generate on the CPU"
    )]
    NoAdapter,
    /// None is the one asked for.
    #[error("no adapter is called {wanted:?}; there are: {}", if found.is_empty() { "none" } else { found })]
    NoSuchAdapter {
        /// Its number, or a part of its name.
        wanted: String,
        /// The names of those that there are.
        found: String,
    },
    /// It is too small for the kernels.
    #[error("{adapter} has a limit of {found} {what}, {needed} are needed; choose another adapter")]
    Lacks {
        /// Its name.
        adapter: String,
        /// Of what it has too little.
        what: &'static str,
        /// How much it has.
        found: u64,
        /// How much it has to have.
        needed: u64,
    },
    /// Its driver does not open it.
    #[error("{adapter} cannot be opened: {why}; update its driver, or choose another adapter")]
    Refused {
        /// Its name.
        adapter: String,
        /// What the driver says.
        why: String,
    },
}

/// A model directory that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file or directory could not be written or moved into place.
    #[error("cannot write {path}: {source}; check free space and permissions")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something is already at the target.
    #[error("{path} exists already; choose another directory or remove it")]
    Exists {
        /// The target directory.
        path: PathBuf,
    },
    /// The target has no parent or no name.
    #[error("{path} is not a directory that can be created; give a path with a name")]
    Target {
        /// The target directory.
        path: PathBuf,
    },
    /// The tensors could not be serialized.
    #[error("cannot serialize the weights: {0}")]
    Serialize(String),
}

/// A directory of reference vectors that could not be opened at all.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// The directory could not be listed, or a file not be read.
    #[error("cannot read {path}: {source}; give a directory of model directories")]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file has the wrong form.
    #[error("{path} is malformed: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A comparison of a backend with the reference that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AgreementError {
    /// A model of the comparison has no sound configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A model of the comparison has no sound weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The prompts cannot be packed for the reference.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// The reference failed.
    #[error("the reference: {0}")]
    Reference(#[from] DecoderError),
    /// The backend failed.
    #[error("the backend: {0}")]
    Backend(#[from] EngineError),
}
