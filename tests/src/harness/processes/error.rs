//! What can go wrong with a child process.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a process does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("cannot start {name} ({program}): {source}")]
    Start {
        /// The name it was given.
        name: String,
        /// The path of the program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its log could not be opened.
    #[error("cannot write the log {path}: {source}")]
    Log {
        /// The path of the log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system does not say how it is.
    #[error("cannot tell how {name} is: {source}")]
    System {
        /// The name it was given.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended although it should not have.
    #[error("{name} ended unexpectedly ({status}); the end of its log:\n{log_tail}")]
    Ended {
        /// The name it was given.
        name: String,
        /// Its exit code, or the signal that ended it.
        status: ExitStatus,
        /// The last lines of its log.
        log_tail: String,
    },
    /// It did not end although it should have.
    #[error("{name} still runs after {after:?}; the end of its log:\n{log_tail}")]
    StillRunning {
        /// The name it was given.
        name: String,
        /// How long we waited.
        after: Duration,
        /// The last lines of its log.
        log_tail: String,
    },
}
