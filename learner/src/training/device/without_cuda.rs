//! NVIDIA GPUs, in a program that was built without them: none is ever opened.

use candle_core::{CudaDevice, Device, Error, Result};

pub(super) fn open(_: usize) -> Result<Device> {
    Err(Error::NotCompiledWithCudaSupport)
}

pub(super) fn memory_in_use(_: &CudaDevice) -> Result<u64> {
    Err(Error::NotCompiledWithCudaSupport)
}
