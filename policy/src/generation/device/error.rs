//! Why a device to generate on cannot be had.

use super::DeviceChoice;
#[cfg(feature = "nvidia")]
use crate::generation::cuda::CudaError;
#[cfg(feature = "gpu")]
use crate::generation::wgpu::GpuError;

/// A device to generate on that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Nothing is there of what was asked for, or it cannot be used.
    #[error("no device {choice} can be used here: {reasons}")]
    None {
        /// What was asked for.
        choice: DeviceChoice,
        /// Why each of those that there are was passed over.
        reasons: String,
    },
    /// This program cannot open such devices.
    #[error("{device} cannot be opened: this program was built without support for it; take another build")]
    NotBuilt {
        /// Device that was asked for.
        device: DeviceChoice,
    },
    /// An NVIDIA GPU cannot be opened.
    #[cfg(feature = "nvidia")]
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// An adapter cannot be opened.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Gpu(#[from] GpuError),
}
