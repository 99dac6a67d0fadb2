//! Repair: asking a faster neighbour for a block that a slower one was asked for.

use super::neighbours::NeighbourState;
use super::request_window::QUEUE_MS;
use super::{Dissemination, MAX_SERVED, Output};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;

/// How much later a block must be expected, in halves: in general, near the end, and when nothing
/// is left to ask of anybody.
const LATER: [u64; 3] = [20, 6, 3];
/// Near the end: this part of the wish is missing.
const NEAR_END: u64 = 20;
/// Milliseconds by which a block must be late besides. What was asked of a steady neighbour comes
/// within this time: it is on its way, and would come twice.
const MARGIN_MS: u64 = QUEUE_MS;
/// A block that was taken back this much later than it should have left had not left yet, in milliseconds.
const LEFT_MS: u64 = 30;
/// Pause after an attempt that found nothing.
pub(super) const RETRY_REPAIR_MS: u64 = 20;
/// One block in so many may come twice before only silent neighbours are relieved of blocks.
const DUPLICATES_ALLOWED: u64 = 100;
/// A neighbour that delivered nothing for this time is relieved in any case.
const SILENT_MS: u64 = 1_000;
/// So is one that is this late, if the helper is [`MUCH_LATER`] times as fast.
const LATE_MS: u64 = 2_000;
/// How many times as fast the helper must be, see [`LATE_MS`].
const MUCH_LATER: u64 = 10;
/// Cancelled blocks that are remembered of a neighbour.
const MAX_CANCELLED: usize = 256;

impl Dissemination {
    /// Asks `helper`, of which nothing is left to ask, for a block of a slower one. False when no other
    /// neighbour is slow enough.
    pub(super) fn repair(&mut self, now: UnixMillis, helper: PublicKey) -> bool {
        let Some((version, transfer)) = self.current.and_then(|v| self.versions.get_key_value(&v)) else {
            return false;
        };
        let Some(fast) = self.neighbours.edges.get(&helper) else { return false };
        let Some(soon) = arrival(fast, 1) else { return false };
        let later = if transfer.open_blocks() == 0 {
            LATER[2]
        } else if transfer.missing_bytes() * NEAR_END <= transfer.wanted_bytes() {
            LATER[1]
        } else {
            LATER[0]
        };
        // What will be here as soon as everything could be at the joint rate is not late: the
        // downlink is what limits.
        let soon = soon.max(self.neighbours.drain_ms().unwrap_or(0));
        let stats = self.neighbours.totals();
        let wasteful = (stats.duplicates - stats.belated) * DUPLICATES_ALLOWED > stats.blocks;
        let slowest = self
            .neighbours
            .edges
            .iter()
            .filter(|(key, edge)| **key != helper && edge.is_open())
            .filter_map(|(key, edge)| {
                let late = lateness(edge, now)?;
                let hopeless = now.since(edge.heard) >= SILENT_MS || late > LATE_MS.max(soon * MUCH_LATER);
                if wasteful && !hopeless {
                    return None;
                }
                let repairable =
                    late * 2 >= soon * later && late >= soon + edge.pace.latency_ms() / 2 + MARGIN_MS;
                let newest = edge.asked.iter().rev().find(|a| fast.holds.get(a.piece).contains(a.block))?;
                repairable.then_some((late, *key, newest.piece, newest.block))
            })
            .max();
        let Some((_, slow, piece, block)) = slowest else { return false };
        let version = *version;
        self.cancel(now, slow, version, piece, block);
        self.neighbours.count(&helper, |totals| totals.repairs += 1);
        self.request(now, helper, version, piece, BlockMask::of([block]));
        true
    }

    /// Takes a block back from a neighbour that was asked for it. It is not open: another has
    /// it or delivers it.
    pub(super) fn cancel(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        version: PolicyVersion,
        piece: PieceIndex,
        block: u32,
    ) {
        if let Some(edge) = self.neighbours.edges.get_mut(&peer)
            && edge.answered(piece, block).is_some()
        {
            edge.cancelled.push_back((piece, block, now));
            if edge.cancelled.len() > MAX_CANCELLED {
                edge.cancelled.pop_front();
            }
            let blocks = BlockMask::of([block]);
            self.outputs.push_back(Output::Cancel { peer, version, piece, blocks });
        }
    }
}

impl NeighbourState {
    /// Whether a block that came now was cancelled so long ago that it had not left yet.
    pub(super) fn is_belated(&mut self, now: UnixMillis, piece: PieceIndex, block: u32) -> bool {
        let Some(at) = self.cancelled.iter().position(|(of, g, _)| (*of, *g) == (piece, block)) else {
            return false;
        };
        let leaving = MAX_SERVED as u64 * self.pace.block_ms().unwrap_or(0);
        let cancelled = self.cancelled.remove(at).map(|(_, _, at)| at);
        cancelled.is_some_and(|at| now.since(at) > self.pace.latency_ms() + leaving + LEFT_MS)
    }
}

/// Milliseconds until `more` blocks beyond those asked have come; none before anything is known.
fn arrival(edge: &NeighbourState, more: u64) -> Option<u64> {
    Some((edge.asked.len() as u64 + more) * edge.pace.block_ms()? + edge.pace.latency_ms())
}

/// Milliseconds until the last of what this neighbour was asked for should have come.
fn lateness(edge: &NeighbourState, now: UnixMillis) -> Option<u64> {
    edge.asked.front()?;
    let silent = now.since(edge.heard);
    let Some(block_ms) = edge.pace.block_ms() else { return Some(silent) };
    Some(edge.asked.len() as u64 * block_ms + silent.saturating_sub(block_ms))
}

#[cfg(test)]
mod tests;
