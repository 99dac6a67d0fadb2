//! The weights of a version, of which policies in every precision can be made.

use crate::generation::{CpuBackend, EngineError, Policy};
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::{DType, Weights};

/// The weights of a version as they were published. They are mapped from a file as a rule, so it
/// costs little to keep them.
#[derive(Debug)]
pub struct VersionWeights {
    version: u64,
    config: ModelConfig,
    weights: Weights,
    stored: DType,
}

impl VersionWeights {
    /// Takes over the weights of policy version `version`.
    ///
    /// # Errors
    /// When they are not those of `config`.
    pub fn new(version: u64, config: &ModelConfig, weights: Weights) -> Result<Self, EngineError> {
        weights.check(config)?;
        let (config, stored) = (config.clone(), weights.main_dtype());
        Ok(Self { version, config, weights, stored })
    }

    /// Number of learner updates that they have seen.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The weights as they were published.
    #[must_use]
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The policy that computes in `precision` with them. It shares what is published in its
    /// numbers, and makes [copies](Self::copied_bytes) of the rest.
    ///
    /// # Errors
    /// Those that [`Policy::load_as`] fails with.
    pub fn policy(&self, precision: Precision) -> Result<Policy, EngineError> {
        Policy::load_as(self.version, &self.config, &self.weights, precision)
    }

    /// Bytes of memory that such a policy takes beside the weights themselves.
    #[must_use]
    pub fn copied_bytes(&self, precision: Precision) -> usize {
        CpuBackend::copied_bytes(&self.config, self.stored, precision)
    }
}
