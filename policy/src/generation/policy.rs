//! A complete, immutable version of the model.

use super::{Backend, CpuBackend, EngineError};
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;

/// A policy version, loaded and ready to generate. Shared as `Arc<Policy>`; a newer version is a new value.
pub struct Policy<B = CpuBackend> {
    version: u64,
    backend: B,
}

impl<B> std::fmt::Debug for Policy<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Policy<CpuBackend> {
    /// Loads `weights` into the CPU backend as policy version `version`, to compute in f32.
    ///
    /// # Errors
    /// When the weights do not fit the configuration.
    pub fn load(version: u64, config: &ModelConfig, weights: &Weights) -> Result<Self, EngineError> {
        Self::load_as(version, config, weights, Precision::F32)
    }

    /// As [`Policy::load`], to compute in `precision`.
    ///
    /// # Errors
    /// Those that [`Policy::load`] fails with.
    pub fn load_as(
        version: u64,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<Self, EngineError> {
        Ok(Self::new(version, CpuBackend::load_as(config, weights, precision)?))
    }
}

impl<B: Backend> Policy<B> {
    /// A policy over a backend that is loaded already.
    pub fn new(version: u64, backend: B) -> Self {
        Self { version, backend }
    }

    /// Number of learner updates these weights have seen.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Shape of the model that is loaded.
    pub fn config(&self) -> &ModelConfig {
        self.backend.config()
    }

    /// Backend that computes this version.
    pub fn backend(&self) -> &B {
        &self.backend
    }
}
