//! What the owner and the streams' tasks send the driver.

use super::block_writer::Stored;
use super::downloads::DownloadEvent;
use super::stats::{SnapshotStats, StreamTraffic};
use crate::control::requests::Peer;
use crate::dissemination::{DisseminationMode, NeighbourRole};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::wire::content_id::{ChunkIndex, ContentId};
use crate::wire::identity::PublicKey;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What the owner or another task tells the driver.
#[derive(Debug)]
pub(super) enum DriverCommand {
    /// A manifest to fetch or to publish, or what the disk says.
    Downloads(DownloadEvent),
    Neighbours(Vec<(Peer, NeighbourRole)>),
    Friends(Vec<PublicKey>),
    Leaves(Vec<PublicKey>),
    Mode(DisseminationMode),
    Damaged {
        version: PolicyVersion,
        index: ChunkIndex,
    },
    Stats(oneshot::Sender<SnapshotStats>),
    Report {
        peer: PublicKey,
        serial: u64,
        report: StreamReport,
    },
}

/// What happened on one stream.
#[derive(Debug)]
pub(super) enum StreamReport {
    Opened,
    Has { version: PolicyVersion, news: Vec<(PieceIndex, BlockMask)> },
    Stored { version: PolicyVersion, stored: Vec<Stored> },
    Rotten { reason: String },
    Refused { version: PolicyVersion },
    Lost { reason: String },
    Foreign { reason: String },
    GaveUp { reason: String },
    Joined { version: PolicyVersion, manifest: ContentId },
    Asked { version: PolicyVersion, piece: PieceIndex, blocks: BlockMask },
    Cancelled { piece: PieceIndex, blocks: BlockMask },
    Sent { piece: PieceIndex, block: u32 },
    Damaged { version: PolicyVersion, piece: PieceIndex },
    Left,
}

/// What a stream's task needs to report on itself: reports of a stream that has been replaced are
/// known by its number.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) peer: PublicKey,
    pub(super) serial: u64,
    pub(super) inbox: mpsc::WeakSender<DriverCommand>,
    pub(super) traffic: Arc<StreamTraffic>,
}

impl Reporter {
    pub(super) async fn report(&self, report: StreamReport) {
        if let Some(inbox) = self.inbox.upgrade() {
            let command = DriverCommand::Report { peer: self.peer, serial: self.serial, report };
            // The driver has stopped: nobody is left to tell.
            let _ = inbox.send(command).await;
        }
    }
}
