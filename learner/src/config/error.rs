//! What is wrong with a run file.

use crate::common::option_error::OptionError;
use crate::training::lr_schedule::ScheduleError;
use crate::training::objective::ObjectiveError;
use crate::training::optimizer::OptimizerError;
use echo_protocol::run::staleness::StalenessError;
use std::path::{Path, PathBuf};

/// What is wrong with a run file.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// It cannot be read.
    #[error("run file {path}: {cause}")]
    Read {
        /// The run file's path, as it was given.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// It is not what a run file looks like.
    #[error("run file {path}: {cause}")]
    Parse {
        /// The run file's path, as it was given.
        path: PathBuf,
        /// Line, field and what is allowed.
        cause: String,
    },
    /// A setting of the command line that no run file could have.
    #[error("--set {setting}: {cause}")]
    Set {
        /// The setting, as it was given.
        setting: String,
        /// What is wrong with it.
        cause: String,
    },
    /// More than one setting is wrong.
    #[error("run file {path} has {} problems:{}", .problems.len(), listed(.problems))]
    Several {
        /// The run file's path, as it was given.
        path: PathBuf,
        /// Each of them; two or more.
        problems: Vec<RunFileError>,
    },
    /// Neither or both sources of a model.
    #[error(
        "[model] needs exactly one of `path = \"DIR\"` (a Hugging Face directory) and a table [model.tiny]"
    )]
    Model,
    /// A setting outside its domain.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A file for no task.
    #[error("[data] {name}: no task that is made of a file is called that; known are {known}")]
    Data {
        /// The name under `[data]` that is no task's.
        name: String,
        /// The tasks that are made of a file.
        known: String,
    },
    /// A bound of `[train.guard]` is out of its domain.
    #[error("[train]: {0}")]
    Guard(#[from] OptimizerError),
    /// The numbers of `[staleness]` contradict each other.
    #[error("[staleness]: {0}")]
    Staleness(#[from] StalenessError),
    /// Numbers beside a mode that decides them.
    #[error("[staleness] mode = \"{mode}\" decides {setting} itself: leave one of the two out")]
    StalenessMode {
        /// The mode as the run file writes it.
        mode: &'static str,
        /// The setting that the mode decides: `budget`, `period` or `admission`.
        setting: &'static str,
    },
    /// A part of `[train.objective]` is out of its domain.
    #[error("[train.objective]: {0}")]
    Objective(#[from] ObjectiveError),
    /// A number of `[train.schedule]` is out of its domain.
    #[error("[train.schedule]: {0}")]
    Schedule(#[from] ScheduleError),
}

impl RunFileError {
    /// Refuses the run file at `path` for all these problems, if there are any.
    pub(super) fn all(path: &Path, mut problems: Vec<Self>) -> Result<(), Self> {
        match problems.len() {
            0 => Ok(()),
            1 => Err(problems.remove(0)),
            _ => Err(Self::Several { path: path.to_owned(), problems }),
        }
    }
}

fn listed(problems: &[RunFileError]) -> String {
    problems.iter().map(|problem| format!("\n- {problem}")).collect()
}
