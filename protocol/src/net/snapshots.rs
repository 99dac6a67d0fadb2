//! Snapshots on the wire: the driver around the relay machine.
//!
//! One task owns the [`Relay`] machine and does what it says; streams, disk and hashing run in tasks of their own and report back.
//! A child opens one stream per version to its parent, sends a [`wire::Subscription`], and receives [`wire::ChunkMessage`]s until it
//! closes the stream. Every chunk is verified against the signed manifest and stored before the machine hears of it.

mod downstream;
mod driver;
mod upstream;
pub mod wire;

use crate::chunk_set::ChunkSet;
use crate::content::ChunkIndex;
use crate::control::Peer;
use crate::identity::PublicKey;
use crate::manifest::Manifest;
use crate::net::host::{Host, NetError};
use crate::net::{IncomingStreams, names};
use crate::relay::Relay;
use crate::store::ChunkStore;
use crate::version::PolicyVersion;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Commands and reports that may wait for the driver.
const INBOX: usize = 256;
/// Events that may wait for the owner. Progress and repeated questions are dropped beyond it; installations wait.
const OUTBOX: usize = 64;

/// Whether snapshots come from here or pass through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The learner: publishes, and serves the heads of the chains.
    Source,
    /// A node: receives, forwards, installs.
    Relay,
    /// A node whose owner does not want it to forward: receives, installs.
    Leaf,
}

/// What the owner has to know or do.
#[derive(Clone, Debug)]
pub enum SnapshotEvent {
    /// Every chunk of this snapshot is stored: install it.
    Install(Arc<Manifest>),
    /// A parent is needed; answer with [`Snapshots::parent`].
    AskParent {
        /// The parent that failed, if one did.
        lost: Option<PublicKey>,
    },
    /// A download goes on.
    Progress {
        /// The version.
        version: PolicyVersion,
        /// Chunks stored.
        have: u32,
        /// Chunks in all.
        total: u32,
    },
    /// This peer served bytes that do not match their names, and is blocked.
    CutOff(PublicKey),
}

/// Handle to the driver.
#[derive(Clone, Debug)]
pub struct Snapshots {
    inbox: mpsc::Sender<driver::Command>,
}

/// The driver has stopped, because its host was shut down.
#[derive(Debug, thiserror::Error)]
#[error("the snapshot service has stopped")]
pub struct Stopped;

impl Snapshots {
    /// Starts serving and receiving chunks over `host`. The driver ends when the handle and its host are gone.
    pub fn start(
        host: Host,
        store: Arc<ChunkStore>,
        me: PublicKey,
        role: Role,
    ) -> Result<(Self, mpsc::Receiver<SnapshotEvent>), NetError> {
        let incoming: IncomingStreams = host.accept(names::CHUNKS)?;
        let (inbox, commands) = mpsc::channel(INBOX);
        let (events, receiver) = mpsc::channel(OUTBOX);
        let relay = match role {
            Role::Source => Relay::source(me),
            Role::Relay => Relay::new(me),
            Role::Leaf => Relay::leaf(me),
        };
        let driver = driver::Driver::new(host, store, relay, inbox.downgrade(), events);
        tokio::spawn(driver.run(commands, incoming));
        Ok((Self { inbox }, receiver))
    }

    /// Tells of a manifest whose signature and form have been checked.
    pub async fn announce(&self, manifest: Arc<Manifest>) -> Result<(), Stopped> {
        self.send(driver::Command::Announce(manifest)).await
    }

    /// Publishes a snapshot whose chunks are all in the store.
    pub async fn publish(&self, manifest: Arc<Manifest>) -> Result<(), Stopped> {
        self.send(driver::Command::Publish(manifest)).await
    }

    /// Names the parent to receive from.
    pub async fn parent(&self, parent: Option<Peer>) -> Result<(), Stopped> {
        self.send(driver::Command::Parent(parent)).await
    }

    /// Tells that reading a stored chunk failed; it will be fetched again.
    pub async fn damaged(&self, version: PolicyVersion, index: ChunkIndex) -> Result<(), Stopped> {
        self.send(driver::Command::Damaged { version, index }).await
    }

    async fn send(&self, command: driver::Command) -> Result<(), Stopped> {
        self.inbox.send(command).await.map_err(|_| Stopped)
    }
}

/// What a stream task needs to report on itself: reports of a stream that has been replaced are ignored by its number.
#[derive(Clone, Debug)]
struct Reporter {
    peer: PublicKey,
    serial: u64,
    inbox: mpsc::WeakSender<driver::Command>,
}

impl Reporter {
    async fn report(&self, report: driver::Report) {
        if let Some(inbox) = self.inbox.upgrade() {
            let command = driver::Command::Report { peer: self.peer, serial: self.serial, report };
            // The driver has stopped: nobody is left to tell.
            let _ = inbox.send(command).await;
        }
    }
}

/// Reads which chunks of `manifest` lie in `store`, off the async threads.
async fn present(store: Arc<ChunkStore>, manifest: Arc<Manifest>) -> ChunkSet {
    tokio::task::spawn_blocking(move || store.present(&manifest)).await.unwrap_or_default()
}

#[cfg(test)]
mod tests;
