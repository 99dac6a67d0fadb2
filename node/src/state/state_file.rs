//! Small files of state: replaced as a whole or not at all, and never read beyond a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use echo_protocol::program::atomic_file;
use serde::{Serialize, de::DeserializeOwned};

/// Longest file of state, in bytes: a signed manifest of the largest snapshot, and some room.
pub const MAX_STATE_BYTES: u64 = 2 << 20;

/// A file of state that could not be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The disk failed, is full, or forbids it.
    #[error("{path}: {source}{}", hint(.source))]
    Io {
        /// The file that was read or replaced.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else, or too much.
    #[error("{path} is damaged: {what}; delete it, this node writes it anew")]
    Damaged {
        /// The file that holds it.
        path: PathBuf,
        /// The parser's complaint, or that it is too long.
        what: String,
    },
}

/// Where to look when the system fails so.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            " (check the path)"
        }
        _ => " (is the disk full, or the directory not writable?)",
    }
}

/// The file's bytes, `None` if there is no such file.
///
/// # Errors
/// [`StateError::Io`], and [`StateError::Damaged`] beyond `limit` bytes.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StateError> {
    let io_error = |source| StateError::Io { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(io_error)?;
    if bytes.len() as u64 > limit {
        return Err(StateError::Damaged {
            path: path.to_owned(),
            what: format!("longer than {limit} bytes"),
        });
    }
    Ok(Some(bytes))
}

/// The value in the file, `None` if there is no such file.
///
/// # Errors
/// [`StateError::Io`]; [`StateError::Damaged`] when it is too long or no such JSON.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let Some(bytes) = read_bytes(path, MAX_STATE_BYTES)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| StateError::Damaged { path: path.to_owned(), what: error.to_string() })
}

/// Replaces the file by `bytes`. `durable` waits for the disk; without it a power loss may
/// leave an empty file.
///
/// # Errors
/// [`StateError::Io`]; the old file is then still there.
pub fn write_bytes(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StateError> {
    atomic_file::replace(path, bytes, durable)
        .map_err(|source| StateError::Io { path: path.to_owned(), source })
}

/// Replaces the file by `value` as indented JSON.
///
/// # Errors
/// [`StateError::Io`]; the old file is then still there.
pub fn write<T: Serialize>(path: &Path, value: &T, durable: bool) -> Result<(), StateError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| StateError::Io { path: path.to_owned(), source: error.into() })?;
    text.push(b'\n');
    write_bytes(path, &text, durable)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        assert_eq!(read::<Vec<u8>>(&path).unwrap(), None);
        write(&path, &vec![1u8, 2], true).unwrap();
        assert_eq!(read::<Vec<u8>>(&path).unwrap(), Some(vec![1, 2]));
        fs::write(&path, "[1, 2").unwrap();
        assert!(matches!(read::<Vec<u8>>(&path), Err(StateError::Damaged { .. })));
        fs::write(&path, "123456").unwrap();
        assert!(matches!(read_bytes(&path, 5), Err(StateError::Damaged { .. })));
        let missing = write(&dir.path().join("none/state.json"), &1, true).unwrap_err().to_string();
        assert!(missing.contains("check the path") && !missing.contains("disk"), "{missing}");
    }
}
