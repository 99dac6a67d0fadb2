//! The devices of a machine: which there are, which is taken, and models loaded on it.
//!
//! [`Survey::take`] looks for all that this program was built for. A [`DeviceChoice`] and the
//! precision to compute in make a list of what was found: the first device is the one to begin
//! with, and the next one is for when it is lost. The last is always the CPU. A device is opened
//! once, and each version of a policy is loaded on the [`Device`] that comes of it.

mod choice;
mod cpu;
#[cfg(feature = "nvidia")]
mod cuda;
mod error;
mod survey;
#[cfg(feature = "gpu")]
mod wgpu;

use std::fmt;
use std::sync::Arc;

use super::EngineError;
use super::dyn_backend::AnyBackend;
use super::policy::Policy;
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::Weights;

pub use choice::{DeviceChoice, UnknownDevice};
pub use error::DeviceError;
pub use survey::{About, FoundDevice, Survey};

/// The processor's name among devices.
pub const CPU: &str = "CPU";

/// What every device can. Others than those of this module are for tests.
pub trait Loader: Send + Sync {
    /// What people call it.
    fn name(&self) -> &str;

    /// Whether it computes in this precision.
    fn computes_in(&self, precision: Precision) -> bool;

    /// Bytes of memory that nobody has taken, where it tells.
    fn free_bytes(&self) -> Option<usize> {
        None
    }

    /// Loads weights, to compute with them in a precision.
    ///
    /// # Errors
    /// [`EngineError::Memory`] when it has no room for them, [`EngineError::DeviceLost`] when it is
    /// lost; when the weights are not those of `config`, or the precision is not one of its own.
    fn load(
        &self,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<AnyBackend, EngineError>;
}

/// A device that was opened. Clones are the same one, and policies that are loaded on it share
/// its memory for caches.
#[derive(Clone)]
pub struct Device(Arc<dyn Loader>);

impl Device {
    /// A device of some other kind.
    pub fn new(loader: impl Loader + 'static) -> Self {
        Self(Arc::new(loader))
    }

    /// The processor, which is always there.
    pub fn cpu() -> Self {
        Self::new(cpu::Cpu)
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Whether it computes in this precision.
    pub fn computes_in(&self, precision: Precision) -> bool {
        self.0.computes_in(precision)
    }

    /// Bytes of its memory that nobody has taken, where it tells.
    pub fn free_bytes(&self) -> Option<usize> {
        self.0.free_bytes()
    }

    /// Whether both are the one that was opened.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Loads weights, to compute with them in `precision`.
    ///
    /// # Errors
    /// Those that [`Loader::load`] fails with.
    pub fn load(
        &self,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<AnyBackend, EngineError> {
        self.0.load(config, weights, precision)
    }

    /// Loads `weights` as policy version `version`, to compute in `precision`.
    ///
    /// # Errors
    /// Those that [`Loader::load`] fails with.
    pub fn policy(
        &self,
        version: u64,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<Policy<AnyBackend>, EngineError> {
        Ok(Policy::new(version, self.load(config, weights, precision)?))
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.name()).finish()
    }
}
