//! A driver that runs the kernels on the processor: `emulator.h` brings the words of CUDA, a
//! C++ compiler the rest.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use echo_policy::generation::cuda::{
    Address, CudaDevice, CudaDriver, DeviceMemory, DriverError, Launch, kernels,
};
use libloading::Library;
use parking_lot::Mutex;

/// What the machine lacks, and how to get it.
pub(crate) struct Missing(pub(crate) &'static str);

/// The kernels, compiled for this machine and loaded.
pub(crate) struct Program {
    library: Library,
    _dir: tempfile::TempDir,
}

type Kernel = unsafe extern "C" fn(*const c_void, *const u32, u32, u32, i32) -> i32;

impl Program {
    /// Compiles the kernels with a C++ compiler.
    ///
    /// Panics when there is a compiler, and it refuses them.
    pub(crate) fn compile() -> Result<Arc<Self>, Missing> {
        let missing = Missing("no C++ compiler: apt-get install g++ (Debian, Ubuntu) brings one");
        if !cfg!(all(unix, target_pointer_width = "64")) {
            return Err(Missing("the emulator needs a 64-bit Unix"));
        }
        if Command::new("g++").arg("--version").output().is_err() {
            return Err(missing);
        }
        let dir = tempfile::tempdir().unwrap();
        let (source, object) = (dir.path().join("kernels.cpp"), dir.path().join("kernels.so"));
        std::fs::write(&source, [include_str!("emulator.h"), &kernels::program()].concat()).unwrap();
        // Without contraction, as for GPUs; without optimisations a fused multiply-add would be a call.
        let arguments = ["-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-w", "-shared", "-fPIC"];
        let output =
            Command::new("g++").args(arguments).arg(&source).arg("-o").arg(&object).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // SAFETY: loading it runs nothing.
        let library = unsafe { Library::new(&object) }.unwrap();
        Ok(Arc::new(Self { library, _dir: dir }))
    }
}

/// What an emulated device is like, and what has been done with it.
pub(crate) struct Emulator {
    program: Arc<Program>,
    /// Bytes of memory that the device has.
    pub(crate) total: usize,
    /// Blocks at a time: decides how attention is split.
    pub(crate) processors: usize,
    /// Whether the threads of a block run in the other order.
    pub(crate) backwards: bool,
    /// Calls from now on after which the device is lost.
    pub(crate) calls_left: AtomicUsize,
    lost: AtomicBool,
    /// What is taken, by address.
    memory: Mutex<BTreeMap<Address, Allocation>>,
    taken: AtomicUsize,
    /// Names of the kernels that were launched.
    pub(crate) launched: Mutex<std::collections::BTreeSet<String>>,
}

/// Its bytes, and the memory with a guard after them.
type Allocation = (usize, Box<[Block]>);

/// Memory that is aligned as a device's.
#[derive(Clone, Copy)]
#[repr(align(256))]
struct Block([u8; 256]);

impl Emulator {
    pub(crate) fn new(program: &Arc<Program>) -> Self {
        Self {
            program: Arc::clone(program),
            total: usize::MAX / 2,
            processors: 4,
            backwards: false,
            calls_left: AtomicUsize::new(usize::MAX),
            lost: AtomicBool::new(false),
            memory: Mutex::default(),
            taken: AtomicUsize::new(0),
            launched: Mutex::default(),
        }
    }

    /// The same with changes.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// A device over it.
    pub(crate) fn device(self) -> Arc<CudaDevice> {
        CudaDevice::new(Box::new(self), None)
    }

    /// A device over it, and the emulator itself.
    pub(crate) fn shared_device(self) -> (Arc<CudaDevice>, Arc<Self>) {
        let emulator = Arc::new(self);
        (CudaDevice::new(Box::new(Shared(Arc::clone(&emulator))), None), emulator)
    }

    /// Bytes that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    fn call(&self) -> Result<(), DriverError> {
        let left =
            self.calls_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() || self.lost.load(Ordering::SeqCst) {
            self.lost.store(true, Ordering::SeqCst);
            return Err(DriverError::Failed("CUDA_ERROR_ILLEGAL_ADDRESS".to_owned()));
        }
        Ok(())
    }

    /// Fails unless so many bytes behind an address are of one allocation.
    fn check(&self, address: Address, bytes: usize) {
        let memory = self.memory.lock();
        let (start, (size, _)) = memory.range(..=address).next_back().expect("memory of the device");
        assert!(address - start + bytes as u64 <= *size as u64, "within an allocation");
    }
}

