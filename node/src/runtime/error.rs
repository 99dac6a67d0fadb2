//! Why a node ends before its run does.

use std::error::Error;
use std::io;

use echo_policy::generation::EngineError;
use echo_policy::generation::device::DeviceError;
use echo_protocol::net::NetError;
use echo_protocol::net::snapshots::Stopped;
use echo_protocol::run::charter::CharterError;
use echo_protocol::store::ChunkStoreError;

use crate::delivery::outbox::OutboxError;
use crate::delivery::receipts::LedgerError;
use crate::preflight::needs::OverCap;
use crate::snapshots::downloads::DownloadError;
use crate::state::data_dir::DataDirError;
use crate::state::state_file::StateError;
use crate::workload::NodeWorkloadError;

/// Why a node can't go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No host can be started, as when its addresses stay in use.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A file of state.
    #[error(transparent)]
    State(#[from] StateError),
    /// The run's charter contradicts itself.
    #[error(transparent)]
    Charter(#[from] CharterError),
    /// The run asks for something that this node cannot do.
    #[error(transparent)]
    Workload(#[from] NodeWorkloadError),
    /// The run needs more disk than its owner gives it.
    #[error(transparent)]
    Cap(#[from] OverCap),
    /// A place in the data directory.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The chunk store can't be opened.
    #[error(transparent)]
    Store(#[from] ChunkStoreError),
    /// The outbox can't be opened, read or written: finished work would be lost.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// The receipts of this run can't be opened.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// What the owner wants to generate on.
    #[error("{0}; set device (--device) to something else, or leave it out")]
    Device(#[from] DeviceError),
    /// The number of threads.
    #[error(transparent)]
    Threads(#[from] EngineError),
    /// The snapshot service was taken down while it was needed.
    #[error(transparent)]
    Snapshots(#[from] Stopped),
    /// No thread for the worker.
    #[error("no thread for generating: {0}")]
    Thread(#[from] std::io::Error),
    /// A part of the node died of a defect of ours.
    #[error("{part} has ended unexpectedly; this is a defect of echo-node, the log says more")]
    Died {
        /// The part, as the message begins.
        part: &'static str,
    },
}

impl NodeError {
    /// Whether all it wants is room on a disk.
    pub(super) fn is_full_disk(&self) -> bool {
        let is_full = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        };
        let mut causes = std::iter::successors(Some(self as &(dyn Error + 'static)), |&error| error.source());
        causes.any(|error| match error.downcast_ref::<sled::Error>() {
            Some(sled::Error::Io(error)) => is_full(error),
            _ => error.downcast_ref::<io::Error>().is_some_and(is_full),
        })
    }
}

impl From<DownloadError> for NodeError {
    fn from(error: DownloadError) -> Self {
        match error {
            DownloadError::Stopped(error) => error.into(),
            DownloadError::Workload(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let of_database =
            |source| NodeError::from(OutboxError::Database { path: "outbox".into(), source }).is_full_disk();
        let io = |kind: io::ErrorKind| io::Error::from(kind);
        assert!(of_database(sled::Error::Io(io(io::ErrorKind::StorageFull))));
        assert!(!of_database(sled::Error::Io(io(io::ErrorKind::PermissionDenied))));
        assert!(!of_database(sled::Error::CollectionNotFound(Default::default())));
        let of_file = |kind| {
            let (path, source) = ("status.json".into(), io(kind));
            NodeError::from(StateError::Io { path, source }).is_full_disk()
        };
        assert!(of_file(io::ErrorKind::QuotaExceeded) && !of_file(io::ErrorKind::NotFound));
        assert!(!NodeError::Died { part: "generating" }.is_full_disk());
    }
}
