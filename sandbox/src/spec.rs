//! What may be wrong with the tasks that a run asks for, and how their parameters become typed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::value::{Error as ValueError, MapDeserializer};

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
        /// Its length.
        bytes: usize,
    },
    /// The task has no such parameter.
    #[error("task {task}: {reason}; correct the task's params")]
    Params {
        /// The task's name.
        task: &'static str,
        /// Which parameter is unknown, and which exist.
        reason: String,
    },
    /// A parameter is outside its range.
    #[error("task {task}: {param} = {value} is not within {low}..={high}; set it within that range")]
    OutOfRange {
        /// The task's name.
        task: &'static str,
        /// The parameter's name.
        param: &'static str,
        /// The value asked for.
        value: i64,
        /// The smallest value allowed.
        low: i64,
        /// The largest value allowed.
        high: i64,
    },
    /// A task that no order would ever use.
    #[error("task {name} has weight 0: give it at least 1, or leave it out")]
    NoWeight {
        /// The task's name.
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