impl CudaDriver for Emulator {
    fn name(&self) -> &str {
        "emulator"
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn memory(&self) -> Result<DeviceMemory, DriverError> {
        Ok(DeviceMemory { free: self.total.saturating_sub(self.taken()), total: self.total })
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DriverError> {
        self.call()?;
        if bytes > self.total.saturating_sub(self.taken()) {
            return Err(DriverError::OutOfMemory);
        }
        self.taken.fetch_add(bytes, Ordering::SeqCst);
        // What nobody wrote is not a number.
        let blocks = vec![Block([0xff; 256]); bytes.div_ceil(256) + 1].into_boxed_slice();
        let address = blocks.as_ptr() as Address;
        self.memory.lock().insert(address, (bytes, blocks));
        Ok(address)
    }

    unsafe fn free(&self, address: Address) {
        let (bytes, blocks) = self.memory.lock().remove(&address).expect("an allocation");
        let guard = blocks.iter().flat_map(|block| block.0).skip(bytes);
        assert!(guard.into_iter().all(|byte| byte == 0xff), "somebody wrote beyond the end");
        self.taken.fetch_sub(bytes, Ordering::SeqCst);
    }

    unsafe fn upload(&self, bytes: &[u8], to: Address) -> Result<(), DriverError> {
        self.call()?;
        self.check(to, bytes.len());
        // SAFETY: checked.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        Ok(())
    }

    unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.call()?;
        self.check(from, bytes.len());
        // SAFETY: checked.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DriverError> {
        self.call()?;
        self.check(from, bytes);
        self.check(to, bytes);
        // SAFETY: checked.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn launch(&self, kernel: &str, launch: Launch, arguments: &[u8]) -> Result<(), DriverError> {
        self.call()?;
        self.launched.lock().insert(kernel.to_owned());
        let library = &self.program.library;
        // SAFETY: what `emulator.h` makes of each kernel.
        let size = unsafe { library.get::<*const u32>(format!("{kernel}_arguments")) }.expect("a kernel");
        // SAFETY: as above.
        assert_eq!(unsafe { **size } as usize, arguments.len(), "{kernel}'s structure");
        // SAFETY: as above.
        let function = unsafe { library.get::<Kernel>(kernel) }.expect("a kernel");
        let Launch { blocks, threads, shared } = launch;
        // SAFETY: the caller's promise.
        let rc = unsafe {
            function(arguments.as_ptr().cast(), blocks.as_ptr(), threads, shared, i32::from(self.backwards))
        };
        assert_eq!(rc, 0, "{kernel}: 1 is a barrier that threads do not come to, 2 and 3 are bad launches");
        Ok(())
    }
}

/// A driver that the test keeps a hand on.
struct Shared(Arc<Emulator>);

impl CudaDriver for Shared {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn processors(&self) -> usize {
        self.0.processors()
    }

    fn memory(&self) -> Result<DeviceMemory, DriverError> {
        self.0.memory()
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DriverError> {
        self.0.allocate(bytes)
    }

    unsafe fn free(&self, address: Address) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(address) }
    }

    unsafe fn upload(&self, bytes: &[u8], to: Address) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.upload(bytes, to) }
    }

    unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.download(from, bytes) }
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.copy(from, to, bytes) }
    }

    unsafe fn launch(&self, kernel: &str, launch: Launch, arguments: &[u8]) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.launch(kernel, launch, arguments) }
    }
}
