//! Faults, and peers that do not keep to the protocol.

use super::{PeerKind, SimulationEvent, World};
use crate::dissemination::Input;
use crate::dissemination::simulation::faults::FAULTS_UNTIL;
use crate::dissemination::simulation::links::{Control, SimulatedFrame};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::{BlockMask, block_count};
use crate::snapshot::manifest::PieceIndex;

/// How often a peer that talks nonsense does so, in microseconds.
const NONSENSE_EVERY: u64 = 150_000;

impl World {
    pub(super) fn publish(&mut self, version: usize) -> Result<(), String> {
        self.pending -= 1;
        self.published = self.published.max(version);
        let manifest = self.manifests[version - 1].clone();
        let all = |i: u32| {
            let length = manifest.piece(PieceIndex(i)).map_or(0, |p| p.length);
            (PieceIndex(i), BlockMask::all(block_count(length)))
        };
        self.nodes[0].disk.insert(manifest.version, (0..manifest.pieces()).map(all).collect());
        self.handle(0, Input::Published(manifest))?;
        for node in 1..self.nodes.len() {
            // Gossip brings it to each at another time.
            let at = self.now + self.travel(0, node);
            self.announce_at(at, node, version);
        }
        Ok(())
    }

    pub(super) fn crash(&mut self, node: usize, loud: bool) -> Result<(), String> {
        self.pending -= 1;
        if self.nodes[node].machine.take().is_none() {
            return Ok(());
        }
        let crashed = &mut self.nodes[node];
        crashed.epoch += 1;
        crashed.uplink_busy = false;
        crashed.timer = None;
        crashed.waiting = None;
        crashed.watch = Default::default();
        let streams: Vec<u64> = crashed.pulling.values().chain(crashed.serving.values()).copied().collect();
        crashed.pulling.clear();
        crashed.serving.clear();
        for serial in streams {
            if loud {
                self.end(serial, Some(node))?;
            }
        }
        Ok(())
    }

    pub(super) fn restart(&mut self, node: usize) -> Result<(), String> {
        self.pending -= 1;
        if self.nodes[node].machine.is_some() || self.nodes[node].kind != PeerKind::Honest {
            return Ok(());
        }
        // Those who did not hear of the crash hear of it now: the new process does not know their streams.
        let theirs = |puller: usize, server: usize| puller == node || server == node;
        let streams: Vec<u64> =
            self.streams.iter().filter(|(_, s)| theirs(s.puller, s.server)).map(|(at, _)| *at).collect();
        for serial in streams {
            self.end(serial, Some(node))?;
        }
        self.start(node);
        if self.published > 0 {
            self.announce_at(self.now + 1_000, node, self.published);
        }
        Ok(())
    }

    pub(super) fn reset(&mut self, draw: u64) -> Result<(), String> {
        self.pending -= 1;
        let serial = self.streams.keys().nth((draw % (self.streams.len().max(1) as u64)) as usize).copied();
        serial.map_or(Ok(()), |serial| self.end(serial, None))
    }

    pub(super) fn damage(&mut self, node: usize, draw: u64) -> Result<(), String> {
        self.pending -= 1;
        if self.nodes[node].machine.is_none() {
            return Ok(());
        }
        let Some((version, disk)) = self.nodes[node].disk.last_entry().map(|e| (*e.key(), e.into_mut()))
        else {
            return Ok(());
        };
        let pieces: Vec<PieceIndex> = disk.iter().map(|(piece, _)| piece).collect();
        let Some(piece) = pieces.get(draw as usize % pieces.len().max(1)).copied() else { return Ok(()) };
        disk.remove(piece, BlockMask(u64::MAX));
        // A chunk that is gone is built from its delta no more.
        self.nodes[node].unapplied.insert(version);
        self.handle(node, Input::Damaged { version, piece })
    }

    /// What a liar says when somebody comes to pull.
    pub(super) fn claim(&mut self, liar: usize, serial: u64, version: PolicyVersion) {
        let pieces = self.manifests.iter().find(|m| m.version == version).map_or(0, |m| m.pieces());
        let first = if self.nodes[liar].kind == PeerKind::Nonsense { pieces } else { 0 };
        let news = (first..pieces + 2).map(|i| (PieceIndex(i), BlockMask(u64::MAX))).collect();
        self.push(liar, serial, SimulatedFrame::Tell(news));
    }

    /// What a liar sends when it is asked.
    pub(super) fn answer_falsely(&mut self, liar: usize, serial: u64, piece: PieceIndex, blocks: BlockMask) {
        if self.nodes[liar].kind == PeerKind::Rotten {
            for block in blocks.iter() {
                let rotten = self.draws.below(2) == 0;
                let version = self.streams.get(&serial).map_or(PolicyVersion(0), |stream| stream.version);
                let bytes = self.block_bytes(version, piece, block);
                self.push(liar, serial, SimulatedFrame::Block { piece, block, bytes, rotten });
            }
        }
    }

    /// Comes to somebody and asks for what is not there, too much of it, and what it did not want.
    pub(super) fn talk_nonsense(&mut self, liar: usize) {
        if self.now < FAULTS_UNTIL {
            self.at(self.now + NONSENSE_EVERY, SimulationEvent::Nonsense { node: liar });
        }
        let victim = self.draws.below(self.nodes.len() as u64) as usize;
        let version = PolicyVersion(self.draws.below(self.manifests.len() as u64 + 2));
        if victim == liar {
            return;
        }
        let serial = match self.nodes[liar].pulling.get(&victim) {
            Some(serial) if self.draws.below(3) > 0 => *serial,
            _ => self.open_stream(liar, victim, version),
        };
        for _ in 0..self.draws.below(8) {
            let piece =
                PieceIndex(if self.draws.below(8) == 0 { u32::MAX } else { self.draws.below(40) as u32 });
            let blocks = BlockMask(self.draws.next_u64() >> self.draws.below(64));
            let ask = self.draws.below(4) > 0;
            let control = if ask { Control::Ask(piece, blocks) } else { Control::Cancel(piece, blocks) };
            self.send_control(serial, control);
        }
    }
}
