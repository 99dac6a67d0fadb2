//! One instance of a module, from its start to the end of one question.

use wasmtime::{Instance, Memory, Store, StoreLimits, WasmParams, WasmResults};

use super::WasmFailure;
use super::limits::MAX_TEXT_CHARS;
use super::module::{Export, Module};
use super::runtime::Place;

/// An instance with its memory, its fuel and its part of the wall clock.
pub(super) struct ModuleCall<'a> {
    module: &'a Module,
    store: Store<StoreLimits>,
    instance: Instance,
    memory: Memory,
    /// Given up last, when the instance is gone.
    _place: Place,
}

impl<'a> ModuleCall<'a> {
    /// Makes an instance and runs the module's start function, if it has one. Waits while there are as many
    /// instances as there may be.
    pub(super) fn new(module: &'a Module) -> Result<Self, WasmFailure> {
        let place = module.runtime.place();
        let mut store = module.runtime.store().map_err(|error| WasmFailure::host(&error))?;
        let instance = module.pre.instantiate(&mut store).map_err(|error| WasmFailure::of(&error))?;
        let memory = instance
            .get_module_export(&mut store, &module.memory)
            .and_then(|export| export.into_memory())
            .expect("loading found the memory");
        Ok(Self { module, store, instance, memory, _place: place })
    }

    /// Calls an export of the interface.
    pub(super) fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        export: &Export<P, R>,
        params: P,
    ) -> Result<R, WasmFailure> {
        let function = self
            .instance
            .get_module_export(&mut self.store, &export.index)
            .and_then(|export| export.into_func())
            .expect("loading found the function");
        let function = function.typed::<P, R>(&self.store).map_err(|error| WasmFailure::host(&error))?;
        function.call(&mut self.store, params).map_err(|error| WasmFailure::of(&error))
    }

    /// Hands bytes to the module; the result is their address.
    pub(super) fn give(&mut self, what: &'static str, bytes: &[u8]) -> Result<i32, WasmFailure> {
        let module = self.module;
        let long =
            |_| WasmFailure::Long { what, found: bytes.len(), unit: "bytes", limit: i32::MAX as usize };
        let length = i32::try_from(bytes.len()).map_err(long)?;
        let address = self.call(&module.alloc, length)?;
        let start = address as u32 as usize;
        let end = start.saturating_add(bytes.len());
        let Some(place) = self.memory.data_mut(&mut self.store).get_mut(start..end) else {
            return Err(WasmFailure::Outside { what, address: address as u32, bytes: bytes.len() });
        };
        place.copy_from_slice(bytes);
        Ok(address)
    }

    /// Reads a text of at most `limit` bytes that the module returned.
    pub(super) fn text(&self, what: &'static str, returned: i64, limit: usize) -> Result<&str, WasmFailure> {
        let (address, length) = ((returned >> 32) as u32, returned as u32 as usize);
        if length > limit {
            return Err(WasmFailure::Long { what, found: length, unit: "bytes", limit });
        }
        let start = address as usize;
        let bytes = self.memory.data(&self.store).get(start..start.saturating_add(length));
        let bytes = bytes.ok_or(WasmFailure::Outside { what, address, bytes: length })?;
        std::str::from_utf8(bytes).map_err(|_| WasmFailure::NotText { what })
    }

    /// Reads a text of at most `limit` characters.
    pub(super) fn characters(
        &self,
        what: &'static str,
        returned: i64,
        limit: usize,
    ) -> Result<String, WasmFailure> {
        debug_assert!(limit <= MAX_TEXT_CHARS);
        let text = self.text(what, returned, limit * char::MAX.len_utf8())?;
        match text.chars().count() {
            found if found > limit => Err(WasmFailure::Long { what, found, unit: "characters", limit }),
            _ => Ok(text.to_owned()),
        }
    }
}
