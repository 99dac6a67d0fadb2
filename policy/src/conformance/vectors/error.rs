//! Why reference vectors cannot be read.

use std::path::PathBuf;

/// A directory of reference vectors that could not be opened at all.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// The directory could not be listed, or a file not be read.
    #[error("cannot read {path}: {source}; give a directory of model directories")]
    Read {
        /// Directory or file that was to be read.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// A file has the wrong form.
    #[error("{path} is malformed: {reason}")]
    Malformed {
        /// File that cannot be understood.
        path: PathBuf,
        /// What its parser or its check reports.
        reason: String,
    },
}
