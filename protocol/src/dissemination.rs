//! How snapshots spread, as one peer sees it: what to request, whom to serve, when a version is whole.
//!
//! The machine is sans-IO. Its driver (`net::snapshots`) verifies, stores and moves bytes, and reports
//! what happened; the machine answers with what to do next. The learner runs the same machine as the
//! source ([`Input::Published`]). May import `wire`, `run` and `snapshot`.
//!
//! The receiver drives everything. A peer opens one stream to each *neighbour* that the learner named
//! and requests *blocks* of *pieces*. A neighbour announces each block as soon as it has verified it, so
//! a block travels on before its piece is whole. Each neighbour has a window of blocks that are
//! requested and not yet here: about [`QUEUE_MS`] of data, and more while less arrives than before.
//! A server answers requests, and keeps few blocks per consumer in its driver's hands.
//!
//! ```text
//! Announced ─> versions ─> transfer: what is wanted, what is here
//! Has       ─> fetching ─> block_picker, request_window ─> Request        (neighbours)
//! Stored    ─> transfer ─> repair of what is late ─> Cancel, Request
//!                 └─ all here ─> Complete
//! Joined, Asked ─> serving ─> Tell, Serve                                 (consumers)
//! Published ─> super_seeding: at the source, each consumer is first told of other blocks
//! ```
//!
//! Rules that hold at every step:
//! - only blocks that the driver has verified and stored are announced or served;
//! - a block is requested from one neighbour at a time, and cancelled there if another takes it over;
//! - `Complete` is said once every wanted block is stored;
//! - a peer that served corrupt bytes is cut off, and never asked or served again.
//!
//! One version is received at a time. The driver says which.

mod block_picker;
mod consumers;
mod fetching;
pub mod fluid_bound;
mod neighbour_requests;
mod neighbours;
mod repair;
mod request_window;
mod serving;
pub mod simulation;
mod stats;
mod super_seeding;
mod throughput;
mod transfer;
mod versions;

use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::snapshot::piece_set::{Holdings, PieceSet};
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use crate::wire::rng::Draws;
use crate::wire::time::UnixMillis;
use consumers::Consumers;
use neighbour_requests::Questions;
use neighbours::Neighbours;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use super_seeding::SuperSeeding;
use transfer::Transfer;
use versions::Announcement;

pub use consumers::{
    IDLE_MS, MAX_ASKED, MAX_CONSUMERS, MAX_FRIENDS, MAX_SERVED, MAX_SOURCE_CONSUMERS, REJOIN_MS,
    UNKNOWN_IDLE_MS,
};
pub use neighbours::MAX_NEIGHBOURS;
pub use request_window::QUEUE_MS;
pub use stats::{Stats, UpstreamStats};
pub use throughput::{MAX_WINDOW, MIN_WINDOW, START_WINDOW};
pub use versions::KEPT_VERSIONS;

/// Rotten peers that are remembered.
const MAX_ROTTEN: usize = 1024;

/// How blocks are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisseminationMode {
    /// From every neighbour, rarest first.
    Echo,
    /// From the parent in order; from the standby while there is no parent.
    Chain,
    /// From the parent, which is the source, in order.
    Star,
}

/// What a neighbour is to this peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NeighbourRole {
    /// The one before it in its chain.
    Parent,
    /// The parent's parent. In a chain it is used while there is no parent.
    Standby,
    /// Any other neighbour, of the random graph beside the chains.
    Mesh,
}

/// Where a piece of the version being received can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// All blocks of the piece are stored here.
    Here,
    /// The neighbours whose streams are open say that they hold it, all of it between them.
    Offered,
    /// Neither stored, nor offered in full at the moment.
    Nowhere,
}

/// What a machine is told once.
#[derive(Clone, Debug)]
pub struct DisseminationConfig {
    /// The key of this peer, which is never its own neighbour.
    pub me: PublicKey,
    /// Whether snapshots come from here.
    pub source: bool,
    /// Whether others may pull from here.
    pub serves: bool,
    /// Complete versions that stay available to consumers; at least 1.
    pub keep_versions: usize,
    /// How blocks are gathered.
    pub mode: DisseminationMode,
    /// Of the choices among equals. Peers with different seeds choose differently, which spreads blocks.
    pub seed: [u8; 32],
}

