//! Doing what machines say: streams, frames, and what arrives.

use super::{PeerKind, SimulatedNode, SimulationEvent, World};
use crate::dissemination::simulation::links::{Control, SimulatedFrame, SimulatedStream};
use crate::dissemination::{Dissemination, Input, Output};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::{BlockMask, block_count};
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::Holdings;
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use std::hash::Hash;

impl World {
    /// Does what a machine says until it says nothing more, and sets its timer.
    pub(super) fn obey(&mut self, node: usize) -> Result<(), String> {
        while let Some(output) = self.nodes[node].machine.as_mut().and_then(Dissemination::poll_output) {
            (self.now, node, &output).hash(&mut self.trace);
            self.check(node, &output)
                .map_err(|what| format!("at {} ms peer {node} {what}: {output:?}", self.millis()))?;
            self.act(node, output)?;
        }
        let timeout = self.nodes[node].machine.as_ref().and_then(Dissemination::poll_timeout);
        let start = self.time().0 - self.millis();
        let timer = timeout.map(|at| (at.0.saturating_sub(start) * 1000).max(self.now));
        if timer != self.nodes[node].timer {
            self.nodes[node].timer = timer;
            if let Some(at) = timer {
                self.at(at, SimulationEvent::Timer { node });
            }
        }
        Ok(())
    }

    fn check(&mut self, node: usize, output: &Output) -> Result<(), String> {
        let version = match output {
            Output::Request { version, .. }
            | Output::Tell { version, .. }
            | Output::Serve { version, .. } => Some(*version),
            Output::Complete(version) => {
                self.completions += 1;
                return match self.lacks(node, *version) {
                    Some(piece) => Err(format!("is not complete: {piece:?} is not here")),
                    None => Ok(()),
                };
            }
            _ => None,
        };
        let SimulatedNode { watch, disk, .. } = &mut self.nodes[node];
        let none = Holdings::default();
        watch.check(output, version.and_then(|v| disk.get(&v)).unwrap_or(&none))
    }

    /// A piece of which neither it nor, as a chunk, its delta is on the disk.
    fn lacks(&self, node: usize, version: PolicyVersion) -> Option<PieceIndex> {
        let manifest = self.manifests.iter().find(|m| m.version == version)?;
        let none = Holdings::default();
        let disk = self.nodes[node].disk.get(&version).unwrap_or(&none);
        let whole = |piece: PieceIndex| {
            let length = manifest.piece(piece).map(|p| p.length);
            length.is_some_and(|l| BlockMask::all(block_count(l)).minus(disk.get(piece)).is_empty())
        };
        let chunks = manifest.chunks.len() as u32;
        (0..chunks).map(PieceIndex).find(|p| !whole(*p) && !whole(PieceIndex(p.0 + chunks)))
    }

    fn act(&mut self, node: usize, output: Output) -> Result<(), String> {
        match output {
            Output::Open { peer, version } => self.open(node, &peer, version),
            Output::Close(peer) => self.close(node, &peer),
            Output::Request { peer, piece, blocks, .. } => {
                self.control(node, &peer, Control::Ask(piece, blocks));
            }
            Output::Cancel { peer, piece, blocks, .. } => {
                self.control(node, &peer, Control::Cancel(piece, blocks));
            }
            Output::Tell { peer, news, .. } => self.send(node, &peer, SimulatedFrame::Tell(news)),
            Output::Serve { peer, version, piece, block } => {
                let bytes = self.block_bytes(version, piece, block);
                self.send(node, &peer, SimulatedFrame::Block { piece, block, bytes, rotten: false });
            }
            Output::Refuse { peer, .. } => self.refuse(node, &peer),
            Output::Complete(version) => {
                self.build(node, version);
                self.go_on(node);
            }
            Output::Refused(_) => self.go_on(node),
            Output::Discard(version) => {
                self.nodes[node].disk.remove(&version);
            }
            Output::CutOff(peer) => {
                let peer = self.peer(&peer);
                self.nodes[node].blocked.insert(peer);
                let between = |s: &SimulatedStream| (s.puller.min(s.server), s.puller.max(s.server));
                let theirs = (node.min(peer), node.max(peer));
                let gone: Vec<u64> =
                    self.streams.iter().filter(|(_, s)| between(s) == theirs).map(|(at, _)| *at).collect();
                for serial in gone {
                    self.end(serial, Some(node))?;
                }
            }
            Output::AskNeighbours { lost } => {
                let lost = lost.iter().map(|peer| self.peer(peer)).collect();
                let at = self.now + 2 * self.travel(node, 0);
                self.at(at, SimulationEvent::Learner { node, lost });
            }
        }
        Ok(())
    }

