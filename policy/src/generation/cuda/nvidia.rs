//! NVIDIA's driver behind [`CudaDriver`].
//!
//! Its library is looked for, and loaded, when a device is asked for; where there is none, there is
//! an error. Everything goes through one stream, so a device works in the order of the calls.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::device::CudaDevice;
use super::driver::{Address, CudaDriver, DeviceMemory, DriverError, Launch};
use super::{CudaError, kernels};

/// Oldest driver that reads the shipped kernels, by the version of CUDA that it brings: 12.0,
/// which is driver 525.
pub const OLDEST_DRIVER: i32 = 12_000;
/// Least compute capability: the kernels multiply bf16 on tensor cores.
pub const LEAST_CAPABILITY: (i32, i32) = (8, 0);

/// A GPU that the driver knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// By which it is opened.
    pub index: usize,
    /// What NVIDIA calls it.
    pub name: String,
    /// Compute capability, major and minor number.
    pub capability: (i32, i32),
    /// Bytes of its memory.
    pub total_memory: usize,
    /// The version of CUDA that the driver brings.
    pub driver: (i32, i32),
}

impl DeviceInfo {
    /// Why it cannot be used, if it cannot.
    ///
    /// # Errors
    /// When its compute capability is too low.
    pub fn check(&self) -> Result<(), CudaError> {
        if self.capability >= LEAST_CAPABILITY {
            return Ok(());
        }
        let (device, (major, minor)) = (self.name.clone(), self.capability);
        Err(CudaError::Capability { device, major, minor })
    }
}

/// The GPUs of this machine, those that are too old included.
///
/// # Errors
/// When there is no driver, or one that is too old.
pub fn devices() -> Result<Vec<DeviceInfo>, CudaError> {
    let driver = start()?;
    let count = result::device::get_count().map_err(|error| refused("the driver", error))?;
    (0..count).map(|index| info(index, driver)).collect()
}

/// Opens a GPU, of whose memory at most `limit` bytes are taken.
///
/// # Errors
/// When there is no driver or no such GPU, one of them is too old, or it does not take the kernels.
pub fn open(index: usize, limit: Option<usize>) -> Result<Arc<CudaDevice>, CudaError> {
    let found = devices()?;
    let Some(info) = found.get(index) else {
        return Err(CudaError::NoSuchDevice { index, count: found.len() });
    };
    info.check()?;
    Ok(CudaDevice::new(Box::new(Nvidia::open(info)?), limit))
}

/// Looks for the driver and its version.
fn start() -> Result<(i32, i32), CudaError> {
    // With the feature `cuda` the driver is linked: what stands in for a missing one
    // (`cargo lab gpu pack`) says so when it is started.
    #[cfg(not(feature = "cuda"))]
    // SAFETY: it loads a library to see whether it is there. Calls below would panic where it is not.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    match result::init() {
        Ok(()) => {}
        Err(result::DriverError(
            sys::CUresult::CUDA_ERROR_NO_DEVICE | sys::CUresult::CUDA_ERROR_STUB_LIBRARY,
        )) => return Err(CudaError::NoDriver),
        Err(error) => return Err(refused("the driver", error)),
    }
    let mut version = 0;
    // SAFETY: it writes one number.
    let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
    asked.map_err(|error| refused("the driver", error))?;
    let found = (version / 1000, version % 1000 / 10);
    if version < OLDEST_DRIVER {
        return Err(CudaError::OldDriver { major: found.0, minor: found.1 });
    }
    Ok(found)
}

fn info(index: i32, driver: (i32, i32)) -> Result<DeviceInfo, CudaError> {
    let at = |error| refused(&format!("device {index}"), error);
    let device = result::device::get(index).map_err(at)?;
    // SAFETY: the device was just found.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) }.map_err(at);
    let major = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(DeviceInfo {
        index: usize::try_from(index).unwrap_or_default(),
        name: result::device::get_name(device).map_err(at)?,
        capability: (major, minor),
        // SAFETY: as above.
        total_memory: unsafe { result::device::total_mem(device) }.map_err(at)?,
        driver,
    })
}

fn refused(device: &str, error: result::DriverError) -> CudaError {
    CudaError::Refused { device: device.to_owned(), why: said(error) }
}

/// What the driver says of an error.
fn said(error: result::DriverError) -> String {
    let text = |found: Result<&std::ffi::CStr, _>| found.map(|text| text.to_string_lossy().into_owned());
    let name = text(error.error_name()).unwrap_or_else(|_| format!("{:?}", error.0));
    text(error.error_string()).map_or_else(|_| name.clone(), |what| format!("{name}, {what}"))
}

fn failed(error: result::DriverError) -> DriverError {
    match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => DriverError::OutOfMemory,
        _ => DriverError::Failed(said(error)),
    }
}

/// A GPU with the kernels on it.
struct Nvidia {
    name: String,
    processors: usize,
    kernels: HashMap<String, sys::CUfunction>,
    // From here on in the order in which they are given up.
    module: Option<sys::CUmodule>,
    stream: Option<sys::CUstream>,
    context: Context,
}

