//! A GPU behind Vulkan, Metal or DX12 as a device.

use std::sync::Arc;

use super::Loader;
use crate::config::ModelConfig;
use crate::engine::EngineError;
use crate::engine::any::AnyBackend;
use crate::engine::wgpu::{Gpu, WgpuBackend};
use crate::precision::Precision;
use crate::weights::Weights;

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