    pub(super) fn block_bytes(&self, version: PolicyVersion, piece: PieceIndex, block: u32) -> u64 {
        let manifest = self.manifests.iter().find(|m| m.version == version);
        let length = manifest.and_then(|m| m.piece(piece)).map_or(0, |p| p.length);
        let range = crate::snapshot::blocks::block_range(length, block);
        range.end - range.start
    }

    /// Builds chunks from deltas, or finds that they do not apply.
    fn build(&mut self, node: usize, version: PolicyVersion) {
        let Some(manifest) = self.manifests.iter().find(|m| m.version == version).cloned() else { return };
        let chunks = manifest.chunks.len() as u32;
        let disk = self.nodes[node].disk.entry(version).or_default();
        let lacking = |i: &u32| disk.get(PieceIndex(*i)) != disk.get(PieceIndex(*i)).union(BlockMask(1));
        let lacking: Vec<u32> = (0..chunks).filter(lacking).collect();
        let epoch = self.nodes[node].epoch;
        if !lacking.is_empty() && self.draws.below(4) == 0 && self.nodes[node].unapplied.insert(version) {
            let input = Box::new(Input::Wanted { version, pieces: (0..chunks).map(PieceIndex).collect() });
            self.at(self.now + 2_000, SimulationEvent::Input { node, epoch, input });
            return;
        }
        for (order, chunk) in lacking.into_iter().enumerate() {
            let input = Box::new(Input::Gained { version, piece: PieceIndex(chunk) });
            self.at(self.now + 1_000 * (order as u64 + 1), SimulationEvent::Input { node, epoch, input });
        }
    }

    /// Puts a piece that was built on the disk.
    pub(super) fn gain(&mut self, node: usize, input: &Input) {
        if let Input::Gained { version, piece } = input {
            let blocks = self.nodes[0].disk.get(version).map(|disk| disk.get(*piece)).unwrap_or_default();
            if self.nodes[node].machine.as_ref().is_some_and(|machine| machine.manifest(*version).is_some()) {
                self.nodes[node].disk.entry(*version).or_default().insert(*piece, blocks);
                self.completions += 1;
            }
        }
    }

    fn open(&mut self, node: usize, peer: &PublicKey, version: PolicyVersion) {
        let server = self.peer(peer);
        self.open_stream(node, server, version);
    }

    pub(super) fn open_stream(&mut self, node: usize, server: usize, version: PolicyVersion) -> u64 {
        self.serial += 1;
        let serial = self.serial;
        self.streams.insert(serial, SimulatedStream::new(node, server, version));
        self.nodes[node].pulling.insert(server, serial);
        let at = self.now + self.travel(node, server);
        self.at(at, SimulationEvent::Open { serial });
        serial
    }

    pub(super) fn open_arrived(&mut self, serial: u64) -> Result<(), String> {
        let Some(SimulatedStream { puller, server, version, .. }) = self.streams.get(&serial) else {
            return Ok(());
        };
        let (puller, server, version) = (*puller, *server, *version);
        let at = self.now + self.travel(server, puller);
        let blocked = self.nodes[server].blocked.contains(&puller);
        if !self.is_alive(server) || blocked {
            // Half of the dead say so, as if their computer refused.
            if blocked || self.draws.below(2) == 0 {
                self.at(at, SimulationEvent::Ended { serial });
            }
            return Ok(());
        }
        if let Some(stream) = self.streams.get_mut(&serial) {
            (stream.server_open, stream.last_down) = (true, at);
        }
        self.nodes[server].serving.insert(puller, serial);
        self.at(at, SimulationEvent::Opened { serial });
        if self.nodes[server].kind != PeerKind::Honest {
            self.claim(server, serial, version);
            return Ok(());
        }
        let peer = self.nodes[puller].key;
        self.nodes[server].watch.joined(peer);
        let manifest =
            self.manifests.iter().find(|m| m.version == version).map_or(ContentId::of(b""), |m| m.id());
        self.handle(server, Input::Joined { peer, version, manifest })
    }

