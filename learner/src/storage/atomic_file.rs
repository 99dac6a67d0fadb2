//! Files that are written as a whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

use echo_protocol::program::atomic_file;

/// What the system said of a file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct FileError {
    /// The file, not its draft.
    pub path: PathBuf,
    /// The system's own error.
    pub source: io::Error,
}

/// Puts `bytes` at `path`, durably and as a whole: a draft beside it is synced and then renamed.
///
/// # Errors
/// [`FileError`] when the draft cannot be written, synced or renamed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    atomic_file::replace(path, bytes, true).map_err(|source| FileError { path: path.to_owned(), source })
}
