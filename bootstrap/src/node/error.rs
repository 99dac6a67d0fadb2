//! What can go wrong with a boot node.

use echo_protocol::net::NetError;
use echo_protocol::program::keyfile::KeyfileError;
use echo_protocol::program::lock::LockError;
use std::io;
use std::path::PathBuf;

/// Why a boot node does not run.
#[derive(Debug, thiserror::Error)]
pub enum BootNodeError {
    /// Another boot node has the directory.
    #[error("another echo-bootstrap is using {path}; stop it, or give this one a --data-dir of its own")]
    InUse {
        /// The data directory that the other node has locked.
        path: PathBuf,
    },
    /// The directory cannot be written.
    #[error(
        "data directory {path}: {source}; choose another with --data-dir, or make it writable for this user"
    )]
    DataDir {
        /// The data directory, `--data-dir` on the command line.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The node's key cannot be read or made in the data directory.
    #[error(transparent)]
    Identity(#[from] KeyfileError),
    /// The network could not be started.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The addresses could not be written down.
    #[error("cannot write the addresses to {path}: {source}")]
    AddressFile {
        /// The file that `--write-address` names.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The network task ended without being asked to.
    #[error("the network stopped by itself; look for the cause in the log and start the node again")]
    NetworkStopped,
}

impl BootNodeError {
    /// Why the lock of the data directory at `path` was not taken.
    pub(super) fn directory(path: PathBuf, error: LockError) -> Self {
        match error {
            LockError::Held => Self::InUse { path },
            LockError::Io(source) => Self::DataDir { path, source },
        }
    }
}
