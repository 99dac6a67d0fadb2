//! What can go wrong with a boot node.

use echo_protocol::keyfile::KeyfileError;
use echo_protocol::net::NetError;
use std::io;
use std::path::PathBuf;

/// Why a boot node does not run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No identity.
    #[error(transparent)]
    Identity(#[from] KeyfileError),
    /// The network could not be started.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The addresses could not be written down.
    #[error("cannot write the addresses to {path}: {source}")]
    AddressFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The network task ended without being asked to.
    #[error("the network stopped by itself; look for the cause in the log and start the node again")]
    NetworkStopped,
}
