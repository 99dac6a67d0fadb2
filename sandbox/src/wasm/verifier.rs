//! What a loaded module says.

use std::fmt::{self, Debug, Formatter};

use echo_protocol::wire::content_id::ContentId;

use super::call::ModuleCall;
use super::limits::{ABI_VERSION, MAX_METADATA_BYTES, MAX_TEXT_CHARS};
use super::module::{Export, Module};
use super::{ModuleError, Runtime, WasmFailure, metadata};
use crate::task::Verdict;

/// A module that keeps the interface. Every method makes an instance of its own, so calls may
/// overlap and know nothing of each other.
pub struct WasmVerifier {
    id: ContentId,
    module: Module,
    longest_prompt: usize,
    longest_response: usize,
}

impl Runtime {
    /// Compiles a module and checks that it keeps the interface.
    ///
    /// # Errors
    /// When the bytes are not those named by `id`, or break a rule of the interface.
    pub fn load(&self, id: ContentId, bytes: &[u8]) -> Result<WasmVerifier, ModuleError> {
        let module = Module::compile(self, id, bytes)?;
        let mut call = ModuleCall::new(&module)?;
        let found = call.call(&module.abi_version, ())?;
        if found != ABI_VERSION {
            return Err(ModuleError::Version { found });
        }
        let mut longest = |name, export| {
            let found = call.call(export, ())?;
            match usize::try_from(found) {
                Ok(characters @ 1..=MAX_TEXT_CHARS) => Ok(characters),
                _ => Err(ModuleError::Longest { name, found }),
            }
        };
        let longest_prompt = longest("longest_prompt", &module.longest_prompt)?;
        let longest_response = longest("longest_response", &module.longest_response)?;
        Ok(WasmVerifier { id, module, longest_prompt, longest_response })
    }
}

impl WasmVerifier {
    /// The BLAKE3 of the module's bytes.
    pub fn id(&self) -> ContentId {
        self.id
    }

    /// The most characters of a prompt.
    pub fn longest_prompt(&self) -> usize {
        self.longest_prompt
    }

    /// The most characters that an answer needs.
    pub fn longest_response(&self) -> usize {
        self.longest_response
    }

    /// Makes an instance and drops it, as every question does first.
    ///
    /// # Errors
    /// [`WasmFailure`], when the start function fails or this machine makes no instance.
    pub fn instantiate(&self) -> Result<(), WasmFailure> {
        ModuleCall::new(&self.module).map(drop)
    }

    /// The prompt of `seed`.
    ///
    /// # Errors
    /// [`WasmFailure`]; also when the prompt is longer than the module announced.
    pub fn prompt(&self, seed: &[u8; 32]) -> Result<String, WasmFailure> {
        self.of_seed("prompt", &self.module.prompt, seed, self.longest_prompt)
    }

    /// Judges a response to the prompt of `seed`; `finished` is false when it was cut by length.
    ///
    /// # Errors
    /// [`WasmFailure`]: the response is worth nothing at all, not even a reward of 0.
    pub fn reward(&self, seed: &[u8; 32], response: &str, finished: bool) -> Result<Verdict, WasmFailure> {
        let mut call = ModuleCall::new(&self.module)?;
        let seed = call.give("seed", seed)?;
        let text = call.give("response", response.as_bytes())?;
        let given = (seed, text, response.len() as i32, i32::from(finished));
        let reward = call.call(&self.module.reward, given)?;
        if !(0.0..=1.0).contains(&reward) {
            return Err(WasmFailure::Reward(reward));
        }
        // The sum turns a negative zero into a positive one.
        let verdict = Verdict { reward: reward + 0.0, correct: reward == 1.0, metadata: Default::default() };
        let Some(export) = &self.module.metadata else { return Ok(verdict) };
        let said = call.call(export, ())?;
        metadata::add(verdict, call.text("metadata", said, MAX_METADATA_BYTES)?)
    }

    /// A right answer to the prompt of `seed`; `None` when the module knows none.
    ///
    /// # Errors
    /// [`WasmFailure`]; also when the answer is longer than the module announced.
    pub fn solution(&self, seed: &[u8; 32]) -> Result<Option<String>, WasmFailure> {
        let Some(export) = &self.module.solution else { return Ok(None) };
        self.of_seed("solution", export, seed, self.longest_response).map(Some)
    }

    fn of_seed(
        &self,
        what: &'static str,
        export: &Export<i32, i64>,
        seed: &[u8; 32],
        limit: usize,
    ) -> Result<String, WasmFailure> {
        let mut call = ModuleCall::new(&self.module)?;
        let seed = call.give("seed", seed)?;
        let said = call.call(export, seed)?;
        call.characters(what, said, limit)
    }
}

impl Debug for WasmVerifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmVerifier")
            .field("id", &self.id)
            .field("longest_prompt", &self.longest_prompt)
            .field("longest_response", &self.longest_response)
            .finish_non_exhaustive()
    }
}
