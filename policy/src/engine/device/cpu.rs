//! The processor as a device.

use super::{CPU, Loader};
use crate::config::ModelConfig;
use crate::engine::any::AnyBackend;
use crate::engine::cpu::CpuBackend;
use crate::engine::cpu::lanes::Processor;
use crate::error::EngineError;
use crate::precision::Precision;
use crate::weights::Weights;

/// The vector instructions that the CPU backend computes with here, for people.
pub(super) fn instructions() -> &'static str {
    Processor::best().name()
}

/// The processor.
pub(super) struct Cpu;

impl Loader for Cpu {
    fn name(&self) -> &str {
        CPU
    }

    fn computes_in(&self, _: Precision) -> bool {
        true
    }

    fn load(
        &self,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<AnyBackend, EngineError> {
        Ok(AnyBackend::new(CpuBackend::load_as(config, weights, precision)?))
    }
}
