//! An opened device, which models share.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::adapter::AdapterInfo;
use super::handle::{GpuOptions, Handle};
use super::pages::{PagePool, WgpuPageShape};
use crate::generation::wgpu::GpuError;

/// A device, opened once. Policies that are loaded on it share its kernels, and caches where they
/// are of one shape.
pub struct Gpu {
    handle: Arc<Handle>,
    /// Pages of caches, one pool for each shape that policies in use have.
    pools: Mutex<Vec<Weak<PagePool>>>,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("info", &self.handle.info)
            .field("options", &self.handle.options)
            .finish_non_exhaustive()
    }
}

impl Gpu {
    /// Opens the adapter that `options` ask for.
    ///
    /// # Errors
    /// When there is none, or it is too small, or its driver refuses.
    pub fn open(options: GpuOptions) -> Result<Arc<Self>, GpuError> {
        let handle = Handle::open(options)?;
        Ok(Arc::new(Self { handle, pools: Mutex::default() }))
    }

    /// The adapter that was opened.
    pub fn info(&self) -> &AdapterInfo {
        &self.handle.info
    }

    /// Whether reductions use subgroups.
    pub fn uses_subgroups(&self) -> bool {
        self.handle.uses_subgroups()
    }

    /// Gives the device back to the system, whoever uses it: what is loaded on it is lost.
    pub fn give_up(&self) {
        self.handle.device.destroy();
    }

    /// The device as kernels, buffers and layers use it.
    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The pages of caches of that shape: the ones that there are, or new ones.
    pub(super) fn pool(&self, shape: WgpuPageShape) -> Arc<PagePool> {
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| pool.shape() == shape) {
            pool.reconsider();
            return pool;
        }
        let pool = Arc::new(PagePool::new(Arc::clone(&self.handle), shape));
        pools.push(Arc::downgrade(&pool));
        pool
    }
}