/// What the process does on a device; given back when it is dropped.
struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: the driver's handles may be used from any thread to which the context is made current,
// which every call does.
unsafe impl Send for Nvidia {}
// SAFETY: as above; the driver's calls may be made by several threads at a time.
unsafe impl Sync for Nvidia {}

impl Context {
    fn make_current(&self) -> Result<(), result::DriverError> {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { result::ctx::set_current(self.context) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once. A device that is lost says so, and there is nothing to
        // be done about it.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Nvidia {
    fn open(info: &DeviceInfo) -> Result<Self, CudaError> {
        let refused = |error| refused(&info.name, error);
        let why = |why: String| CudaError::Refused { device: info.name.clone(), why };
        let ptx = kernels::shipped().map_err(|error| why(format!("its kernels cannot be read: {error}")))?;
        let index = i32::try_from(info.index).map_err(|_| why("no such number".to_owned()))?;
        let device = result::device::get(index).map_err(refused)?;
        // SAFETY: the device was just found.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(refused)?;
        let context = Context { device, context };
        context.make_current().map_err(refused)?;
        let which = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        // SAFETY: as above.
        let processors = unsafe { result::device::get_attribute(device, which) }.map_err(refused)?;
        let mut this = Self {
            name: info.name.clone(),
            processors: usize::try_from(processors).unwrap_or(1),
            kernels: HashMap::new(),
            module: None,
            stream: None,
            context,
        };
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(refused)?;
        this.stream = Some(stream);
        let names: Vec<String> = kernels::names(&ptx).map(str::to_owned).collect();
        let text = CString::new(ptx).map_err(|_| why("its kernels hold a zero byte".to_owned()))?;
        // SAFETY: it is text that ends with a zero.
        let module = unsafe { result::module::load_data(text.as_ptr().cast()) }.map_err(refused)?;
        this.module = Some(module);
        for name in names {
            let symbol =
                CString::new(name.as_str()).map_err(|_| why("a kernel without a name".to_owned()))?;
            // SAFETY: the module is loaded as long as `this` lives.
            let function = unsafe { result::module::get_function(module, symbol) }.map_err(refused)?;
            this.kernels.insert(name, function);
        }
        Ok(this)
    }

    fn stream(&self) -> sys::CUstream {
        self.stream.unwrap_or_else(result::stream::null)
    }

    /// Makes a call with the device's context current.
    fn call<T>(&self, call: impl FnOnce() -> Result<T, result::DriverError>) -> Result<T, DriverError> {
        self.context.make_current().and_then(|()| call()).map_err(failed)
    }
}

impl Drop for Nvidia {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: nobody else has them. A device that is lost says so, and there is nothing to
        // be done about it.
        unsafe {
            if let Some(module) = self.module.take() {
                let _ = result::module::unload(module);
            }
            if let Some(stream) = self.stream.take() {
                let _ = result::stream::destroy(stream);
            }
        }
    }
}

impl CudaDriver for Nvidia {
    fn name(&self) -> &str {
        &self.name
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn memory(&self) -> Result<DeviceMemory, DriverError> {
        let (free, total) = self.call(result::mem_get_info)?;
        Ok(DeviceMemory { free, total })
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DriverError> {
        // The driver takes no request for nothing.
        // SAFETY: the context is current.
        self.call(|| unsafe { result::malloc_sync(bytes.max(1)) })
    }

    unsafe fn free(&self, address: Address) {
        // SAFETY: the caller's promise. The driver waits for what still runs. A device that is lost
        // has no memory to be given back.
        let _ = self.call(|| unsafe { result::free_sync(address) });
    }

    unsafe fn upload(&self, bytes: &[u8], to: Address) -> Result<(), DriverError> {
        // Memory of the host that is not pinned is copied aside before the call returns.
        // SAFETY: the caller's promise.
        self.call(|| unsafe { result::memcpy_htod_async(to, bytes, self.stream()) })
    }

    unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError> {
        // SAFETY: the caller's promise; the bytes are borrowed until the stream is done.
        self.call(|| unsafe {
            result::memcpy_dtoh_async(bytes, from, self.stream())?;
            result::stream::synchronize(self.stream())
        })
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        self.call(|| unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream()) })
    }

    unsafe fn launch(&self, kernel: &str, launch: Launch, arguments: &[u8]) -> Result<(), DriverError> {
        let Some(function) = self.kernels.get(kernel) else {
            return Err(DriverError::Failed(format!("there is no kernel {kernel}")));
        };
        let Launch { blocks: [x, y, z], threads, shared } = launch;
        // The driver copies as many bytes as the kernel takes; they have to be aligned as its structure is.
        let mut words = [0u64; 32];
        if arguments.len() > size_of_val(&words) {
            return Err(DriverError::Failed(format!("the arguments of {kernel} are too long")));
        }
        bytemuck::bytes_of_mut(&mut words)[..arguments.len()].copy_from_slice(arguments);
        let mut parameters = [words.as_mut_ptr().cast::<c_void>()];
        // SAFETY: the caller's promise.
        self.call(|| unsafe {
            result::launch_kernel(
                *function,
                (x, y, z),
                (threads, 1, 1),
                shared,
                self.stream(),
                &mut parameters,
            )
        })
    }
}
