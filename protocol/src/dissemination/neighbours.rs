//! Those whom this peer pulls from, and what is known of each.

use super::request_window::RequestWindow;
use super::throughput::Throughput;
use super::{DisseminationMode, NeighbourRole};
use crate::snapshot::blocks::{BLOCK_BYTES, BlockMask};
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::{Holdings, PieceSet};
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;
use std::collections::{BTreeMap, VecDeque};

/// Most neighbours that are named at once.
pub const MAX_NEIGHBOURS: usize = 24;
/// Silence, while something is asked, after which a neighbour counts as lost; longer where
/// a block takes longer.
pub(super) const STALL_MS: u64 = 3_000;
/// Silence that is borne of one that has not delivered yet: its uplink may be slow, and others
/// in turn before us.
const FIRST_MS: u64 = 10_000;
/// Longest time that silence is borne because a neighbour itself is slow: one that takes longer for
/// two blocks is of no use.
const SLOWEST_MS: u64 = FIRST_MS;
/// Longest time that silence is borne because a neighbour failed before.
const MAX_FAILED_MS: u64 = 20_000;
/// Longest time that silence is borne.
const MAX_STALL_MS: u64 = 60_000;
/// How long a stream may take to open.
pub(super) const OPEN_MS: u64 = 5_000;
/// Pause before a lost neighbour is tried again; doubles with every failure in a row.
const RETRY_MS: u64 = 500;
/// Longest pause before a lost neighbour is tried again, in milliseconds.
const MAX_RETRY_MS: u64 = 30_000;
/// Blocks that are asked of all neighbours together before any rate is known.
const START_BUDGET: u64 = 16;
/// Blocks that are asked of all neighbours together, as the time in which they
/// should arrive, in milliseconds.
const BUDGET_MS: u64 = 1_500;

/// The stream to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    Closed { again_at: UnixMillis },
    Opening { until: UnixMillis },
    Open,
}

/// A block that was asked for and is not here.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedBlock {
    pub(super) piece: PieceIndex,
    pub(super) block: u32,
    pub(super) at: UnixMillis,
    /// What the neighbour had delivered by then, in bytes.
    pub(super) before: u64,
}

/// Counts of one neighbour since it was first named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NeighbourTotals {
    pub(super) bytes: u64,
    pub(super) blocks: u64,
    pub(super) duplicates: u64,
    /// Duplicates that were sent although they had been cancelled before.
    pub(super) belated: u64,
    pub(super) repairs: u64,
    pub(super) failures: u64,
}

/// What is known of one neighbour, and asked of it.
pub(super) struct NeighbourState {
    pub(super) role: NeighbourRole,
    /// Whether the learner's newest list has it.
    pub(super) named: bool,
    pub(super) link: StreamState,
    /// What it says that it holds.
    pub(super) holds: Holdings,
    /// Pieces of which it holds open blocks.
    pub(super) ready: PieceSet,
    /// Oldest first, at most [`super::MAX_WINDOW`].
    pub(super) asked: VecDeque<RequestedBlock>,
    /// What was taken back from it, and when; oldest first.
    pub(super) cancelled: VecDeque<(PieceIndex, u32, UnixMillis)>,
    pub(super) pace: Throughput,
    /// When it last delivered, or was asked while nothing was under way: silence counts from here.
    pub(super) heard: UnixMillis,
    /// Streams that ended since it last delivered.
    pub(super) failures: u32,
    /// Those of them that say something against it.
    pub(super) faults: u32,
    /// Taking over from others found nothing; not before this instant again.
    pub(super) repair_at: UnixMillis,
    pub(super) totals: NeighbourTotals,
}

/// All neighbours, and those no longer named that still deliver.
#[derive(Default)]
pub(super) struct Neighbours {
    pub(super) edges: BTreeMap<PublicKey, NeighbourState>,
    pub(super) ahead: RequestWindow,
    /// Failures and faults of those that were named no more before they delivered again: naming
    /// them anew does not clear them. At most [`MAX_NEIGHBOURS`].
    failed: BTreeMap<PublicKey, (u32, u32)>,
    /// Counts of all neighbours that ever were.
    pub(super) all: NeighbourTotals,
}

