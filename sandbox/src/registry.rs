//! The tasks that exist, by name.

use std::collections::BTreeMap;

use echo_protocol::charter::TaskSpec;
use serde::Deserialize;

use crate::files::{MAX_TASK_FILE_BYTES, TaskFiles};
use crate::spec::{self, MAX_NAME_BYTES, SpecError};
use crate::task::Task;
use crate::tasks::math::problems::{self, MathProblems};
use crate::tasks::wasm::WasmTask;
use crate::tasks::{chain_sum, countdown, guess_number, holdem, number_sorting, spell_backward, wasm};

type Params = BTreeMap<String, i64>;
type Builder = fn(&Params) -> Result<Box<dyn Task>, SpecError>;
type FileBuilder = fn(&Params, &[u8]) -> Result<Box<dyn Task>, SpecError>;

/// Tasks that are code alone.
const PROCEDURAL: [(&str, Builder); 6] = [
    (chain_sum::NAME, |params| {
        Ok(Box::new(chain_sum::ChainSum::new(spec::config(chain_sum::NAME, params)?)?))
    }),
    (countdown::NAME, |params| {
        Ok(Box::new(countdown::Countdown::new(spec::config(countdown::NAME, params)?)?))
    }),
    (guess_number::NAME, |params| {
        Ok(Box::new(guess_number::GuessNumber::new(spec::config(guess_number::NAME, params)?)?))
    }),
    (holdem::NAME, |params| Ok(Box::new(holdem::game::Holdem::new(spec::config(holdem::NAME, params)?)?))),
    (number_sorting::NAME, |params| {
        Ok(Box::new(number_sorting::NumberSorting::new(spec::config(number_sorting::NAME, params)?)?))
    }),
    (spell_backward::NAME, |params| {
        Ok(Box::new(spell_backward::SpellBackward::new(spec::config(spell_backward::NAME, params)?)?))
    }),
];

/// Tasks that are made of a file.
const FROM_FILES: [(&str, FileBuilder); 2] = [
    (problems::NAME, |params, bytes| {
        Ok(Box::new(MathProblems::new(spec::config(problems::NAME, params)?, bytes)?))
    }),
    (wasm::NAME, |params, bytes| {
        let NoParams {} = spec::config(wasm::NAME, params)?;
        Ok(Box::new(WasmTask::load(bytes)?))
    }),
];

/// The parameters of a task that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

/// The names of the procedural tasks, sorted.
pub fn procedural() -> impl Iterator<Item = &'static str> {
    PROCEDURAL.iter().map(|(name, _)| *name)
}

/// The names of the tasks that are made of a file, sorted.
pub fn from_files() -> impl Iterator<Item = &'static str> {
    FROM_FILES.iter().map(|(name, _)| *name)
}

/// Checks what can be checked of `spec` before its file is there.
///
/// # Errors
/// When there is no such task, or it is given a file that it does not read, or none where it needs one.
pub fn check(spec: &TaskSpec) -> Result<(), SpecError> {
    if spec.name.len() > MAX_NAME_BYTES {
        return Err(SpecError::LongName { bytes: spec.name.len() });
    }
    let procedural_one = procedural().find(|name| *name == spec.name);
    let made_of_file = from_files().find(|name| *name == spec.name);
    match (procedural_one, made_of_file, spec.data) {
        (Some(_), _, None) | (_, Some(_), Some(_)) => Ok(()),
        (Some(task), _, Some(_)) => Err(SpecError::NoUseForFile { task }),
        (_, Some(task), None) => Err(SpecError::NeedsFile { task }),
        (None, None, _) => {
            let known = procedural().chain(from_files()).collect::<Vec<_>>().join(", ");
            Err(SpecError::UnknownTask { name: spec.name.clone(), known })
        }
    }
}

/// Builds the task that `spec` asks for; the weight plays no part.
///
/// # Errors
/// When there is no such task or parameter (the message lists those that exist), a parameter is out of range, or the task's file is not
/// among `files` or not of its form.
pub fn build(spec: &TaskSpec, files: &TaskFiles) -> Result<Box<dyn Task>, SpecError> {
    check(spec)?;
    if let Some((_, builder)) = PROCEDURAL.iter().find(|(name, _)| *name == spec.name) {
        return builder(&spec.params);
    }
    let (name, builder) =
        FROM_FILES.iter().find(|(name, _)| *name == spec.name).expect("`check` found the name");
    let id = spec.data.expect("`check` found a file");
    let bytes = files.get(&id).ok_or(SpecError::MissingFile { task: name, id })?;
    if bytes.len() as u64 > MAX_TASK_FILE_BYTES {
        return Err(SpecError::LargeFile { task: name, bytes: bytes.len() as u64 });
    }
    builder(&spec.params, bytes)
}

#[cfg(test)]
mod tests;