/// What the driver reports to the machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// Receive this version from now on, in place of any other. Its manifest's signature and form
    /// are right. It may be known already: then the wish is replaced.
    Announced {
        /// The manifest of the version to receive.
        manifest: Arc<Manifest>,
        /// Blocks of it that are on disk.
        have: Holdings,
        /// Pieces that this peer needs to make the snapshot.
        wanted: PieceSet,
    },
    /// The wish changed: a delta did not apply, say, and its chunk is wanted now.
    Wanted {
        /// The version whose wish changed.
        version: PolicyVersion,
        /// All pieces that are wanted from now on.
        pieces: PieceSet,
    },
    /// One piece more is wanted.
    WantedToo {
        /// The version that names the piece.
        version: PolicyVersion,
        /// The piece to receive as well.
        piece: PieceIndex,
    },
    /// This peer is the source and has stored every piece.
    Published(Arc<Manifest>),
    /// The learner began a new epoch: what is known of versions is of the one before, whose pieces
    /// had the same numbers.
    NewEpoch,
    /// A whole piece is on disk that no neighbour sent: it was built from a delta, say.
    Gained {
        /// The version that names the piece.
        version: PolicyVersion,
        /// The piece that was made here.
        piece: PieceIndex,
    },
    /// A stored piece no longer matches its name.
    Damaged {
        /// The version that names the piece.
        version: PolicyVersion,
        /// The piece that is to be received again.
        piece: PieceIndex,
    },
    /// The learner named the neighbours. Replaces the list; those beyond [`MAX_NEIGHBOURS`] are ignored.
    Neighbours(Vec<(PublicKey, NeighbourRole)>),
    /// The learner said who is to pull from here: they get places before anybody else.
    ///
    /// Replaces the list; those beyond [`MAX_FRIENDS`] are ignored.
    Friends(Vec<PublicKey>),
    /// The learner said which consumers pass nothing on: what is new is shared among the others.
    ///
    /// Replaces the list; those beyond [`MAX_FRIENDS`] are ignored.
    Leaves(Vec<PublicKey>),
    /// The stream to this neighbour is open.
    Opened(PublicKey),
    /// A neighbour holds more than it said before.
    Has {
        /// The neighbour that announces them.
        peer: PublicKey,
        /// The version that the blocks belong to.
        version: PolicyVersion,
        /// Pieces, and their blocks that it did not announce before.
        news: Vec<(PieceIndex, BlockMask)>,
    },
    /// A block from `peer` matched its name and is on disk, now or from before.
    Stored {
        /// The neighbour that sent the block.
        peer: PublicKey,
        /// The version that the block belongs to.
        version: PolicyVersion,
        /// The piece that the block belongs to.
        piece: PieceIndex,
        /// The block's number in its piece, from 0.
        block: u32,
    },
    /// Bytes from this peer did not match their name, or it broke the protocol.
    Rotten(PublicKey),
    /// This neighbour does not serve this version, or not to us.
    Refused {
        /// The neighbour that refuses.
        peer: PublicKey,
        /// The version that it does not serve.
        version: PolicyVersion,
    },
    /// The stream to this neighbour ended, or could not be opened.
    Lost(PublicKey),
    /// The stream to this neighbour was given up because of a failure here, of which it is innocent.
    GaveUp(PublicKey),
    /// A consumer opened a stream for a version. Replaces its earlier stream.
    Joined {
        /// The consumer that opened the stream.
        peer: PublicKey,
        /// The version that it is going to request.
        version: PolicyVersion,
        /// The name of its manifest ([`Manifest::id`]): a version may have been made twice, by a
        /// learner that was set back.
        manifest: ContentId,
    },
    /// A consumer asks for blocks.
    Asked {
        /// The consumer that requests them.
        peer: PublicKey,
        /// The version that the blocks belong to.
        version: PolicyVersion,
        /// The piece that the blocks belong to.
        piece: PieceIndex,
        /// The requested blocks of this piece.
        blocks: BlockMask,
    },
    /// A consumer no longer needs blocks that it asked for.
    Cancelled {
        /// The consumer that requested them.
        peer: PublicKey,
        /// The piece that the blocks belong to.
        piece: PieceIndex,
        /// The blocks that it needs no more.
        blocks: BlockMask,
    },
    /// A block has left towards a consumer.
    Sent {
        /// The consumer that the block went to.
        peer: PublicKey,
        /// The piece that the block belongs to.
        piece: PieceIndex,
        /// The block's number in its piece, from 0.
        block: u32,
    },
    /// The stream to this consumer ended.
    Left(PublicKey),
}

