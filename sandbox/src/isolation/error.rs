//! What may fail around a run. None of it is a verdict on the program.

use std::io;

/// A run that did not happen, or whose end is not known.
#[derive(Debug, thiserror::Error)]
pub enum IsolateError {
    /// The job itself is malformed.
    #[error("the job cannot be run: {reason}; correct the job")]
    Job {
        /// What is wrong with it.
        reason: String,
    },
    /// The program cannot be started: it is missing, or it is no executable.
    #[error("{program} cannot be started: {source}; see that it exists inside and can be executed")]
    Program {
        /// The program's path inside of the sandbox.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// The system failed while the run was prepared or watched.
    #[error(
        "while {stage}: {source}; look at the machine's memory, processes and descriptors, then run it again"
    )]
    System {
        /// What was being done.
        stage: &'static str,
        /// What the system says.
        source: io::Error,
    },
}
