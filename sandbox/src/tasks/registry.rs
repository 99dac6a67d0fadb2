//! The tasks that exist, by name.

use std::collections::BTreeMap;

use echo_protocol::run::charter::TaskSpec;
use echo_protocol::wire::content_id::ContentId;
use serde::Deserialize;

use crate::task::Task;
use crate::task::data_set;
use crate::task::files::{MAX_TASK_FILE_BYTES, TaskFiles};
use crate::task::spec;
use crate::task::spec::{MAX_NAME_BYTES, SpecError};
use crate::tasks::chain_sum::{self, ChainSum};
use crate::tasks::choice::{self, ChoiceTask};
use crate::tasks::code::{self, CodeTask};
use crate::tasks::countdown::{self, Countdown};
use crate::tasks::guess_number::{self, GuessNumber};
use crate::tasks::holdem::{self, game::Holdem};
use crate::tasks::math::problems::{self, MathProblems};
use crate::tasks::number_sorting::{self, NumberSorting};
use crate::tasks::spell_backward::{self, SpellBackward};
use crate::tasks::wasm::{self, WasmTask};
use Make::{OfFile, Procedural};

type Params = BTreeMap<String, i64>;

/// How a task is made.
enum Make {
    /// Made of parameters alone, without any file.
    Procedural(fn(&Params) -> Made),
    /// Made of parameters and the bytes of the task's file.
    OfFile(fn(&Params, &[u8]) -> Made),
}

type Made = Result<Box<dyn Task>, SpecError>;

const TASKS: [(&str, Make); 10] = [
    (chain_sum::NAME, Procedural(|params| boxed(ChainSum::new(spec::config(chain_sum::NAME, params)?)))),
    (
        choice::NAME,
        OfFile(|params, bytes| boxed(ChoiceTask::new(spec::config(choice::NAME, params)?, bytes))),
    ),
    (code::NAME, OfFile(|params, bytes| boxed(CodeTask::new(spec::config(code::NAME, params)?, bytes)))),
    (countdown::NAME, Procedural(|params| boxed(Countdown::new(spec::config(countdown::NAME, params)?)))),
    (
        guess_number::NAME,
        Procedural(|params| boxed(GuessNumber::new(spec::config(guess_number::NAME, params)?))),
    ),
    (holdem::NAME, Procedural(|params| boxed(Holdem::new(spec::config(holdem::NAME, params)?)))),
    (
        problems::NAME,
        OfFile(|params, bytes| boxed(MathProblems::new(spec::config(problems::NAME, params)?, bytes))),
    ),
    (
        number_sorting::NAME,
        Procedural(|params| boxed(NumberSorting::new(spec::config(number_sorting::NAME, params)?))),
    ),
    (
        spell_backward::NAME,
        Procedural(|params| boxed(SpellBackward::new(spec::config(spell_backward::NAME, params)?))),
    ),
    (
        wasm::NAME,
        OfFile(|params, bytes| {
            let NoParams {} = spec::config(wasm::NAME, params)?;
            boxed(WasmTask::load(bytes))
        }),
    ),
];

fn boxed<T: Task + 'static>(task: Result<T, SpecError>) -> Made {
    task.map(|task| Box::new(task) as Box<dyn Task>)
}

/// The parameters of a task that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

/// The names of the procedural tasks, sorted.
pub fn procedural() -> impl Iterator<Item = &'static str> {
    TASKS.iter().filter(|(_, make)| matches!(make, Procedural(_))).map(|(name, _)| *name)
}

/// The names of the tasks that are made of a file, sorted.
pub fn from_files() -> impl Iterator<Item = &'static str> {
    TASKS.iter().filter(|(_, make)| matches!(make, OfFile(_))).map(|(name, _)| *name)
}

/// Checks what can be checked of `spec` before its file is there.
///
/// # Errors
/// When there is no such task, or it is given a file that it does not read, or none where it needs one.
pub fn check(spec: &TaskSpec) -> Result<(), SpecError> {
    find(spec).map(drop)
}

/// Checks that this machine can do what `spec` needs, as far as that is known before its file is
/// there. Tasks that judge programs need a sandbox; which languages, their files say.
///
/// # Errors
/// [`SpecError::Machine`], which lists all that is missing.
pub fn check_machine(spec: &TaskSpec) -> Result<(), SpecError> {
    if spec.name == code::NAME { code::judge().map(drop) } else { Ok(()) }
}

/// The file of a task as nodes read it: rows become JSON lines, whatever form they have. Other files
/// stay as they are, and so does that of a task that does not exist.
///
/// # Errors
/// [`SpecError::Data`] when a file of rows has no form that is read.
pub fn as_lines(task: &str, bytes: Vec<u8>) -> Result<Vec<u8>, SpecError> {
    match [choice::NAME, code::NAME, problems::NAME].into_iter().find(|name| *name == task) {
        Some(task) => data_set::as_lines(bytes).map_err(|reason| SpecError::Data { task, reason }),
        None => Ok(bytes),
    }
}

/// Builds the task that `spec` asks for; the weight plays no part.
///
/// # Errors
/// When there is no such task or parameter (the message lists those that exist), a parameter is
/// out of range, the task's file is not among `files` or not of its form, or this machine lacks
/// what the task needs.
pub fn build(spec: &TaskSpec, files: &TaskFiles) -> Result<Box<dyn Task>, SpecError> {
    match find(spec)? {
        Found::Procedural(make) => make(&spec.params),
        Found::OfFile { task, make, id } => {
            let bytes = files.get(&id).ok_or(SpecError::MissingFile { task, id })?;
            if bytes.len() as u64 > MAX_TASK_FILE_BYTES {
                return Err(SpecError::LargeFile { task, bytes: bytes.len() as u64 });
            }
            make(&spec.params, bytes)
        }
    }
}

/// A row of the table that goes with a specification.
enum Found {
    Procedural(fn(&Params) -> Made),
    OfFile { task: &'static str, make: fn(&Params, &[u8]) -> Made, id: ContentId },
}

fn find(spec: &TaskSpec) -> Result<Found, SpecError> {
    if spec.name.len() > MAX_NAME_BYTES {
        return Err(SpecError::LongName { bytes: spec.name.len() });
    }
    let row = TASKS.iter().find(|(name, _)| *name == spec.name);
    match (row, spec.data) {
        (Some((_, Procedural(make))), None) => Ok(Found::Procedural(*make)),
        (Some((task, OfFile(make))), Some(id)) => Ok(Found::OfFile { task, make: *make, id }),
        (Some((task, Procedural(_))), Some(_)) => Err(SpecError::NoUseForFile { task }),
        (Some((task, OfFile(_))), None) => Err(SpecError::NeedsFile { task }),
        (None, _) => {
            let known = procedural().chain(from_files()).collect::<Vec<_>>().join(", ");
            Err(SpecError::UnknownTask { name: spec.name.clone(), known })
        }
    }
}

#[cfg(test)]
mod tests;