/// What the driver is to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Open a stream to this neighbour; report `Opened`, `Refused` or `Lost`.
    Open {
        /// The neighbour to connect to.
        peer: PublicKey,
        /// The version that the stream is about.
        version: PolicyVersion,
    },
    /// Close the stream to this neighbour. Nothing needs to be reported.
    Close(PublicKey),
    /// Ask a neighbour for blocks.
    Request {
        /// The neighbour that holds the blocks.
        peer: PublicKey,
        /// The version that the blocks belong to.
        version: PolicyVersion,
        /// The piece that the blocks belong to.
        piece: PieceIndex,
        /// The blocks to request, none of them requested elsewhere.
        blocks: BlockMask,
    },
    /// Tell a neighbour that blocks are no longer needed from it.
    Cancel {
        /// The neighbour that was asked for them.
        peer: PublicKey,
        /// The version that the blocks belong to.
        version: PolicyVersion,
        /// The piece that the blocks belong to.
        piece: PieceIndex,
        /// The blocks that it need not send.
        blocks: BlockMask,
    },
    /// Tell a consumer what is held here and was not told before; the first after
    /// its `Joined` carries everything.
    Tell {
        /// The consumer that hears of them.
        peer: PublicKey,
        /// The version that the blocks belong to.
        version: PolicyVersion,
        /// Pieces, and their blocks that it was not told of.
        news: Vec<(PieceIndex, BlockMask)>,
    },
    /// Send a stored block to a consumer, then report `Sent`. At most [`MAX_SERVED`] a consumer
    /// are not yet reported.
    Serve {
        /// The consumer that requested the block.
        peer: PublicKey,
        /// The version that the block belongs to.
        version: PolicyVersion,
        /// The piece that the block belongs to.
        piece: PieceIndex,
        /// The block's number in its piece, from 0.
        block: u32,
    },
    /// Tell this consumer that it is not served, and close its stream.
    Refuse {
        /// The consumer whose stream is closed.
        peer: PublicKey,
        /// The version that it asked for.
        version: PolicyVersion,
    },
    /// Every wanted block of this version is stored.
    Complete(PolicyVersion),
    /// Every neighbour that could be reached refuses this version, which is being received: they
    /// have moved on, or have no place.
    Refused(PolicyVersion),
    /// Forget this version; its pieces may be deleted unless another version shares them.
    Discard(PolicyVersion),
    /// Disconnect this peer and do not accept it again.
    CutOff(PublicKey),
    /// Ask the learner for neighbours.
    AskNeighbours {
        /// Those named that failed.
        lost: Vec<PublicKey>,
    },
}

/// One peer's part in dissemination: the machine.
pub struct Dissemination {
    config: DisseminationConfig,
    draws: Draws,
    versions: BTreeMap<PolicyVersion, Transfer>,
    /// The version being received.
    current: Option<PolicyVersion>,
    neighbours: Neighbours,
    questions: Questions,
    consumers: Consumers,
    rotten: BTreeSet<PublicKey>,
    /// The version that is told of step by step.
    super_seeding: Option<SuperSeeding>,
    /// When to look again for slow neighbours to take over from.
    repair_at: Option<UnixMillis>,
    /// Some consumer may not have been told everything.
    untold: bool,
    /// When consumers were last told anything.
    told_at: UnixMillis,
    /// The time to tell has come.
    tells: bool,
    outputs: VecDeque<Output>,
}

impl Dissemination {
    /// A machine that knows of no version and no peer.
    pub fn new(config: DisseminationConfig) -> Self {
        let places = match (config.serves, config.source) {
            (false, _) => 0,
            (true, false) => MAX_CONSUMERS,
            (true, true) => MAX_SOURCE_CONSUMERS,
        };
        Self {
            draws: Draws::new(config.seed),
            config,
            versions: BTreeMap::new(),
            current: None,
            neighbours: Neighbours::default(),
            questions: Questions::default(),
            consumers: Consumers::new(places),
            rotten: BTreeSet::new(),
            super_seeding: None,
            repair_at: None,
            untold: false,
            told_at: UnixMillis(0),
            tells: false,
            outputs: VecDeque::new(),
        }
    }

