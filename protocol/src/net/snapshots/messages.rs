//! What the owner and the streams' tasks send the driver.

use super::block_writer::Stored;
use super::downloads::Event;
use super::stats::{SnapshotStats, Traffic};
use crate::control::requests::Peer;
use crate::dissemination::{Mode, Role};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::GroupMask;
use crate::snapshot::manifest::PieceIndex;
use crate::wire::content_id::{ChunkIndex, ContentId};
use crate::wire::identity::PublicKey;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What the owner or another task tells the driver.
#[derive(Debug)]
pub(super) enum Command {
    /// A manifest to fetch or to publish, or what the disk says.
    Downloads(Event),
    Neighbours(Vec<(Peer, Role)>),
    Friends(Vec<PublicKey>),
    Leaves(Vec<PublicKey>),
    Mode(Mode),
    Damaged {
        version: PolicyVersion,
        index: ChunkIndex,
    },
    Stats(oneshot::Sender<SnapshotStats>),
    Report {
        peer: PublicKey,
        serial: u64,
        report: Report,
    },
}

/// What happened on one stream.
#[derive(Debug)]
pub(super) enum Report {
    Opened,
    Has { version: PolicyVersion, news: Vec<(PieceIndex, GroupMask)> },
    Stored { version: PolicyVersion, stored: Vec<Stored> },
    Rotten { reason: String },
    Refused { version: PolicyVersion },
    Lost { reason: String },
    Foreign { reason: String },
    GaveUp { reason: String },
    Joined { version: PolicyVersion, manifest: ContentId },
    Asked { version: PolicyVersion, piece: PieceIndex, groups: GroupMask },
    Cancelled { piece: PieceIndex, groups: GroupMask },
    Sent { piece: PieceIndex, group: u32 },
    Damaged { version: PolicyVersion, piece: PieceIndex },
    Left,
}

/// What a stream's task needs to report on itself: reports of a stream that has been replaced are known by its number.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) peer: PublicKey,
    pub(super) serial: u64,
    pub(super) inbox: mpsc::WeakSender<Command>,
    pub(super) traffic: Arc<Traffic>,
}

impl Reporter {
    pub(super) async fn report(&self, report: Report) {
        if let Some(inbox) = self.inbox.upgrade() {
            let command = Command::Report { peer: self.peer, serial: self.serial, report };
            // The driver has stopped: nobody is left to tell.
            let _ = inbox.send(command).await;
        }
    }
}
