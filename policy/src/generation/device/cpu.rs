//! The processor as a device.

use super::{CPU, Loader};
use crate::generation::EngineError;
use crate::generation::cpu::simd::Processor;
use crate::generation::cpu::{CpuBackend, computes_as_known};
use crate::generation::dyn_backend::AnyBackend;
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;

/// The vector instructions that the CPU backend computes with here, for people.
pub(super) fn instructions() -> &'static str {
    Processor::best().name()
}

/// What it computes in: everything that it computes as it is known to come out.
pub(super) fn precisions() -> Vec<Precision> {
    Precision::ALL.into_iter().filter(|precision| computes_as_known(*precision)).collect()
}

/// Loads models into the memory of the processor.
pub(super) struct Cpu;

impl Loader for Cpu {
    fn name(&self) -> &str {
        CPU
    }

    fn computes_in(&self, precision: Precision) -> bool {
        computes_as_known(precision)
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
