//! An NVIDIA GPU as a device.

use std::sync::Arc;

use super::Loader;
use crate::generation::EngineError;
use crate::generation::cuda;
use crate::generation::cuda::CudaBackend;
use crate::generation::dyn_backend::AnyBackend;
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;

/// What it computes in.
pub(super) const PRECISIONS: &[Precision] = &[Precision::F32, Precision::Bf16];

impl Loader for Arc<cuda::CudaDevice> {
    fn name(&self) -> &str {
        cuda::CudaDevice::name(self)
    }

    fn computes_in(&self, precision: Precision) -> bool {
        PRECISIONS.contains(&precision)
    }

    fn free_bytes(&self) -> Option<usize> {
        self.memory().ok().map(|memory| memory.free)
    }

    fn load(
        &self,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<AnyBackend, EngineError> {
        Ok(AnyBackend::new(CudaBackend::load(self, config, weights, precision)?))
    }
}
