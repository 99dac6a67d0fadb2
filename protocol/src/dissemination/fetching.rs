//! The pulling half: streams to neighbours, what is asked of them, and who counts as lost.
//!
//! `Dissemination::pick` decides which block is asked of which neighbour.

use super::block_picker::{lowest, rarest};
use super::neighbours::{MAX_NEIGHBOURS, NeighbourState, RequestedBlock, StreamState};
use super::repair::RETRY_REPAIR_MS;
use super::{Dissemination, DisseminationMode, NeighbourRole, Output};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::Holdings;
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Failures in a row after which a neighbour that refuses counts as lost.
const REFUSALS_BORNE: u32 = 2;
/// Nothing under way for this time, while something is missing, is worth a question.
const STARVED_MS: u64 = 2_000;

impl Dissemination {
    pub(super) fn named(&mut self, now: UnixMillis, named: Vec<(PublicKey, NeighbourRole)>) {
        let (rotten, sound): (Vec<_>, Vec<_>) = named
            .into_iter()
            .filter(|(peer, _)| *peer != self.config.me)
            .partition(|(peer, _)| self.rotten.contains(peer));
        self.questions.rotten = rotten.into_iter().map(|(peer, _)| peer).collect();
        self.neighbours.name(now, &sound);
        self.fetch(now);
    }

    pub(super) fn opened(&mut self, now: UnixMillis, peer: PublicKey) {
        if let Some(edge) = self.neighbours.edges.get_mut(&peer)
            && matches!(edge.link, StreamState::Opening { .. })
        {
            (edge.link, edge.heard) = (StreamState::Open, now);
            self.fetch(now);
        }
    }

    pub(super) fn has(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        version: PolicyVersion,
        news: &[(PieceIndex, BlockMask)],
    ) {
        let Some(transfer) = self.versions.get(&version).filter(|_| self.current == Some(version)) else {
            return;
        };
        let Some(edge) = self.neighbours.edges.get_mut(&peer).filter(|edge| edge.is_open()) else { return };
        for (piece, blocks) in news {
            edge.holds.insert(*piece, blocks.intersect(transfer.all(*piece)));
            edge.refresh(*piece, transfer.open().get(*piece));
        }
        self.fetch(now);
    }

    pub(super) fn stored(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        version: PolicyVersion,
        piece: PieceIndex,
        block: u32,
    ) {
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        let bytes = transfer.block_bytes(piece, block);
        let new = !transfer.store(piece, BlockMask::of([block])).is_empty();
        self.untold |= new;
        let current = self.current == Some(version);
        let mut belated = false;
        if let Some(edge) = self.neighbours.edges.get_mut(&peer).filter(|_| current) {
            if let Some(asked) = edge.answered(piece, block) {
                edge.pace.arrived(now, bytes, asked.at, asked.before);
                (edge.heard, edge.failures, edge.faults) = (now, 0, 0);
            } else {
                belated = edge.is_belated(now, piece, block);
            }
        }
        if current {
            self.neighbours.ahead.came(bytes);
        }
        self.neighbours.count(&peer, |totals| match new {
            true => (totals.blocks, totals.bytes) = (totals.blocks + 1, totals.bytes + bytes),
            false => {
                (totals.duplicates, totals.belated) =
                    (totals.duplicates + 1, totals.belated + u64::from(belated));
            }
        });
        if current {
            self.settle(now, version, piece, BlockMask::of([block]));
            self.check_complete(now);
            self.fetch(now);
        }
    }

    /// Takes back what others were asked for of these blocks, which are stored now.
    pub(super) fn settle(
        &mut self,
        now: UnixMillis,
        version: PolicyVersion,
        piece: PieceIndex,
        blocks: BlockMask,
    ) {
        let open = self.versions.get(&version).map(|t| t.open().get(piece)).unwrap_or_default();
        self.neighbours.refresh(piece, open);
        let asked_of = |edge: &NeighbourState| -> BlockMask {
            let of_piece = edge.asked.iter().filter(|a| a.piece == piece && blocks.contains(a.block));
            BlockMask::of(of_piece.map(|a| a.block))
        };
        let late: Vec<(PublicKey, BlockMask)> =
            self.neighbours.edges.iter().map(|(peer, edge)| (*peer, asked_of(edge))).collect();
        for (peer, blocks) in late {
            blocks.iter().for_each(|block| self.cancel(now, peer, version, piece, block));
        }
    }

