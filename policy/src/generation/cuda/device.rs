//! A GPU that was opened once: its memory, and whose turn it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::driver::{Address, CudaDriver, DeviceMemory, DriverError, Launch};
use super::kernels::Arguments;
use crate::generation::EngineError;
use crate::sync::ticket_lock::{TicketGuard, TicketLock};

/// Bytes that are left to others: drivers take some for themselves after they said that they were free.
const RESERVE: usize = 256 << 20;

/// A GPU. Policies on it, one after the other, share it, and so do their caches.
pub struct CudaDevice {
    driver: Box<dyn CudaDriver>,
    /// Bytes that may be taken.
    limit: usize,
    /// Bytes taken, idle pages included.
    used: AtomicUsize,
    /// Pages that no cache has, by their size.
    idle: Mutex<BTreeMap<usize, Vec<Address>>>,
    turns: TicketLock,
    /// Memory that passes use one after the other; it grows to what the largest one needed.
    workspace: Mutex<Option<(Address, usize)>>,
}

/// Memory of a device, given back when it is dropped.
pub(super) struct DeviceBuffer {
    device: Arc<CudaDevice>,
    address: Address,
    bytes: usize,
}

/// Memory for the keys and values of some tokens, which goes to the next cache when it is dropped.
pub(super) struct CudaPage {
    device: Arc<CudaDevice>,
    address: Address,
    bytes: usize,
}

impl CudaDevice {
    /// A device that takes at most `limit` bytes; all that there are without one.
    #[must_use]
    pub fn new(driver: Box<dyn CudaDriver>, limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            driver,
            limit: limit.unwrap_or(usize::MAX),
            used: AtomicUsize::new(0),
            idle: Mutex::default(),
            turns: TicketLock::new(),
            workspace: Mutex::default(),
        })
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        self.driver.name()
    }

    /// How much memory there is, and how much of it nobody has taken.
    ///
    /// # Errors
    /// When the device does not answer any more.
    pub fn memory(&self) -> Result<DeviceMemory, EngineError> {
        self.driver.memory().map_err(|error| self.failed(error))
    }

    /// Bytes taken of its memory.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn processors(&self) -> usize {
        self.driver.processors()
    }

    /// Waits until everybody has computed who asked before.
    pub(super) fn take_turn(&self) -> TicketGuard<'_> {
        self.turns.take()
    }

    /// Bytes that pages of this size may still take.
    pub(super) fn free_page_bytes(&self, page: usize) -> usize {
        let idle = self.idle.lock().get(&page).map_or(0, Vec::len) * page;
        let free = self
            .driver
            .memory()
            .map_or(0, |memory| memory.free.saturating_sub(RESERVE.min(memory.total / 8)));
        idle + free.min(self.limit.saturating_sub(self.used_bytes()))
    }

    /// Memory with these bytes in it.
    ///
    /// Fails when there is no room for it, or the device fails.
    pub(super) fn buffer(self: &Arc<Self>, bytes: usize) -> Result<DeviceBuffer, EngineError> {
        Ok(DeviceBuffer { device: Arc::clone(self), address: self.allocate(bytes)?, bytes })
    }

    /// Memory for keys and values; what is in there is of no account.
    ///
    /// Fails as [`CudaDevice::buffer`] does.
    pub(super) fn page(self: &Arc<Self>, bytes: usize) -> Result<CudaPage, EngineError> {
        let idle = self.idle.lock().get_mut(&bytes).and_then(Vec::pop);
        let address = idle.map_or_else(|| self.allocate(bytes), Ok)?;
        Ok(CudaPage { device: Arc::clone(self), address, bytes })
    }

    /// Where a pass may put so many bytes. Only for whose turn it is.
    ///
    /// Fails as [`CudaDevice::buffer`] does.
    pub(super) fn workspace(&self, bytes: usize) -> Result<Address, EngineError> {
        let mut workspace = self.workspace.lock();
        if let Some((address, _)) = workspace.filter(|(_, size)| *size >= bytes) {
            return Ok(address);
        }
        if let Some((address, size)) = workspace.take() {
            self.release(address, size);
        }
        let address = self.allocate(bytes)?;
        *workspace = Some((address, bytes));
        Ok(address)
    }

    pub(super) fn upload(&self, bytes: &[u8], to: Address) -> Result<(), EngineError> {
        // SAFETY: addresses in this module's hands are of buffers that live, with room for what is put there.
        unsafe { self.driver.upload(bytes, to) }.map_err(|error| self.failed(error))
    }

    pub(super) fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), EngineError> {
        // SAFETY: as in `upload`.
        unsafe { self.driver.download(from, bytes) }.map_err(|error| self.failed(error))
    }

    pub(super) fn copy_page(&self, from: &CudaPage, to: &CudaPage) -> Result<(), EngineError> {
        debug_assert_eq!(from.bytes, to.bytes);
        // SAFETY: both pages live and are of that size.
        unsafe { self.driver.copy(from.address, to.address, from.bytes) }.map_err(|error| self.failed(error))
    }

    /// Runs a kernel. Nothing to do is no launch.
    ///
    /// # Safety
    /// As for [`CudaDriver::launch`], whose arguments these are.
    pub(super) unsafe fn launch<A: Arguments>(
        &self,
        kernel: &str,
        launch: Launch,
        arguments: &A,
    ) -> Result<(), EngineError> {
        if launch.blocks.contains(&0) {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let done = unsafe { self.driver.launch(kernel, launch, bytemuck::bytes_of(arguments)) };
        done.map_err(|error| self.failed(error))
    }

    fn allocate(&self, bytes: usize) -> Result<Address, EngineError> {
        let taken = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        for trimmed in [false, true] {
            if trimmed {
                self.trim();
            }
            if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_err() {
                continue;
            }
            match self.driver.allocate(bytes) {
                Ok(address) => return Ok(address),
                Err(error) => {
                    self.used.fetch_sub(bytes, Ordering::Relaxed);
                    if error != DriverError::OutOfMemory {
                        return Err(self.failed(error));
                    }
                }
            }
        }
        let free = self.memory()?.free;
        Err(EngineError::Memory {
            wanted: bytes,
            free: free.min(self.limit.saturating_sub(self.used_bytes())),
        })
    }

    /// Gives the pages back that no cache has.
    fn trim(&self) {
        for (bytes, addresses) in std::mem::take(&mut *self.idle.lock()) {
            addresses.into_iter().for_each(|address| self.release(address, bytes));
        }
    }

    fn release(&self, address: Address, bytes: usize) {
        // SAFETY: whoever had it dropped it, and what was asked for before is done in order.
        unsafe { self.driver.free(address) };
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn failed(&self, error: DriverError) -> EngineError {
        let why = match error {
            DriverError::OutOfMemory => "out of memory where none was asked for".to_owned(),
            DriverError::Failed(why) => why,
        };
        EngineError::DeviceLost { device: self.name().to_owned(), why }
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.trim();
        if let Some((address, bytes)) = self.workspace.get_mut().take() {
            self.release(address, bytes);
        }
    }
}

impl std::fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaDevice")
            .field("name", &self.name())
            .field("used", &self.used_bytes())
            .finish_non_exhaustive()
    }
}

impl DeviceBuffer {
    pub(super) fn address(&self) -> Address {
        self.address
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        self.device.release(self.address, self.bytes);
    }
}

impl CudaPage {
    pub(super) fn address(&self) -> Address {
        self.address
    }
}

impl Drop for CudaPage {
    fn drop(&mut self) {
        self.device.idle.lock().entry(self.bytes).or_default().push(self.address);
    }
}
