//! From bytes to a compiled module that keeps the interface.

use std::marker::PhantomData;

use echo_protocol::wire::content_id::ContentId;
use wasmtime::{ExternType, FuncType, InstancePre, Linker, ModuleExport, StoreLimits};

use super::failure::quoted;
use super::limits::{ABI_VERSION, MAX_MEMORY_BYTES, MAX_MODULE_BYTES, MAX_TABLE_ELEMENTS, MAX_TEXT_CHARS};
use super::{Runtime, WasmFailure};

/// What the binary form begins with.
const MAGIC: &[u8] = b"\0asm";

/// Whether a file is the text form: behind blanks and comments it begins with a parenthesis.
fn is_text(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b";;"));
    first.is_some_and(|line| line.starts_with(b"("))
}

/// A module that is no verifier.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModuleError {
    /// Other bytes than those asked for.
    #[error("the module's address is {found}, not {wanted}: fetch it again")]
    OtherContent {
        /// The address asked for.
        wanted: ContentId,
        /// The address of the bytes.
        found: ContentId,
    },
    /// More bytes than [`MAX_MODULE_BYTES`], so it is not even compiled.
    #[error(
        "the module has {bytes} bytes: make it at most {MAX_MODULE_BYTES}, for example by stripping names and debug information"
    )]
    Long {
        /// The module's length in bytes.
        bytes: usize,
    },
    /// The text form.
    #[error("this is WebAssembly text; assemble it with `wat2wasm`, and give the file that it writes")]
    Text,
    /// Something else.
    #[error("this is no WebAssembly module: such a file begins with the bytes 00 61 73 6d")]
    Other,
    /// A module in the binary form that needs what is turned off or more than a module gets.
    #[error(
        "the module cannot be compiled: {0}; build it for WebAssembly 2.0 without SIMD, in the binary form, with one memory of at most {MAX_MEMORY_BYTES} bytes and one table of at most {MAX_TABLE_ELEMENTS} elements"
    )]
    Invalid(String),
    /// It asks for something from outside.
    #[error("the module imports {name:?}: verifiers import nothing; build it without a system interface")]
    Import {
        /// Module and field of the first import.
        name: String,
    },
    /// An export is missing, or is something else.
    #[error("the module must export {name} as {wanted}; it exports {found}")]
    Export {
        /// The export's name in the interface.
        name: &'static str,
        /// What the interface says.
        wanted: &'static str,
        /// What the module has.
        found: String,
    },
    /// Another version of the interface.
    #[error(
        "the module is written for version {found} of the interface; this version of Echo knows {ABI_VERSION}"
    )]
    Version {
        /// The number that the module's `abi_version` returned.
        found: i32,
    },
    /// A length that no prompt or answer could have.
    #[error("the module's {name} is {found}: return 1 to {MAX_TEXT_CHARS} characters")]
    Longest {
        /// The export: `longest_prompt` or `longest_response`.
        name: &'static str,
        /// The number that it returned, out of range.
        found: i32,
    },
    /// It fails before anybody asks it anything.
    #[error("the module could not say what it is: {0}")]
    Failure(#[from] WasmFailure),
}

/// A function of the interface that the module was seen to export with this type.
pub(super) struct Export<P, R> {
    pub(super) index: ModuleExport,
    types: PhantomData<fn(P) -> R>,
}

/// A compiled module and where its exports are.
pub(super) struct Module {
    pub(super) runtime: Runtime,
    pub(super) pre: InstancePre<StoreLimits>,
    pub(super) memory: ModuleExport,
    pub(super) alloc: Export<i32, i32>,
    pub(super) abi_version: Export<(), i32>,
    pub(super) longest_prompt: Export<(), i32>,
    pub(super) longest_response: Export<(), i32>,
    pub(super) prompt: Export<i32, i64>,
    pub(super) reward: Export<(i32, i32, i32, i32), f32>,
    pub(super) metadata: Option<Export<(), i64>>,
    pub(super) solution: Option<Export<i32, i64>>,
}

impl Module {
    /// Compiles `bytes` and checks everything that can be seen without running them.
    pub(super) fn compile(runtime: &Runtime, id: ContentId, bytes: &[u8]) -> Result<Self, ModuleError> {
        if bytes.len() > MAX_MODULE_BYTES {
            return Err(ModuleError::Long { bytes: bytes.len() });
        }
        let found = ContentId::of(bytes);
        if found != id {
            return Err(ModuleError::OtherContent { wanted: id, found });
        }
        let invalid = |error: wasmtime::Error| ModuleError::Invalid(format!("{error:#}"));
        if !bytes.starts_with(MAGIC) {
            return Err(if is_text(bytes) { ModuleError::Text } else { ModuleError::Other });
        }
        let module = wasmtime::Module::from_binary(&runtime.engine, bytes).map_err(invalid)?;
        if let Some(import) = module.imports().next() {
            let name = format!("{}.{}", quoted(import.module()), quoted(import.name()));
            return Err(ModuleError::Import { name });
        }
        let memory = match module.get_export("memory") {
            Some(ExternType::Memory(_)) => module.get_export_index("memory"),
            _ => None,
        };
        let memory = memory.ok_or_else(|| unlike(&module, "memory", "(memory)"))?;
        Ok(Self {
            runtime: runtime.clone(),
            memory,
            alloc: export(&module, "alloc", "(func (param i32) (result i32))")?,
            abi_version: export(&module, "abi_version", "(func (result i32))")?,
            longest_prompt: export(&module, "longest_prompt", "(func (result i32))")?,
            longest_response: export(&module, "longest_response", "(func (result i32))")?,
            prompt: export(&module, "prompt", "(func (param i32) (result i64))")?,
            reward: export(&module, "reward", "(func (param i32 i32 i32 i32) (result f32))")?,
            metadata: optional(&module, "metadata", "(func (result i64))")?,
            solution: optional(&module, "solution", "(func (param i32) (result i64))")?,
            pre: Linker::new(&runtime.engine).instantiate_pre(&module).map_err(invalid)?,
        })
    }
}

/// Finds an export of the type `wanted`, which is that of a function from `P` to `R`.
fn export<P, R>(
    module: &wasmtime::Module,
    name: &'static str,
    wanted: &'static str,
) -> Result<Export<P, R>, ModuleError> {
    let index = match module.get_export(name) {
        Some(ExternType::Func(found)) if written(&found) == wanted => module.get_export_index(name),
        _ => None,
    };
    index.map(|index| Export { index, types: PhantomData }).ok_or_else(|| unlike(module, name, wanted))
}

fn optional<P, R>(
    module: &wasmtime::Module,
    name: &'static str,
    wanted: &'static str,
) -> Result<Option<Export<P, R>>, ModuleError> {
    module.get_export(name).map(|_| export(module, name, wanted)).transpose()
}

/// The type of a function in the text form of WebAssembly.
fn written(function: &FuncType) -> String {
    let text = function.to_string();
    text.strip_prefix("(type ").and_then(|text| text.strip_suffix(')')).unwrap_or(&text).to_owned()
}

fn unlike(module: &wasmtime::Module, name: &'static str, wanted: &'static str) -> ModuleError {
    let found = match module.get_export(name) {
        None => "nothing".to_owned(),
        Some(ExternType::Func(found)) => quoted(&written(&found)).to_owned(),
        Some(ExternType::Memory(_)) => "a memory".to_owned(),
        Some(ExternType::Table(_)) => "a table".to_owned(),
        Some(ExternType::Global(_) | ExternType::Tag(_)) => "a value".to_owned(),
    };
    ModuleError::Export { name, wanted, found }
}
