//! NVIDIA GPUs.

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::result;
use candle_core::cuda_backend::cudarc::driver::sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
use candle_core::{CudaDevice, Device, Result};

/// Opens the GPU of this number.
pub(super) fn open(number: usize) -> Result<Device> {
    // With a stream of its own. Otherwise each thread would use another one, and the learning
    // thread would not wait for what the thread that made the trainer has begun.
    let device = CudaDevice::new_with_stream(number)?;
    keep_freed_memory(&device)?;
    Ok(Device::Cuda(device))
}

/// Lets the driver's memory pool keep what is freed: a training step frees and takes the same sizes
/// again and again, and by default freed memory goes back to the system at each synchronisation.
fn keep_freed_memory(device: &CudaDevice) -> Result<()> {
    let stream = device.cuda_stream();
    let context = stream.context();
    if !context.has_async_alloc() {
        return Ok(());
    }
    let mut threshold = u64::MAX;
    // SAFETY: the context is alive and so its device is valid, the pool is that device's own, and
    // this attribute is a u64.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device()).w()?;
        let value = (&raw mut threshold).cast();
        result::mem_pool::set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, value).w()
    }
}

/// Bytes of the GPU's memory that are taken.
pub(super) fn memory_in_use(device: &CudaDevice) -> Result<u64> {
    let stream = device.cuda_stream();
    let (free, total) = stream.context().mem_get_info().w()?;
    Ok(total.saturating_sub(free) as u64)
}
