//! Where everything lies in the node's data directory, and the lock that keeps a second node out of it.

use std::io;
use std::path::{Path, PathBuf};

use echo_protocol::program::lock::{DirectoryLock, LockError};

/// A node's data directory.
///
/// | name | what |
/// |---|---|
/// | `node.toml` | the owner's settings, if any |
/// | `identity` | the secret key; losing it makes this node a stranger |
/// | `lock` | held while a node runs here |
/// | `trust.json`, `peers.json` | the trusted keeper of peer lists; peers that worked last |
/// | `list` | the peer list that the node joined with last |
/// | `charter`, `installed` | the run's signed charter; the signed manifest of the installed snapshot |
/// | `chunks/` | chunks of snapshots, named by their content |
/// | `images/` | weights of installed policies, in files without names |
/// | `outbox/` | finished groups that the learner has not yet acknowledged |
/// | `receipts/` | receipts for accepted groups, and counts of refused ones |
/// | `tests/` | test data of `echo-node verify-server` |
/// | `hardware.json` | what `echo-node hardware` measured last |
/// | `status.json` | what the status line says, for programs |
#[derive(Clone, Debug)]
pub struct DataDir(PathBuf);

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It can't be created or written.
    #[error(
        "data directory {path}: {source}; choose another with --data-dir, or make it writable for this user"
    )]
    NotWritable {
        /// The directory, as the settings name it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another node holds the lock.
    #[error("another echo-node is using {path}; stop it, or give this one a --data-dir of its own")]
    InUse {
        /// The directory, as the settings name it.
        path: PathBuf,
    },
}

impl DataDir {
    /// The directory at `path`; nothing is touched yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Creates the directory if need be and takes its lock.
    ///
    /// # Errors
    /// [`DataDirError`]: it can't be written, or another node has the lock.
    pub fn lock(&self) -> Result<DirectoryLock, DataDirError> {
        DirectoryLock::take(&self.0).map_err(|error| match error {
            LockError::Held => DataDirError::InUse { path: self.0.clone() },
            LockError::Io(source) => DataDirError::NotWritable { path: self.0.clone(), source },
        })
    }

    /// The directory itself, which may not exist yet.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The file of the secret key, readable by its owner alone.
    pub fn identity(&self) -> PathBuf {
        self.0.join("identity")
    }

    /// The trusted keeper and the newest list seen.
    pub fn trust(&self) -> PathBuf {
        self.0.join("trust.json")
    }

    /// A copy of the peer list that was used last.
    pub fn list(&self) -> PathBuf {
        self.0.join("list")
    }

    /// Peers that worked last.
    pub fn known_peers(&self) -> PathBuf {
        self.0.join("peers.json")
    }

    /// The run's signed charter.
    pub fn charter(&self) -> PathBuf {
        self.0.join("charter")
    }

    /// The signed manifest of the installed snapshot.
    pub fn installed(&self) -> PathBuf {
        self.0.join("installed")
    }

    /// The directory of the chunk store.
    pub fn chunks(&self) -> PathBuf {
        self.0.join("chunks")
    }

    /// Weights of installed policies.
    pub fn images(&self) -> PathBuf {
        self.0.join("images")
    }

    /// Groups that wait for the learner's acknowledgement.
    pub fn outbox(&self) -> PathBuf {
        self.0.join("outbox")
    }

    /// Receipts for accepted groups, and counts of refused ones.
    pub fn receipts(&self) -> PathBuf {
        self.0.join("receipts")
    }

    /// Test data of the verification server.
    pub fn tests(&self) -> PathBuf {
        self.0.join("tests")
    }

    /// What was measured of the device that this node generates on.
    pub fn hardware(&self) -> PathBuf {
        self.0.join("hardware.json")
    }

    /// The status for programs.
    pub fn status(&self) -> PathBuf {
        self.0.join("status.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_node_is_kept_out_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::new(dir.path().join("new"));
        let first = data.lock().unwrap();
        assert!(matches!(data.lock(), Err(DataDirError::InUse { .. })));
        drop(first);
        data.lock().unwrap();
    }
}
