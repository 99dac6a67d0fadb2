//! `wasm`: a task that its author ships as a WebAssembly module. The run's file names it
//! `wasm:<id>`, the charter by its content.

use std::sync::OnceLock;

use echo_protocol::wire::content_id::ContentId;

use crate::task::spec::SpecError;
use crate::task::{Prompt, Response, Task, TaskError, TaskSeed, Verdict};
use crate::wasm::{Runtime, WasmVerifier};

/// The task's name in charters.
pub const NAME: &str = "wasm";
/// What names of such tasks begin with in run files; the module's address follows in 64 hexadecimal digits.
pub const PREFIX: &str = "wasm:";

/// Whether a name in a run file asks for a module, be it with or without the address.
pub fn asks_for_module(name: &str) -> bool {
    name == NAME || name.starts_with(PREFIX)
}

/// The module that a name in a run file asks for; `None` for names of other tasks
/// and for malformed addresses.
pub fn module_of(name: &str) -> Option<ContentId> {
    ContentId::from_hex(name.strip_prefix(PREFIX)?)
}

/// Prompts, rewards and solutions of a verifier.
#[derive(Debug)]
pub struct WasmTask {
    verifier: WasmVerifier,
}

impl WasmTask {
    /// Compiles a module, and checks that it keeps the interface.
    ///
    /// # Errors
    /// [`SpecError::Module`]: the rule of the interface that the module breaks, or
    /// why none runs here.
    pub fn load(bytes: &[u8]) -> Result<Self, SpecError> {
        // One for the whole process: it reserves address space for instances.
        static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
        let refuse = |reason: String| SpecError::Module { reason };
        let runtime = RUNTIME.get_or_init(|| Runtime::new().map_err(|error| error.to_string()));
        let runtime = runtime.as_ref().map_err(|reason| refuse(reason.clone()))?;
        let verifier =
            runtime.load(ContentId::of(bytes), bytes).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { verifier })
    }
}

impl Task for WasmTask {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Where the module fails to make one, an empty line: what is answered to it is not judged.
    fn prompt(&self, seed: TaskSeed) -> Prompt {
        Prompt { text: self.verifier.prompt(&seed.0).unwrap_or_else(|_| "\n".to_owned()) }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        let asked = self.verifier.prompt(&seed.0);
        let judged = asked.and_then(|_| self.verifier.reward(&seed.0, response.text, response.finished));
        judged.map_err(|failure| TaskError::internal(NAME, failure))
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.verifier.solution(&seed.0).ok().flatten().unwrap_or_default()
    }

    fn knows_solutions(&self) -> bool {
        self.verifier.solution(&[0; 32]).is_ok_and(|solution| solution.is_some())
    }

    fn longest_prompt(&self) -> usize {
        self.verifier.longest_prompt()
    }

    fn longest_response(&self) -> usize {
        self.verifier.longest_response()
    }
}
