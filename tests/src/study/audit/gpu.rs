//! The GPU of the honest node that answers on one.

use echo_policy::generation::wgpu::{AdapterChoice, AdapterKind, Gpu, GpuError, GpuOptions, adapters};
use std::sync::Arc;

/// Opens the best card, or where there is none a software adapter, which runs the same kernels.
/// Else a sentence says what is lacking.
pub(super) fn open() -> Result<Arc<Gpu>, String> {
    let open = |adapter| Gpu::open(GpuOptions { adapter, ..GpuOptions::default() });
    let opened = open(AdapterChoice::Best).or_else(|error| {
        let software = adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Software);
        match (error, software) {
            (GpuError::NoAdapter, Some(software)) => open(AdapterChoice::Index(software.index)),
            (error, _) => Err(error),
        }
    });
    opened.map_err(|error| error.to_string())
}
