//! What can go wrong in the optimizer.

use echo_policy::training::decoder::DecoderError;
use thiserror::Error;

use crate::training::lr_schedule::ScheduleError;

/// Why the optimizer refused.
#[derive(Debug, Error)]
pub enum OptimizerError {
    /// A setting is outside its domain.
    #[error("optimizer setting `{setting}` is {value}: it must be {domain}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// The value that it has.
        value: f64,
        /// The values that are allowed, in words.
        domain: &'static str,
    },
    /// The schedule is not usable.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// There is nothing to optimize.
    #[error("the optimizer got no parameters: pass the model's variables")]
    NoParameters,
    /// Two parameters share a name.
    #[error("parameter `{name}` is listed twice: list tied weights once")]
    DuplicateName {
        /// The name that two parameters have.
        name: String,
    },
    /// A parameter is not an f32 master weight.
    #[error(
        "parameter `{name}` is not a contiguous f32 variable: keep masters in f32 and cast in the forward pass"
    )]
    NotMaster {
        /// The parameter's name in the model.
        name: String,
    },
    /// A gradient does not fit its parameter.
    #[error(
        "the gradient of `{name}` has another size or device than its parameter: it belongs to another model"
    )]
    Gradient {
        /// The parameter's name in the model.
        name: String,
    },
    /// Not one gradient per parameter.
    #[error("{found} gradients for {expected} parameters: they belong to another model")]
    Gradients {
        /// Gradients that the step was given.
        found: usize,
        /// Parameters that the optimizer holds.
        expected: usize,
    },
    /// An imported state does not fit.
    #[error("optimizer state `{name}` {problem}: load the checkpoint that belongs to this model")]
    State {
        /// Name of the tensor.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The gradient's device failed.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// The tensor library refused an operation.
    #[error("tensor operation failed in the optimizer: {0}")]
    Tensor(#[from] candle_core::Error),
}
