//! Snapshots on the wire: the driver around the dissemination machine.
//!
//! One task owns the machine ([`Dissemination`](crate::dissemination::Dissemination)) and does what
//! it says. Streams, disk, hashing and deltas run in tasks of their own and report back. A peer opens
//! one stream to each neighbour for the version that it fetches, and requests blocks on it
//! (`frames`). A block is verified against the signed manifest and stored before the machine hears
//! of it, and so before it is announced or served. Chunks that a delta makes are built as soon as the
//! delta and its base are here.
//!
//! ```text
//! owner ── DriverCommand ──> driver ── Input ──> dissemination ── Output ──> driver
//!                              │ DownloadEvent ──> downloads ── DownloadAction ──> driver
//!                              │
//!                              ├── UpstreamCommand ──> upstream ── PullMessage ──> neighbour
//!                              │                          └── block ──> block_writer ──> store
//!                              │ <──── StreamReport ──────┘
//!                              ├── mailbox ──> downstream ── ServeMessage ──> consumer
//!                              │ <──── StreamReport ──────┘
//! owner <── SnapshotEvent ─────┘
//! ```
//!
//! What flows is bounded by what is requested: a neighbour sends only what the machine's window
//! asked of it, and reading stops while eight of its blocks wait for the disk. May import all of
//! `net` but `net::swarm` and `net::behaviour`.

pub(crate) mod block_writer;
mod builder;
mod downloads;
mod downstream;
mod driver;
pub mod frames;
mod mailbox;
mod messages;
mod plan;
mod requests;
mod stats;
mod upstream;

use crate::control::requests::Peer;
use crate::dissemination;
use crate::dissemination::{DisseminationConfig, DisseminationMode};
use crate::net::error::NetError;
use crate::net::host::Host;
use crate::net::protocol_names;
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::Manifest;
use crate::store::ChunkStore;
use crate::wire::content_id::ChunkIndex;
use crate::wire::identity::PublicKey;
use block_writer::BlockWriter;
use messages::DriverCommand;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

pub use stats::{SnapshotStats, VersionTimes};

/// Commands and reports that may wait for the driver.
const INBOX: usize = 256;
/// Events that may wait for the owner. Progress and repeated questions are dropped beyond it; of
/// installations the newest waits.
const OUTBOX: usize = 64;

/// Whether snapshots come from here or pass through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotRole {
    /// The learner: publishes and serves.
    Source,
    /// A node: receives, serves, installs.
    Relay,
    /// A node whose owner does not want it to serve: receives, installs.
    Leaf,
}

/// How a driver takes part.
#[derive(Clone, Debug)]
pub struct SnapshotsConfig {
    /// The key of this peer, as neighbours see it.
    pub me: PublicKey,
    /// Whether it publishes, passes on, or only receives.
    pub role: SnapshotRole,
    /// How blocks are gathered.
    pub mode: DisseminationMode,
    /// Complete versions that stay on disk and available to others; at least 1.
    pub keep_versions: usize,
    /// The run's learner: cut off as a source of chunks if it breaks the protocol, but never
    /// blocked as a peer.
    pub learner: Option<PublicKey>,
    /// Of the machine's choices among equals; different for every peer.
    pub seed: [u8; 32],
}

impl SnapshotsConfig {
    /// The settings of a peer, with its key as the seed and [`KEPT_VERSIONS`](dissemination::KEPT_VERSIONS).
    pub fn new(me: PublicKey, role: SnapshotRole, mode: DisseminationMode) -> Self {
        let (keep_versions, seed) = (dissemination::KEPT_VERSIONS, *me.as_bytes());
        Self { me, role, mode, keep_versions, learner: None, seed }
    }

    fn dissemination(&self) -> DisseminationConfig {
        DisseminationConfig {
            me: self.me,
            source: self.role == SnapshotRole::Source,
            serves: self.role != SnapshotRole::Leaf,
            keep_versions: self.keep_versions.max(1),
            mode: self.mode,
            seed: self.seed,
        }
    }
}

