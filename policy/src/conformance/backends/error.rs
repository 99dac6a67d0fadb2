//! Why a backend cannot be compared.

use crate::generation::EngineError;
use crate::model::config::ModelConfigError;
use crate::model::weights::WeightsError;
use crate::training::decoder::DecoderError;
use crate::training::packed::PackedError;

/// A comparison of a backend with the reference that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AgreementError {
    /// A model of the comparison has no sound configuration.
    #[error(transparent)]
    Config(#[from] ModelConfigError),
    /// A model of the comparison has no sound weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The prompts cannot be packed for the reference.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// The reference could not compute the distributions.
    #[error("the reference: {0}")]
    Reference(#[from] DecoderError),
    /// The backend could not compute a call.
    #[error("the backend: {0}")]
    Backend(#[from] EngineError),
}
