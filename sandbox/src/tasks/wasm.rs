//! `wasm`: a task that its author ships as a WebAssembly module. The run's file names it
//! `wasm:<id>`, the charter by its content.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use echo_protocol::wire::content_id::ContentId;

use crate::task::episode::{EpisodeStep, Play};
use crate::task::spec::SpecError;
use crate::task::{Prompt, Response, Task, TaskError, TaskSeed, Verdict};
use crate::wasm::{Runtime, WasmVerifier};

/// The task's name in charters.
pub const NAME: &str = "wasm";
/// What names of such tasks begin with in run files; the module's address follows in 64 hexadecimal digits.
pub const PREFIX: &str = "wasm:";

/// Prompts whose solutions are tried: a fault of every tenth prompt is found with a probability of 0.998.
const TRIED: u8 = 64;
/// Characters of a text of the module that a message quotes.
const QUOTED_CHARS: usize = 60;

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

    /// What is wrong with the prompt of a seed, or with the solution that the module gives for it.
    fn try_solution(&self, seed: TaskSeed) -> Result<(), Fault> {
        let fault = |kind: String, example: String| Fault { kind, example };
        let prompt = self.verifier.prompt(&seed.0);
        let prompt = prompt.map_err(|failure| fault(format!("no prompt: {failure}"), String::new()))?;
        let asked = format!("asked {}", quoted(&prompt));
        let solution = self.verifier.solution(&seed.0);
        let solution = solution.map_err(|failure| fault(format!("no solution: {failure}"), asked.clone()))?;
        let Some(solution) = solution else { return Ok(()) };
        let answered = format!("{asked}, and its own solution {}", quoted(&solution));
        match Play::new(self, seed).turn(&Response { text: &solution, finished: true }, 0) {
            Ok(EpisodeStep::Over { verdict, .. }) if verdict.correct => Ok(()),
            Ok(EpisodeStep::Over { verdict, .. }) => {
                let earned = format!("its own solution earns {}, and a right answer earns 1", verdict.reward);
                Err(fault(earned, answered))
            }
            Ok(EpisodeStep::Heard(_)) => Err(fault("its episode goes on".to_owned(), answered)),
            Err(TaskError::Internal { reason, .. }) => {
                Err(fault(format!("its own solution is not judged: {reason}"), answered))
            }
        }
    }
}

/// What is wrong with a prompt.
struct Fault {
    /// The same for all prompts that have it.
    kind: String,
    /// What this one asks and answers.
    example: String,
}

/// The beginning of a text, as a message quotes it.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(QUOTED_CHARS).collect::<String>())
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

    /// Tries some prompts, and the solutions to them where the module has any.
    fn try_solutions(&self) -> Result<(), SpecError> {
        let mut faults: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for number in 0..TRIED {
            let seed = TaskSeed(*ContentId::of(&[number]).as_bytes());
            if let Err(Fault { kind, example }) = self.try_solution(seed) {
                faults.entry(kind).or_insert((0, example)).0 += 1;
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        let lines = faults.into_iter().map(|(kind, (count, example))| {
            let first = if example.is_empty() { String::new() } else { format!("; the first: {example}") };
            format!("\n  {count} of {TRIED} prompts: {kind}{first}")
        });
        let reason = format!("mend the module, as it fails where it was tried:{}", lines.collect::<String>());
        Err(SpecError::Module { reason })
    }

    fn longest_prompt(&self) -> usize {
        self.verifier.longest_prompt()
    }

    fn longest_response(&self) -> usize {
        self.verifier.longest_response()
    }
}