/// What the owner has to know or do.
#[derive(Clone, Debug)]
pub enum SnapshotEvent {
    /// Every chunk of this snapshot is stored: install it.
    Install(Arc<Manifest>),
    /// Neighbours are needed; answer with [`Snapshots::neighbours`].
    AskNeighbours {
        /// Named neighbours that have failed.
        lost: Vec<PublicKey>,
    },
    /// A download goes on.
    Progress {
        /// The version that is being received.
        version: PolicyVersion,
        /// Bytes stored of what is fetched for it.
        have_bytes: u64,
        /// Bytes fetched for it in all.
        total_bytes: u64,
    },
    /// This peer broke the chunk protocol, and is blocked unless it is the learner.
    CutOff(PublicKey),
}

/// Handle to the driver.
#[derive(Clone, Debug)]
pub struct Snapshots {
    inbox: mpsc::Sender<DriverCommand>,
}

/// The driver has stopped, because its host was shut down.
#[derive(Debug, thiserror::Error)]
#[error("the snapshot service has stopped")]
pub struct Stopped;

impl Snapshots {
    /// Starts serving and receiving chunks over `host`. The driver ends when the handle and
    /// its host are gone.
    ///
    /// # Errors
    /// [`NetError::AcceptTaken`] when the host already has a driver, [`NetError::Thread`] when the system
    /// allows no more threads.
    pub fn start(
        host: Host,
        store: Arc<ChunkStore>,
        config: SnapshotsConfig,
    ) -> Result<(Self, mpsc::Receiver<SnapshotEvent>), NetError> {
        let incoming = host.accept(protocol_names::CHUNKS)?;
        let (inbox, commands) = mpsc::channel(INBOX);
        let (events, receiver) = mpsc::channel(OUTBOX);
        let block_writer = BlockWriter::start(store.clone())?;
        let driver =
            driver::SnapshotDriver::new(host, store, block_writer, config, inbox.downgrade(), events);
        tokio::spawn(driver.run(commands, incoming));
        Ok((Self { inbox }, receiver))
    }

    /// Tells of a manifest whose signature and form have been checked. The snapshot of the newest
    /// is fetched; older ones show cheaper ways to it, by their deltas.
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn announce(&self, manifest: Arc<Manifest>) -> Result<(), Stopped> {
        self.send(DriverCommand::Downloads(downloads::DownloadEvent::Announced(manifest))).await
    }

    /// Publishes a snapshot whose pieces are all in the store.
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn publish(&self, manifest: Arc<Manifest>) -> Result<(), Stopped> {
        self.send(DriverCommand::Downloads(downloads::DownloadEvent::Published(manifest))).await
    }

    /// Names the neighbours to pull from, and what each is.
    ///
    /// Replaces the list; those beyond [`MAX_NEIGHBOURS`](dissemination::MAX_NEIGHBOURS) are ignored.
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn neighbours(
        &self,
        neighbours: Vec<(Peer, dissemination::NeighbourRole)>,
    ) -> Result<(), Stopped> {
        self.send(DriverCommand::Neighbours(neighbours)).await
    }

    /// Names those whom the learner sends here to pull: they have places before anybody else.
    ///
    /// Replaces the list; those beyond [`MAX_FRIENDS`](dissemination::MAX_FRIENDS) are ignored.
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn friends(&self, friends: Vec<PublicKey>) -> Result<(), Stopped> {
        self.send(DriverCommand::Friends(friends)).await
    }

    /// Tells the source who passes nothing on ([`Input::Leaves`](crate::dissemination::Input::Leaves)).
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn leaves(&self, leaves: Vec<PublicKey>) -> Result<(), Stopped> {
        self.send(DriverCommand::Leaves(leaves)).await
    }

    /// Changes how blocks are gathered, as the learner wishes.
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn mode(&self, mode: DisseminationMode) -> Result<(), Stopped> {
        self.send(DriverCommand::Mode(mode)).await
    }

    /// Tells that reading a stored chunk failed; it will be fetched again.
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn damaged(&self, version: PolicyVersion, index: ChunkIndex) -> Result<(), Stopped> {
        self.send(DriverCommand::Damaged { version, index }).await
    }

    /// What the driver measured so far.
    ///
    /// # Errors
    /// [`Stopped`] when the host was shut down, and the driver with it.
    pub async fn stats(&self) -> Result<SnapshotStats, Stopped> {
        let (answer, stats) = oneshot::channel();
        self.send(DriverCommand::Stats(answer)).await?;
        stats.await.map_err(|_| Stopped)
    }

    async fn send(&self, command: DriverCommand) -> Result<(), Stopped> {
        self.inbox.send(command).await.map_err(|_| Stopped)
    }
}

#[cfg(test)]
mod tests;