impl NeighbourState {
    fn new(role: NeighbourRole, now: UnixMillis) -> Self {
        Self {
            role,
            named: true,
            link: StreamState::Closed { again_at: now },
            holds: Holdings::default(),
            ready: PieceSet::default(),
            asked: VecDeque::new(),
            cancelled: VecDeque::new(),
            pace: Throughput::default(),
            heard: now,
            failures: 0,
            faults: 0,
            repair_at: now,
            totals: NeighbourTotals::default(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.link == StreamState::Open
    }

    /// Whether this role is used at all in this mode.
    pub(super) fn is_used(&self, mode: DisseminationMode) -> bool {
        self.named
            && match mode {
                DisseminationMode::Echo => true,
                DisseminationMode::Chain => self.role != NeighbourRole::Mesh,
                DisseminationMode::Star => self.role == NeighbourRole::Parent,
            }
    }

    /// Starts with an empty stream.
    pub(super) fn opening(&mut self, now: UnixMillis) {
        self.link = StreamState::Opening { until: now.plus(OPEN_MS) };
        self.cancelled.clear();
        self.holds = Holdings::default();
        self.ready = PieceSet::default();
    }

    /// Ends the stream and says what was under way.
    pub(super) fn closed(&mut self, again_at: UnixMillis) -> VecDeque<RequestedBlock> {
        self.link = StreamState::Closed { again_at };
        self.holds = Holdings::default();
        self.ready = PieceSet::default();
        std::mem::take(&mut self.asked)
    }

    /// Notes a failure and says when to try again.
    pub(super) fn failed(&mut self, now: UnixMillis, fault: bool) -> UnixMillis {
        let pause = RETRY_MS << self.failures.min(10);
        self.failures = self.failures.saturating_add(1);
        self.faults = self.faults.saturating_add(u32::from(fault));
        now.plus(pause.min(MAX_RETRY_MS))
    }

    /// Keeps `ready` true after `open` or `holds` of a piece have changed.
    pub(super) fn refresh(&mut self, piece: PieceIndex, open: BlockMask) {
        if self.holds.get(piece).intersect(open).is_empty() {
            self.ready.remove(piece);
        } else {
            self.ready.insert(piece);
        }
    }

    /// Takes a block off what was asked.
    pub(super) fn answered(&mut self, piece: PieceIndex, block: u32) -> Option<RequestedBlock> {
        let at = self.asked.iter().position(|a| a.piece == piece && a.block == block)?;
        self.asked.remove(at)
    }

    /// Until when it may be silent, if any may be for `patience` milliseconds.
    pub(super) fn silent_until(&self, patience: u64) -> UnixMillis {
        let slow = self.pace.block_ms().map_or(FIRST_MS, |block| (2 * block).min(SLOWEST_MS));
        let patience = patience.max(slow).min(MAX_STALL_MS);
        // It may have been too little before.
        let longer = (patience << self.failures.min(5)).min(MAX_FAILED_MS);
        self.heard.plus(patience.max(longer))
    }

    /// Blocks that may be asked now, so many milliseconds ahead. Small rooms wait until they have
    /// grown, so that one request carries several blocks.
    pub(super) fn room(&self, ahead_ms: u64) -> u32 {
        let window = self.pace.window(ahead_ms);
        let room = window.saturating_sub(self.asked.len() as u32);
        if room * 8 >= window { room } else { 0 }
    }

    /// Blocks beyond those asked that would have begun to arrive after so many milliseconds.
    pub(super) fn room_until(&self, millis: u64) -> u32 {
        let Some(block_ms) = self.pace.block_ms() else { return u32::MAX };
        let until_then = 1 + millis / block_ms.max(1);
        until_then.saturating_sub(self.asked.len() as u64).min(u64::from(u32::MAX)) as u32
    }
}

impl Neighbours {
    /// Counts for one neighbour and for all.
    pub(super) fn count(&mut self, peer: &PublicKey, change: impl Fn(&mut NeighbourTotals)) {
        change(&mut self.all);
        if let Some(edge) = self.edges.get_mut(peer) {
            change(&mut edge.totals);
        }
    }

    /// Counts of all neighbours that ever were.
    pub(super) fn totals(&self) -> &NeighbourTotals {
        &self.all
    }

    /// Replaces the list of neighbours by the learner's newest.
    pub(super) fn name(&mut self, now: UnixMillis, named: &[(PublicKey, NeighbourRole)]) {
        self.edges.values_mut().for_each(|edge| edge.named = false);
        for (peer, role) in named.iter().take(MAX_NEIGHBOURS) {
            let edge = self.edges.entry(*peer).or_insert_with(|| NeighbourState::new(*role, now));
            (edge.named, edge.role) = (true, *role);
            let (failures, faults) = self.failed.remove(peer).unwrap_or_default();
            (edge.failures, edge.faults) = (edge.failures.max(failures), edge.faults.max(faults));
        }
    }

    /// Forgets those that are named no more and have delivered what they were asked for, and says
    /// whose stream must be closed.
    pub(super) fn retire(&mut self) -> Vec<PublicKey> {
        let gone = self.edges.extract_if(.., |_, edge| !edge.named && edge.asked.is_empty());
        let mut open = Vec::new();
        for (peer, edge) in gone {
            if edge.failures > 0 {
                self.failed.insert(peer, (edge.failures, edge.faults));
            }
            if !matches!(edge.link, StreamState::Closed { .. }) {
                open.push(peer);
            }
        }
        while self.failed.len() > MAX_NEIGHBOURS {
            self.failed.pop_first();
        }
        open
    }

    /// Named neighbours that failed by their own fault and are not back.
    pub(super) fn missed(&self) -> impl Iterator<Item = PublicKey> {
        let missed = |edge: &NeighbourState| edge.faults > 0 && !edge.is_open() && edge.named;
        self.edges.iter().filter(move |(_, edge)| missed(edge)).map(|(peer, _)| *peer)
    }

    /// Those that failed by their own fault and were named no more since.
    pub(super) fn failed_before(&self) -> impl Iterator<Item = PublicKey> {
        self.failed.iter().filter(|(_, (_, faults))| *faults > 0).map(|(peer, _)| *peer)
    }

    /// Blocks that are asked of any neighbour and not yet here.
    pub(super) fn under_way(&self) -> u64 {
        self.edges.values().map(|edge| edge.asked.len() as u64).sum()
    }

    /// Bytes per second of all that are open.
    pub(super) fn rate(&self) -> u64 {
        self.edges.values().filter(|edge| edge.is_open()).filter_map(|edge| edge.pace.rate()).sum()
    }

    /// Blocks that may be asked of all together: a slow downlink shared by many must not queue for a minute.
    pub(super) fn budget(&self) -> u64 {
        let paced = self.rate().saturating_mul(BUDGET_MS) / 1000 / BLOCK_BYTES as u64;
        paced.max(START_BUDGET).saturating_sub(self.under_way())
    }

    /// Milliseconds until all that is under way has come, at the joint rate; none before any rate is known.
    pub(super) fn drain_ms(&self) -> Option<u64> {
        self.due_ms(self.under_way() * BLOCK_BYTES as u64)
    }

    /// Milliseconds that so many bytes take at the joint rate; none before any rate is known.
    pub(super) fn due_ms(&self, bytes: u64) -> Option<u64> {
        bytes.saturating_mul(1000).checked_div(self.rate())
    }

    /// Milliseconds for which any neighbour may be silent. All share one downlink: each may have to
    /// wait until what all were asked for has come in.
    pub(super) fn patience_ms(&self) -> u64 {
        STALL_MS.max(2 * self.drain_ms().unwrap_or(0))
    }

    /// Keeps every `ready` true after the open blocks of a piece have changed.
    pub(super) fn refresh(&mut self, piece: PieceIndex, open: BlockMask) {
        self.edges.values_mut().for_each(|edge| edge.refresh(piece, open));
    }

    /// Whether any that is used as parent is open or about to be.
    pub(super) fn has_parent(&self) -> bool {
        let here = |edge: &NeighbourState| !matches!(edge.link, StreamState::Closed { .. });
        self.edges.values().any(|edge| edge.named && edge.role == NeighbourRole::Parent && here(edge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_slowness_nor_failures_earn_a_neighbour_patience_for_ever() {
        let mut edge = NeighbourState::new(NeighbourRole::Mesh, UnixMillis(0));
        let until = |edge: &NeighbourState, patience| edge.silent_until(patience).0;
        assert_eq!(until(&edge, STALL_MS), FIRST_MS, "nothing is known of it");
        // A block in three seconds, then one in twenty.
        edge.pace.arrived(UnixMillis(3_000), BLOCK_BYTES as u64, UnixMillis(0), 0);
        assert_eq!(until(&edge, STALL_MS), 6_000);
        let mut drip = NeighbourState::new(NeighbourRole::Mesh, UnixMillis(0));
        drip.pace.arrived(UnixMillis(20_000), BLOCK_BYTES as u64, UnixMillis(0), 0);
        assert_eq!(until(&drip, STALL_MS), SLOWEST_MS);
        drip.failures = 9;
        assert_eq!(until(&drip, STALL_MS), MAX_FAILED_MS);
        // A downlink that all share may be slower than that.
        assert_eq!(until(&drip, 45_000), 45_000);
        assert_eq!(until(&drip, 90_000), MAX_STALL_MS);
    }
}