    pub(super) fn refused(&mut self, now: UnixMillis, peer: PublicKey, version: PolicyVersion) {
        if self.current != Some(version) {
            return;
        }
        // All its places may be taken, which is nobody's fault; but one that only refuses is of no use.
        let again = self.neighbours.edges.get(&peer).is_some_and(|edge| edge.failures >= REFUSALS_BORNE);
        self.fail(now, peer, again);
        if self.neighbours.edges.values().all(|edge| matches!(edge.link, StreamState::Closed { .. })) {
            self.outputs.push_back(Output::Refused(version));
        }
        self.fetch(now);
    }

    pub(super) fn lost(&mut self, now: UnixMillis, peer: PublicKey) {
        self.fail(now, peer, true);
        self.fetch(now);
    }

    pub(super) fn gave_up(&mut self, now: UnixMillis, peer: PublicKey) {
        self.fail(now, peer, false);
        self.fetch(now);
    }

    pub(super) fn drop_rotten(&mut self, now: UnixMillis, peer: PublicKey) {
        if let Some(edge) = self.neighbours.edges.remove(&peer) {
            self.release(edge.asked);
            // The learner is told of it with the next question.
            self.questions.rotten.insert(peer);
        }
        self.fetch(now);
    }

    /// Does all that can be done now: closes, opens, asks neighbours for blocks and
    /// the learner for neighbours.
    pub(super) fn fetch(&mut self, now: UnixMillis) {
        let retired = self.neighbours.retire();
        self.outputs.extend(retired.into_iter().map(Output::Close));
        if let Some(version) = self.current {
            self.connect(now, version);
            self.refill(now, version);
            self.question(now);
        }
    }

    /// Closes every stream: the version is complete or given up.
    pub(super) fn close_all(&mut self, now: UnixMillis) {
        for (peer, edge) in &mut self.neighbours.edges {
            if !matches!(edge.link, StreamState::Closed { .. }) {
                self.outputs.push_back(Output::Close(*peer));
                edge.closed(now);
            }
        }
        self.neighbours.retire();
        self.questions.settled();
        self.repair_at = None;
    }

    /// Asks a neighbour for open blocks.
    pub(super) fn request(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        version: PolicyVersion,
        piece: PieceIndex,
        blocks: BlockMask,
    ) {
        let (Some(transfer), Some(edge)) =
            (self.versions.get_mut(&version), self.neighbours.edges.get_mut(&peer))
        else {
            return;
        };
        if edge.asked.is_empty() {
            edge.heard = now;
        }
        edge.pace.starved(now, edge.asked.len());
        let before = edge.pace.delivered();
        edge.asked.extend(blocks.iter().map(|block| RequestedBlock { piece, block, at: now, before }));
        transfer.ask(piece, blocks);
        let open = transfer.open().get(piece);
        self.neighbours.refresh(piece, open);
        self.outputs.push_back(Output::Request { peer, version, piece, blocks });
    }

    pub(super) fn fetch_timeout(&self) -> Option<UnixMillis> {
        self.current?;
        let patience = self.neighbours.patience_ms();
        let edges = self.neighbours.edges.values().filter_map(|edge| match edge.link {
            StreamState::Closed { again_at } => edge.is_used(self.config.mode).then_some(again_at),
            StreamState::Opening { until } => Some(until),
            StreamState::Open => (!edge.asked.is_empty()).then(|| edge.silent_until(patience)),
        });
        edges.chain(self.question_at()).chain(self.repair_at).min()
    }

