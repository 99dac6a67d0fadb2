//! The decoder's operations other than matrix products, each with a gradient.
//!
//! Every operation exists twice: fused for the CPU, where chains of elementwise operations would cost more than the
//! matrix products, and composed of candle's differentiable operations for every other device.

mod attention;
mod rms_norm;
mod rope;
mod swiglu;

pub(super) use attention::attention;
pub(super) use rms_norm::rms_norm;
pub(super) use rope::rope;
pub(super) use swiglu::swiglu;

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor, bail};

/// Elements that one parallel task works on. Fixed, so that sums do not depend on the number of threads.
const TASK_ELEMENTS: usize = 1 << 15;

/// Rows of `width` elements in one parallel task.
fn task_rows(width: usize) -> usize {
    (TASK_ELEMENTS / width.max(1)).max(1)
}

/// Whether the fused kernels apply.
pub(crate) fn on_cpu(tensor: &Tensor) -> bool {
    tensor.device().is_cpu()
}

/// The f32 elements of a contiguous input of a custom operation.
pub(crate) fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => bail!("a fused kernel was given a tensor that is not contiguous"),
    }
}

/// Calls `f` with the f32 elements of a CPU tensor, row-major.
pub(crate) fn read<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(cpu) => f(slice(cpu, layout)?),
        _ => bail!("a fused kernel was given a tensor that is not on the CPU"),
    }
}

#[cfg(test)]
mod tests;