    pub(super) fn opened(&mut self, serial: u64) -> Result<(), String> {
        let Some(stream) = self.streams.get(&serial).filter(|s| s.puller_open) else { return Ok(()) };
        let (node, peer) = (stream.puller, self.nodes[stream.server].key);
        self.nodes[node].watch.opened(peer);
        self.handle(node, Input::Opened(peer))
    }

    fn close(&mut self, node: usize, peer: &PublicKey) {
        let server = self.peer(peer);
        let Some(serial) = self.nodes[node].pulling.remove(&server) else { return };
        let at = self.now + self.travel(node, server);
        let Some(stream) = self.streams.get_mut(&serial) else { return };
        stream.puller_open = false;
        let at = at.max(stream.last_up);
        self.at(at, SimulationEvent::Closed { serial });
    }

    /// The puller's end is closed, and the server learns it.
    pub(super) fn close_arrived(&mut self, serial: u64) -> Result<(), String> {
        let Some(stream) = self.streams.remove(&serial) else { return Ok(()) };
        self.forget_served(&stream, serial)
    }

    fn forget_served(&mut self, stream: &SimulatedStream, serial: u64) -> Result<(), String> {
        let (server, key) = (stream.server, self.nodes[stream.puller].key);
        if self.nodes[server].serving.get(&stream.puller) == Some(&serial) {
            self.nodes[server].serving.remove(&stream.puller);
            self.nodes[server].watch.left(&key);
            return self.handle(server, Input::Left(key));
        }
        Ok(())
    }

    /// The stream broke and its puller learns it.
    pub(super) fn ended(&mut self, serial: u64) -> Result<(), String> {
        self.end(serial, None)
    }

    /// Ends a stream at both ends; `silent` is not told, as it ended the stream itself.
    pub(super) fn end(&mut self, serial: u64, silent: Option<usize>) -> Result<(), String> {
        let Some(stream) = self.streams.remove(&serial) else { return Ok(()) };
        let (puller, peer) = (stream.puller, self.nodes[stream.server].key);
        if self.nodes[puller].pulling.get(&stream.server) == Some(&serial) {
            self.nodes[puller].pulling.remove(&stream.server);
            if silent != Some(puller) {
                self.nodes[puller].watch.lost(&peer);
                self.handle(puller, Input::Lost(peer))?;
            }
        }
        if silent == Some(stream.server) {
            self.nodes[stream.server].serving.remove(&puller);
            return Ok(());
        }
        self.forget_served(&stream, serial)
    }

    fn control(&mut self, node: usize, peer: &PublicKey, control: Control) {
        let server = self.peer(peer);
        let Some(serial) = self.nodes[node].pulling.get(&server).copied() else { return };
        self.send_control(serial, control);
    }

    pub(super) fn send_control(&mut self, serial: u64, control: Control) {
        let Some(stream) = self.streams.get(&serial) else { return };
        let at = self.now + self.travel(self.streams[&serial].puller, stream.server);
        let Some(stream) = self.streams.get_mut(&serial) else { return };
        stream.last_up = at.max(stream.last_up);
        let at = stream.last_up;
        self.at(at, SimulationEvent::Control { serial, control });
    }

    pub(super) fn control_arrived(&mut self, serial: u64, control: Control) -> Result<(), String> {
        let Some(stream) = self.streams.get(&serial).filter(|s| s.server_open) else { return Ok(()) };
        let (server, puller, version) = (stream.server, stream.puller, stream.version);
        if self.nodes[server].serving.get(&puller) != Some(&serial) {
            return Ok(());
        }
        let peer = self.nodes[puller].key;
        match control {
            Control::Ask(piece, blocks) if self.nodes[server].kind == PeerKind::Honest => {
                self.nodes[server].watch.asked(&peer, piece, blocks);
                self.handle(server, Input::Asked { peer, version, piece, blocks })
            }
            Control::Ask(piece, blocks) => {
                self.answer_falsely(server, serial, piece, blocks);
                Ok(())
            }
            Control::Cancel(piece, blocks) => self.handle(server, Input::Cancelled { peer, piece, blocks }),
        }
    }

    fn refuse(&mut self, node: usize, peer: &PublicKey) {
        let puller = self.peer(peer);
        let Some(serial) = self.nodes[node].serving.remove(&puller) else { return };
        let at = self.now + self.travel(node, puller);
        let Some(stream) = self.streams.get_mut(&serial) else { return };
        stream.server_open = false;
        let at = at.max(stream.last_down);
        self.at(at, SimulationEvent::Deliver { serial, frame: SimulatedFrame::Refuse });
    }

