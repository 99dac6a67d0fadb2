//! What is asked of a GPU: memory, copies, and kernels, one after the other.

/// A place in the device's memory.
pub type Address = u64;

/// Why the device did not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverError {
    /// There is no room for so much.
    OutOfMemory,
    /// Anything else: the device can no longer be relied on. What it said.
    Failed(String),
}

/// How many threads run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in each direction.
    pub blocks: [u32; 3],
    /// Threads of a block, whole warps of 32.
    pub threads: u32,
    /// Bytes of shared memory that a block is given, beside what the kernel declares itself.
    pub shared: u32,
}

/// Bytes of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// That nobody has taken.
    pub free: usize,
    /// All that the device has.
    pub total: usize,
}

/// A device that was opened, with the kernels on it.
///
/// Everything happens in the order of the calls. What fails on the way may be reported by a later call.
pub trait CudaDriver: Send + Sync {
    /// What people call it.
    fn name(&self) -> &str;

    /// How many blocks it works on at a time, at least.
    fn processors(&self) -> usize;

    /// How much memory there is.
    ///
    /// # Errors
    /// When the device does not answer.
    fn memory(&self) -> Result<DeviceMemory, DriverError>;

    /// Takes so many bytes, aligned to at least 256.
    ///
    /// # Errors
    /// When they are not there.
    fn allocate(&self, bytes: usize) -> Result<Address, DriverError>;

    /// Gives back what [`CudaDriver::allocate`] gave.
    ///
    /// # Safety
    /// Nothing that was asked for, or will be, uses it any more.
    unsafe fn free(&self, address: Address);

    /// Copies bytes to the device. They may be changed when the call returns.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Safety
    /// There is as much memory behind the address.
    unsafe fn upload(&self, bytes: &[u8], to: Address) -> Result<(), DriverError>;

    /// Waits for everything before, and copies bytes from the device.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Safety
    /// There is as much memory behind the address.
    unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError>;

    /// Copies bytes within the device.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Safety
    /// There is as much memory behind both addresses, and it does not overlap.
    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DriverError>;

    /// Runs a kernel with its one argument, a structure of this form.
    ///
    /// # Errors
    /// When there is no such kernel, or the device fails.
    ///
    /// # Safety
    /// The kernel takes such a structure, and finds what it needs behind the addresses in there.
    unsafe fn launch(&self, kernel: &str, launch: Launch, arguments: &[u8]) -> Result<(), DriverError>;
}