    pub(super) fn fetch_timed_out(&mut self, now: UnixMillis) {
        let patience = self.neighbours.patience_ms();
        let late = |edge: &NeighbourState| match edge.link {
            StreamState::Closed { .. } => false,
            StreamState::Opening { until } => now >= until,
            StreamState::Open => !edge.asked.is_empty() && now >= edge.silent_until(patience),
        };
        let edges = self.neighbours.edges.iter();
        let late: Vec<PublicKey> = edges.filter(|(_, edge)| late(edge)).map(|(peer, _)| *peer).collect();
        for peer in late {
            self.outputs.push_back(Output::Close(peer));
            self.fail(now, peer, true);
        }
        self.fetch(now);
    }

    /// The stream to this neighbour is no more: what it was asked for is free at once. `fault` says
    /// whether that speaks against it.
    fn fail(&mut self, now: UnixMillis, peer: PublicKey, fault: bool) {
        let Some(edge) = self.neighbours.edges.get_mut(&peer) else { return };
        if matches!(edge.link, StreamState::Closed { .. }) {
            return;
        }
        let again_at = edge.failed(now, fault);
        let asked = edge.closed(again_at);
        self.neighbours.count(&peer, |totals| totals.failures += u64::from(fault));
        self.release(asked);
    }

    fn release(&mut self, asked: VecDeque<RequestedBlock>) {
        let Some(transfer) = self.current.and_then(|v| self.versions.get_mut(&v)) else { return };
        for RequestedBlock { piece, block, .. } in asked {
            transfer.release(piece, BlockMask::of([block]));
            self.neighbours.refresh(piece, transfer.open().get(piece));
        }
    }

    /// Opens streams whose time has come.
    fn connect(&mut self, now: UnixMillis, version: PolicyVersion) {
        for (peer, edge) in &mut self.neighbours.edges {
            if matches!(edge.link, StreamState::Closed { again_at } if now >= again_at)
                && edge.is_used(self.config.mode)
            {
                edge.opening(now);
                self.outputs.push_back(Output::Open { peer: *peer, version });
            }
        }
    }

    /// Fills the windows of all neighbours.
    fn refill(&mut self, now: UnixMillis, version: PolicyVersion) {
        self.repair_at = None;
        let ahead = self.neighbours.ahead.ms();
        let in_charge = self.neighbours.has_parent();
        let mode = self.config.mode;
        let may_ask = |edge: &NeighbourState| {
            let relieved =
                mode == DisseminationMode::Chain && edge.role == NeighbourRole::Standby && in_charge;
            edge.is_open() && edge.is_used(mode) && !relieved
        };
        let edges = self.neighbours.edges.iter().filter(|(_, edge)| may_ask(edge) && edge.room(ahead) > 0);
        let peers: Vec<PublicKey> = edges.map(|(peer, _)| *peer).collect();
        // Rates stay as they are meanwhile, and what is repaired is under way already.
        let mut budget = self.neighbours.budget();
        let end_ms = self.versions.get(&version).and_then(|t| self.neighbours.due_ms(t.missing_bytes()));
        for peer in peers {
            while let Some((piece, blocks)) = self.pick(&peer, version, budget, end_ms) {
                self.request(now, peer, version, piece, blocks);
                budget -= u64::from(blocks.len());
            }
            self.repair_by(now, peer, budget);
        }
        let waits = |edge: &NeighbourState| may_ask(edge) && !edge.ready.is_empty();
        self.neighbours.ahead.look(now, || budget > 0 && self.neighbours.edges.values().any(waits));
    }

