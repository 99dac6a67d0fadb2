//! NVIDIA's compiler for kernels, where its library can be had.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::ptr;

use libloading::{Library, Symbol};

/// The version whose output is shipped.
pub(crate) const VERSION: (i32, i32) = (12, 0);
/// The package that brings it.
pub(crate) const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12==12.0.140";

/// The library `libnvrtc`, opened at run time.
pub(crate) struct Nvrtc(Library);

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// What the compiler is to make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Ptx,
    /// The machine's own code.
    Cubin,
}

impl Nvrtc {
    /// Loads the library at this path.
    pub(crate) fn open(path: &OsStr) -> Result<Self, String> {
        // SAFETY: NVIDIA's library does nothing of note when it is loaded.
        unsafe { Library::new(path) }.map(Self).map_err(|error| error.to_string())
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, String> {
        // SAFETY: the types above are those of NVRTC's header.
        unsafe { self.0.get(name) }.map_err(|error| error.to_string())
    }

    /// Major and minor number of its version.
    pub(crate) fn version(&self) -> Result<(i32, i32), String> {
        let version = self.symbol::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: it writes two numbers.
        unsafe { version(&raw mut major, &raw mut minor) };
        Ok((major, minor))
    }

    /// Compiles a program for an architecture, or says what is wrong with it.
    pub(crate) fn compile(&self, text: &str, architecture: &str, form: Form) -> Result<Vec<u8>, String> {
        let create = self.symbol::<Create>("nvrtcCreateProgram")?;
        let compile = self.symbol::<Compile>("nvrtcCompileProgram")?;
        let destroy = self.symbol::<Destroy>("nvrtcDestroyProgram")?;
        let options = echo_policy::generation::cuda::kernels::OPTIONS.map(str::to_owned);
        let options: Vec<CString> = options
            .into_iter()
            .chain([format!("--gpu-architecture={architecture}")])
            .map(|option| CString::new(option).expect("no zero"))
            .collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let text = CString::new(text).map_err(|error| error.to_string())?;
        let (mut program, name) = (ptr::null_mut(), c"kernels.cu");
        // SAFETY: strings that live, and no headers.
        unsafe { create(&raw mut program, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        // SAFETY: the program was made, and there are so many options.
        let rc = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
        let made = match (rc, form) {
            (0, Form::Ptx) => self.get(program, "nvrtcGetPTXSize", "nvrtcGetPTX"),
            (0, Form::Cubin) => self.get(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
            _ => {
                let log = self.get(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
                Err(String::from_utf8_lossy(&log).into_owned())
            }
        };
        // SAFETY: it is not used any more.
        unsafe { destroy(&raw mut program) };
        made
    }

    fn get(&self, program: Program, size: &str, get: &str) -> Result<Vec<u8>, String> {
        let (size, get) = (self.symbol::<Size>(size)?, self.symbol::<Get>(get)?);
        let mut bytes = 0;
        // SAFETY: it writes a number, and then so many bytes.
        unsafe { size(program, &raw mut bytes) };
        let mut made = vec![0u8; bytes];
        // SAFETY: as above.
        unsafe { get(program, made.as_mut_ptr().cast()) };
        Ok(made)
    }
}

/// PTX without the zero at its end.
pub(crate) fn text(mut ptx: Vec<u8>) -> String {
    while ptx.last() == Some(&0) {
        ptx.pop();
    }
    String::from_utf8_lossy(&ptx).into_owned()
}