    /// Takes in what happened at `now`.
    pub fn handle(&mut self, now: UnixMillis, input: Input) {
        match input {
            Input::Announced { manifest, have, wanted } => {
                self.announced(now, Announcement { manifest, have, wanted });
            }
            Input::Wanted { version, pieces } => self.wanted(now, version, pieces),
            Input::WantedToo { version, piece } => self.wanted_too(now, version, piece),
            Input::Published(manifest) => self.published(now, manifest),
            Input::NewEpoch => self.forget_versions(now),
            Input::Gained { version, piece } => self.gained(now, version, piece),
            Input::Damaged { version, piece } => self.damaged(now, version, piece),
            Input::Neighbours(named) => self.named(now, named),
            Input::Friends(friends) => self.consumers.befriend(friends),
            Input::Leaves(leaves) => self.consumers.set_leaves(leaves),
            Input::Opened(peer) => self.opened(now, peer),
            Input::Has { peer, version, news } => self.has(now, peer, version, &news),
            Input::Stored { peer, version, piece, block } => self.stored(now, peer, version, piece, block),
            Input::Rotten(peer) => self.cut_off(now, peer),
            Input::Refused { peer, version } => self.refused(now, peer, version),
            Input::Lost(peer) => self.lost(now, peer),
            Input::GaveUp(peer) => self.gave_up(now, peer),
            Input::Joined { peer, version, manifest } => self.joined(now, peer, version, manifest),
            Input::Asked { peer, version, piece, blocks } => self.asked(now, peer, version, piece, blocks),
            Input::Cancelled { peer, piece, blocks } => self.consumers.cancel(&peer, piece, blocks),
            Input::Sent { peer, piece, block } => self.sent(now, &peer, piece, block),
            Input::Left(peer) => self.consumers.remove(&peer),
        }
        self.look_at_shares(now);
        self.time_news(now);
    }

    /// What to do next, if anything. News for consumers are gathered until nothing else is left to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() {
            self.tell();
        }
        self.outputs.pop_front()
    }

    /// When [`Dissemination::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<UnixMillis> {
        let times = [self.fetch_timeout(), self.tell_timeout(), self.super_seeding_timeout()];
        times.into_iter().flatten().min()
    }

    /// Reacts to time having passed.
    pub fn handle_timeout(&mut self, now: UnixMillis) {
        self.fetch_timed_out(now);
        self.look_at_shares(now);
        self.time_news(now);
    }

    /// Changes how blocks are gathered; what is under way goes on.
    pub fn set_mode(&mut self, mode: DisseminationMode) {
        self.config.mode = mode;
    }

    /// Stored and wanted bytes of the version being received.
    pub fn progress(&self) -> Option<(PolicyVersion, u64, u64)> {
        let version = self.current?;
        self.versions.get(&version).map(|t| (version, t.wanted_bytes() - t.missing_bytes(), t.wanted_bytes()))
    }

    /// Where a piece of this version can be had; nowhere unless it is the one being received.
    pub fn supply(&self, version: PolicyVersion, piece: PieceIndex) -> Supply {
        let current = self.versions.get(&version).filter(|_| self.current == Some(version));
        let Some(transfer) = current else { return Supply::Nowhere };
        let missing = transfer.all(piece).minus(transfer.have().get(piece));
        let open = self.neighbours.edges.values().filter(|edge| edge.is_open());
        let held = open.fold(BlockMask::EMPTY, |held, edge| held.union(edge.holds.get(piece)));
        if missing.is_empty() {
            Supply::Here
        } else if missing.minus(held).is_empty() {
            Supply::Offered
        } else {
            Supply::Nowhere
        }
    }

    /// The manifest of a version that this peer knows.
    pub fn manifest(&self, version: PolicyVersion) -> Option<&Arc<Manifest>> {
        self.versions.get(&version).map(|t| &t.manifest)
    }

    /// Whether every wanted block of a version is stored.
    pub fn is_complete(&self, version: PolicyVersion) -> bool {
        self.versions.get(&version).is_some_and(Transfer::is_complete)
    }

    /// The name of the manifest of a version that this peer knows.
    pub fn manifest_id(&self, version: PolicyVersion) -> Option<ContentId> {
        self.versions.get(&version).map(|t| t.id)
    }

    /// The newest version of which every wanted block is stored.
    pub fn newest_complete(&self) -> Option<PolicyVersion> {
        self.versions.iter().rev().find(|(_, t)| t.is_complete()).map(|(v, _)| *v)
    }

    /// Manifests whose pieces must stay on disk.
    pub fn kept(&self) -> impl Iterator<Item = &Arc<Manifest>> {
        self.versions.values().map(|t| &t.manifest)
    }

    /// Cuts a peer off for good.
    fn cut_off(&mut self, now: UnixMillis, peer: PublicKey) {
        if self.rotten.len() >= MAX_ROTTEN {
            self.rotten.pop_first();
        }
        self.rotten.insert(peer);
        self.outputs.push_back(Output::CutOff(peer));
        self.consumers.remove(&peer);
        self.drop_rotten(now, peer);
    }
}

#[cfg(test)]
mod tests;