    /// What to ask of this neighbour next, if it has room and anything of use: at most `budget`
    /// blocks. All that is missing takes `end_ms` at the rate of all neighbours together.
    fn pick(
        &mut self,
        peer: &PublicKey,
        version: PolicyVersion,
        budget: u64,
        end_ms: Option<u64>,
    ) -> Option<(PieceIndex, BlockMask)> {
        let ahead = self.neighbours.ahead.ms();
        let edge = self.neighbours.edges.get(peer)?;
        if edge.ready.is_empty() || edge.room(ahead) == 0 {
            return None;
        }
        let room = u64::from(edge.room(ahead)).min(budget) as u32;
        if room == 0 {
            return None;
        }
        let transfer = self.versions.get(&version)?;
        if self.config.mode != DisseminationMode::Echo {
            return lowest(edge, transfer.open(), room);
        }
        // Towards the end nobody is asked for more than it can deliver until then: who is faster
        // comes back for the rest.
        let room = end_ms.map_or(room, |end_ms| room.min(edge.room_until(end_ms)));
        if room == 0 {
            return None;
        }
        let others = self.neighbours.edges.iter().filter(|(other, edge)| *other != peer && edge.is_open());
        let others: Vec<&Holdings> = others.map(|(_, edge)| &edge.holds).collect();
        rarest(edge, &others, transfer.open(), transfer.pieces(), room, &mut self.draws)
    }

    /// Lets a neighbour that has room and nothing left to ask help out where others are slow.
    fn repair_by(&mut self, now: UnixMillis, peer: PublicKey, budget: u64) {
        let ahead = self.neighbours.ahead.ms();
        loop {
            let Some(edge) = self.neighbours.edges.get_mut(&peer) else { return };
            if edge.room(ahead) == 0 || !edge.ready.is_empty() {
                return;
            }
            edge.pace.starved(now, edge.asked.len());
            if self.config.mode != DisseminationMode::Echo {
                return;
            }
            if now >= edge.repair_at {
                if budget > 0 && self.repair(now, peer) {
                    continue;
                }
                if let Some(edge) = self.neighbours.edges.get_mut(&peer) {
                    edge.repair_at = now.plus(RETRY_REPAIR_MS);
                }
            }
            if self.neighbours.under_way() > 0 {
                let at = now.plus(RETRY_REPAIR_MS);
                self.repair_at = Some(self.repair_at.map_or(at, |earlier| earlier.min(at)));
            }
            return;
        }
    }

    /// Whom the learner should name no more: those that failed, also earlier ones, and rotten ones.
    fn useless(&self) -> BTreeSet<PublicKey> {
        let rotten = self.questions.rotten.iter().copied();
        let all = rotten.chain(self.neighbours.missed()).chain(self.neighbours.failed_before());
        all.take(MAX_NEIGHBOURS).collect()
    }

    /// Since when nothing is under way, as the latest instant at which anything was heard.
    fn starved_since(&self) -> Option<UnixMillis> {
        if self.neighbours.under_way() > 0 {
            return None;
        }
        Some(self.neighbours.edges.values().map(|edge| edge.heard).max().unwrap_or_default())
    }

    /// When the learner has to be asked for neighbours, if it has.
    fn question_at(&self) -> Option<UnixMillis> {
        self.current?;
        let due = self.questions.due(&self.useless());
        let missed = self.neighbours.missed().next().is_some() || !self.questions.rotten.is_empty();
        let used = |edge: &NeighbourState| {
            edge.is_used(self.config.mode) && !matches!(edge.link, StreamState::Closed { .. })
        };
        if missed || !self.neighbours.edges.values().any(used) {
            return Some(due);
        }
        self.starved_since().map(|since| due.max(since.plus(STARVED_MS)))
    }

    fn question(&mut self, now: UnixMillis) {
        match self.question_at() {
            Some(at) if now >= at => {
                let lost = self.useless();
                self.outputs.push_back(Output::AskNeighbours { lost: lost.iter().copied().collect() });
                self.questions.rotten.clear();
                self.questions.put(now, lost);
            }
            Some(_) => {}
            None => self.questions.settled(),
        }
    }
}

/// Puts what neighbours were asked for back on record after the wish was made anew.
pub(super) fn asked_again(edges: &BTreeMap<PublicKey, NeighbourState>) -> Vec<(PieceIndex, BlockMask)> {
    edges.values().flat_map(|edge| &edge.asked).map(|a| (a.piece, BlockMask::of([a.block]))).collect()
}

#[cfg(test)]
mod tests;