    fn send(&mut self, node: usize, peer: &PublicKey, frame: SimulatedFrame) {
        let puller = self.peer(peer);
        if let Some(serial) = self.nodes[node].serving.get(&puller).copied() {
            self.push(node, serial, frame);
        }
    }

    pub(super) fn push(&mut self, node: usize, serial: u64, frame: SimulatedFrame) {
        if let Some(stream) = self.streams.get_mut(&serial) {
            stream.push(frame);
            self.use_uplink(node);
        }
    }

    /// Lets the next frame leave, if the uplink is free: one of each stream in turn.
    fn use_uplink(&mut self, node: usize) {
        if self.nodes[node].uplink_busy {
            return;
        }
        let SimulatedNode { serving, turn, up, epoch, .. } = &self.nodes[node];
        let waits = |serial: &&u64| self.streams.get(serial).is_some_and(SimulatedStream::waits);
        let waiting: Vec<u64> = serving.values().filter(waits).copied().collect();
        let after = waiting.iter().filter(|serial| **serial > *turn).min();
        let Some(serial) = after.or(waiting.iter().min()).copied() else { return };
        let (up, epoch) = (*up, *epoch);
        let Some(frame) = self.streams.get_mut(&serial).and_then(SimulatedStream::pop) else { return };
        let bytes = frame.bytes();
        let sender = &mut self.nodes[node];
        (sender.uplink_busy, sender.turn) = (true, serial);
        sender.sent_bytes += bytes;
        self.at(self.now + bytes * 1_000_000 / up, SimulationEvent::Uplink { node, epoch, serial, frame });
    }

    pub(super) fn left(&mut self, node: usize, serial: u64, frame: SimulatedFrame) -> Result<(), String> {
        self.nodes[node].uplink_busy = false;
        self.use_uplink(node);
        let Some(stream) = self.streams.get(&serial) else { return Ok(()) };
        let (puller, server_open) = (stream.puller, stream.server_open);
        let arrival = self.now + self.travel(node, puller);
        if let Some(stream) = self.streams.get_mut(&serial) {
            stream.last_down = arrival.max(stream.last_down);
            let at = stream.last_down;
            self.at(at, SimulationEvent::Arrive { serial, frame: frame.clone() });
        }
        if let SimulatedFrame::Block { piece, block, .. } = frame
            && server_open
        {
            let peer = self.nodes[puller].key;
            self.nodes[node].watch.sent(&peer, piece, block);
            self.handle(node, Input::Sent { peer, piece, block })?;
        }
        Ok(())
    }

    pub(super) fn arrived(&mut self, serial: u64, frame: SimulatedFrame) {
        let Some(stream) = self.streams.get(&serial) else { return };
        let node = &mut self.nodes[stream.puller];
        node.downlink_free = node.downlink_free.max(self.now) + frame.bytes() * 1_000_000 / node.down;
        let at = node.downlink_free;
        self.at(at, SimulationEvent::Deliver { serial, frame });
    }

    pub(super) fn delivered(&mut self, serial: u64, frame: SimulatedFrame) -> Result<(), String> {
        let Some(stream) = self.streams.get(&serial).filter(|s| s.puller_open) else { return Ok(()) };
        let (node, server, version) = (stream.puller, stream.server, stream.version);
        let peer = self.nodes[server].key;
        if self.nodes[node].machine.is_none() {
            return Ok(());
        }
        match frame {
            SimulatedFrame::Tell(news) => {
                self.nodes[node].watch.told(&peer, &news);
                self.handle(node, Input::Has { peer, version, news })
            }
            SimulatedFrame::Block { rotten: true, .. } => self.handle(node, Input::Rotten(peer)),
            SimulatedFrame::Block { piece, block, .. } => {
                let here = &mut self.nodes[node];
                here.watch.delivered(&peer, piece, block);
                here.disk.entry(version).or_default().insert(piece, BlockMask::of([block]));
                self.handle(node, Input::Stored { peer, version, piece, block })
            }
            SimulatedFrame::Refuse => {
                self.streams.remove(&serial);
                self.nodes[node].pulling.remove(&server);
                self.nodes[node].watch.lost(&peer);
                self.handle(node, Input::Refused { peer, version })
            }
        }
    }
}
