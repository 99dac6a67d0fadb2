//! Streams between simulated peers: what waits for an uplink, and the order in which things arrive.

use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use std::collections::VecDeque;

/// Bytes of a frame besides its payload.
const HEADER_BYTES: u64 = 40;
/// Bytes of one entry of news.
const ENTRY_BYTES: u64 = 14;

/// What a server sends.
#[derive(Clone, Debug)]
pub(super) enum SimulatedFrame {
    Tell(Vec<(PieceIndex, BlockMask)>),
    Block { piece: PieceIndex, block: u32, bytes: u64, rotten: bool },
    Refuse,
}

/// What a puller sends.
#[derive(Clone, Debug)]
pub(super) enum Control {
    Ask(PieceIndex, BlockMask),
    Cancel(PieceIndex, BlockMask),
}

/// One stream, from the one who pulls to the one who serves.
#[derive(Debug)]
pub(super) struct SimulatedStream {
    pub(super) puller: usize,
    pub(super) server: usize,
    pub(super) version: PolicyVersion,
    /// Whether each end still uses it.
    pub(super) puller_open: bool,
    pub(super) server_open: bool,
    /// News overtake blocks that have not begun to leave.
    tells: VecDeque<SimulatedFrame>,
    blocks: VecDeque<SimulatedFrame>,
    /// Nothing arrives before what was sent earlier in the same direction, in microseconds.
    pub(super) last_up: u64,
    pub(super) last_down: u64,
}

impl SimulatedFrame {
    /// Length on the wire.
    pub(super) fn bytes(&self) -> u64 {
        HEADER_BYTES
            + match self {
                Self::Tell(news) => news.len() as u64 * ENTRY_BYTES,
                Self::Block { bytes, .. } => *bytes,
                Self::Refuse => 0,
            }
    }
}

impl SimulatedStream {
    pub(super) fn new(puller: usize, server: usize, version: PolicyVersion) -> Self {
        Self {
            puller,
            server,
            version,
            puller_open: true,
            server_open: false,
            tells: VecDeque::new(),
            blocks: VecDeque::new(),
            last_up: 0,
            last_down: 0,
        }
    }

    pub(super) fn push(&mut self, frame: SimulatedFrame) {
        match frame {
            SimulatedFrame::Block { .. } => self.blocks.push_back(frame),
            SimulatedFrame::Tell(_) | SimulatedFrame::Refuse => self.tells.push_back(frame),
        }
    }

    pub(super) fn pop(&mut self) -> Option<SimulatedFrame> {
        self.tells.pop_front().or_else(|| self.blocks.pop_front())
    }

    pub(super) fn waits(&self) -> bool {
        !(self.tells.is_empty() && self.blocks.is_empty())
    }
}
