//! The lock that keeps a second process out of a directory.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

/// Its file in the directory.
const FILE: &str = "lock";

/// Held as long as a process works in a directory; released when it is dropped, or when the process dies.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
}

/// Why a directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("another process works in this directory")]
    Held,
    /// The lock's file cannot be made.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl DirectoryLock {
    /// Makes the directory if need be, and locks it.
    ///
    /// # Errors
    /// [`LockError`] when another process holds the lock, or its file cannot be made.
    pub fn take(directory: &Path) -> Result<Self, LockError> {
        fs::create_dir_all(directory)?;
        let file = File::options().create(true).truncate(false).write(true).open(directory.join(FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Whether another process holds the lock. Nothing is made: without the lock's file, nobody does.
    #[must_use]
    pub fn is_taken(directory: &Path) -> bool {
        let Ok(file) = File::options().write(true).open(directory.join(FILE)) else { return false };
        match file.try_lock() {
            Ok(()) => drop(Self { file }),
            Err(TryLockError::WouldBlock) => return true,
            Err(TryLockError::Error(_)) => {}
        }
        false
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file would not do: a program that is being started has a copy of it for a moment, and
        // with it the lock.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "the lock of a directory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_is_kept_out_until_the_first_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("new");
        assert!(!DirectoryLock::is_taken(&directory) && !directory.exists());
        let first = DirectoryLock::take(&directory).unwrap();
        assert!(DirectoryLock::is_taken(&directory));
        assert!(matches!(DirectoryLock::take(&directory), Err(LockError::Held)));
        // As a program has it that is just being started.
        let copy = first.file.try_clone().unwrap();
        drop(first);
        assert!(!DirectoryLock::is_taken(&directory));
        DirectoryLock::take(&directory).unwrap();
        drop(copy);
    }
}
