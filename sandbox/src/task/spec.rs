//! What may be wrong with the tasks that a run asks for, and how their parameters become typed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use echo_protocol::wire::content_id::ContentId;
use serde::Deserialize;
use serde::de::value::{Error as ValueError, MapDeserializer};

use crate::isolation::Lack;
use crate::task::data_set::DataError;
use crate::task::files::MAX_TASK_FILE_BYTES;

/// The most bytes of a task's or a parameter's name. They come from a charter, and refusals quote them.
pub const MAX_NAME_BYTES: usize = 64;

/// A specification that names no task that could be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no such task.
    #[error("there is no task named {name:?}: use one of {known}")]
    UnknownTask {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A name is longer than any that exists.
    #[error("a task or parameter name has {bytes} bytes: names have at most {MAX_NAME_BYTES}")]
    LongName {
        /// The name's length in bytes, above [`MAX_NAME_BYTES`].
        bytes: usize,
    },
    /// The task has no such parameter.
    #[error("task {task}: {reason}; correct the task's params")]
    Params {
        /// The task whose parameters are wrong.
        task: &'static str,
        /// Which parameter is unknown, and which exist.
        reason: String,
    },
    /// A parameter is outside its range.
    #[error("task {task}: {param} = {value} is not within {low}..={high}; set it within that range")]
    OutOfRange {
        /// The task that has the parameter.
        task: &'static str,
        /// The parameter's name in the run file.
        param: &'static str,
        /// The value asked for.
        value: i64,
        /// The smallest value allowed.
        low: i64,
        /// The largest value allowed.
        high: i64,
    },
    /// A procedural task with a file.
    #[error("task {task} is made of no file: leave its data out")]
    NoUseForFile {
        /// The procedural task that was given a file.
        task: &'static str,
    },
    /// A task without the file that it is made of.
    #[error("task {task} is made of a file: name it with data = \"FILE\", or under [data]")]
    NeedsFile {
        /// The task that is made of a file.
        task: &'static str,
    },
    /// The file is not there.
    #[error("the file of task {task}, {id}, is not there")]
    MissingFile {
        /// The task that is made of the file.
        task: &'static str,
        /// The file's BLAKE3, as the charter names it.
        id: ContentId,
    },
    /// The file is too long.
    #[error("the file of task {task} has {bytes} bytes: at most {MAX_TASK_FILE_BYTES}; give a part of it")]
    LargeFile {
        /// The task that the file was given to.
        task: &'static str,
        /// The file's length, above [`MAX_TASK_FILE_BYTES`].
        bytes: u64,
    },
    /// The file is not of the task's form.
    #[error("the file of task {task}: {reason}")]
    Data {
        /// The task that reads the file.
        task: &'static str,
        /// What is wrong with it.
        reason: DataError,
    },
    /// The file is no module that keeps the interface.
    #[error("the module of task wasm: {reason}")]
    Module {
        /// What is wrong with it.
        reason: String,
    },
    /// This machine cannot do what the task needs.
    #[error("task {task} runs programs, and this machine lacks what that needs:{}", listed(.lacks))]
    Machine {
        /// The task that judges by running programs.
        task: &'static str,
        /// All that is missing, each with its mend.
        lacks: Vec<Lack>,
    },
    /// A task that no order would ever use.
    #[error("task {name} has weight 0: give it at least 1, or leave it out")]
    NoWeight {
        /// The task that the mix gives weight 0.
        name: String,
    },
    /// No task at all.
    #[error("the task mix is empty: name at least one task")]
    EmptyMix,
    /// More tasks than a mix holds.
    #[error("the task mix has {tasks} tasks: use at most {limit}")]
    TooManyTasks {
        /// How many were asked for.
        tasks: usize,
        /// How many are allowed.
        limit: usize,
    },
}

fn listed(lacks: &[Lack]) -> String {
    lacks.iter().map(|Lack { what, mend }| format!("\n- {what}: {mend}")).collect()
}

/// Reads the typed configuration of `task`.
pub(crate) fn config<'de, C: Deserialize<'de>>(
    task: &'static str,
    params: &'de BTreeMap<String, i64>,
) -> Result<C, SpecError> {
    if let Some(long) = params.keys().find(|name| name.len() > MAX_NAME_BYTES) {
        return Err(SpecError::LongName { bytes: long.len() });
    }
    let entries = params.iter().map(|(name, value)| (name.as_str(), *value));
    C::deserialize(MapDeserializer::<_, ValueError>::new(entries))
        .map_err(|error| SpecError::Params { task, reason: error.to_string() })
}

/// Refuses a parameter outside `range`.
pub(crate) fn within(
    task: &'static str,
    param: &'static str,
    value: i64,
    range: RangeInclusive<i64>,
) -> Result<(), SpecError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(SpecError::OutOfRange { task, param, value, low: *range.start(), high: *range.end() })
}
