//! A GPU behind Vulkan, Metal or DX12 as a device.

use std::sync::Arc;

use super::Loader;
use crate::generation::EngineError;
use crate::generation::dyn_backend::AnyBackend;
use crate::generation::wgpu::{Gpu, WgpuBackend};
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;

/// What it computes in.
pub(super) const PRECISIONS: &[Precision] = &[Precision::F32];

impl Loader for Arc<Gpu> {
    fn name(&self) -> &str {
        &self.info().name
    }

    fn computes_in(&self, precision: Precision) -> bool {
        PRECISIONS.contains(&precision)
    }

    fn load(
        &self,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<AnyBackend, EngineError> {
        if !self.computes_in(precision) {
            return Err(EngineError::Precision { precision, wanted: "f32" });
        }
        Ok(AnyBackend::new(WgpuBackend::load(self, config, weights)?))
    }
}
