//! The simulated network: peers, their streams, and one queue of events.

mod actions;
mod liars;
mod setup;
mod version_choice;

use super::checks::PeerHistory;
use super::event::{PeerKind, SimulationEvent};
use super::learner::neighbours;
use super::links::SimulatedStream;
use crate::dissemination::{Dissemination, DisseminationMode, Input, NeighbourRole};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::snapshot::piece_set::Holdings;
use crate::wire::identity::PublicKey;
use crate::wire::rng::Draws;
use crate::wire::time::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// Timers that may fire at one instant before a machine counts as spinning.
const MAX_TIMERS_AT_ONCE: u32 = 50;

/// One peer with its links and its disk.
pub(super) struct SimulatedNode {
    pub(super) key: PublicKey,
    pub(super) kind: PeerKind,
    /// None while it is down, and for liars.
    pub(super) machine: Option<Dissemination>,
    /// Counts its starts: what belongs to an earlier life is ignored.
    epoch: u64,
    /// Bytes per second of its uplink.
    up: u64,
    down: u64,
    uplink_busy: bool,
    /// The stream that was served last.
    turn: u64,
    /// When the downlink has taken in all that arrived, in microseconds.
    downlink_free: u64,
    pulling: BTreeMap<usize, u64>,
    serving: BTreeMap<usize, u64>,
    disk: BTreeMap<PolicyVersion, Holdings>,
    /// Versions whose deltas were tried and did not apply.
    unapplied: BTreeSet<PolicyVersion>,
    /// The newest version heard of while another was being received.
    waiting: Option<usize>,
    blocked: BTreeSet<usize>,
    watch: PeerHistory,
    timer: Option<u64>,
    parent: Option<usize>,
    /// How far it was when it last asked for neighbours.
    progress: Option<(PolicyVersion, u64, u64)>,
    pub(super) sent_bytes: u64,
}

/// All peers, the source first.
pub(super) struct World {
    pub(super) nodes: Vec<SimulatedNode>,
    pub(super) newest: PolicyVersion,
    pub(super) events: u64,
    /// Moves whenever some peer may have become complete.
    completions: u64,
    manifests: Vec<Arc<Manifest>>,
    published: usize,
    streams: BTreeMap<u64, SimulatedStream>,
    queue: BTreeMap<(u64, u64), SimulationEvent>,
    /// Faults and publications that are still to come.
    pending: u64,
    /// The simulated time, in microseconds from the start.
    now: u64,
    serial: u64,
    timers_at_once: (u64, u32),
    mode: DisseminationMode,
    chains: usize,
    mesh: usize,
    seed: u64,
    /// One-way, in microseconds, by peer.
    latency: Vec<u64>,
    jitter: u64,
    draws: Draws,
    trace: DefaultHasher,
    /// Simulated microseconds after which a network that is not complete never will be.
    limit: u64,
}

impl SimulatedNode {
    /// Whether every chunk of this version is on its disk and its machine knows.
    pub(super) fn is_complete(&self, version: PolicyVersion) -> bool {
        let Some(machine) = &self.machine else { return false };
        let (Some(manifest), Some(disk)) = (machine.manifest(version), self.disk.get(&version)) else {
            return false;
        };
        machine.newest_complete() == Some(version)
            && (0..manifest.chunks.len() as u32).map(PieceIndex).all(|piece| {
                let length = manifest.piece(piece).map_or(0, |p| p.length);
                BlockMask::all(crate::snapshot::blocks::block_count(length)).minus(disk.get(piece)).is_empty()
            })
    }
}

impl World {
    pub(super) fn millis(&self) -> u64 {
        self.now / 1000
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace.finish()
    }

    /// Runs until every honest living peer is complete and nothing more goes wrong.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let mut look_at = 0;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            self.events += 1;
            self.happen(event)?;
            // Looking at all disks after every event would take most of the time.
            if self.pending == 0 && self.completions >= look_at {
                if self.is_done() {
                    return Ok(());
                }
                look_at = self.completions + 1;
            }
            if self.now > self.limit {
                break;
            }
        }
        Err(format!("not complete after {} ms: {}", self.millis(), self.stuck()))
    }

    fn is_done(&self) -> bool {
        let waits = |node: &&SimulatedNode| node.kind == PeerKind::Honest && node.machine.is_some();
        self.nodes[1..].iter().filter(waits).all(|node| node.is_complete(self.newest))
    }

    fn stuck(&self) -> String {
        let stuck = |n: &&SimulatedNode| {
            n.kind == PeerKind::Honest && n.machine.is_some() && !n.is_complete(self.newest)
        };
        let of = |n: &SimulatedNode| {
            let machine = n.machine.as_ref();
            let peers = n.pulling.keys();
            format!(
                "{:?} pulls from {:?}, parent {:?}",
                machine.and_then(Dissemination::progress),
                peers.collect::<Vec<_>>(),
                n.parent
            )
        };
        let kinds: Vec<PeerKind> = self.nodes.iter().map(|n| n.kind).collect();
        let stuck: Vec<String> = self.nodes[1..].iter().filter(stuck).map(of).collect();
        format!("{:?} {kinds:?}; {}", self.mode, stuck.join("; "))
    }

    fn at(&mut self, at: u64, event: SimulationEvent) {
        self.serial += 1;
        self.queue.insert((at.max(self.now), self.serial), event);
    }

    /// Microseconds from one peer to another, this time.
    fn travel(&mut self, from: usize, to: usize) -> u64 {
        let late = self.draws.below(self.jitter + 1);
        (self.latency[from] + self.latency[to]) / 2 + late
    }

    fn is_alive(&self, node: usize) -> bool {
        self.nodes[node].machine.is_some() || self.nodes[node].kind != PeerKind::Honest
    }

    fn peer(&self, key: &PublicKey) -> usize {
        self.nodes.iter().position(|node| node.key == *key).unwrap_or(0)
    }

    fn happen(&mut self, event: SimulationEvent) -> Result<(), String> {
        match event {
            SimulationEvent::Timer { node } => self.timer(node),
            SimulationEvent::Input { node, epoch, input } if self.nodes[node].epoch == epoch => {
                self.gain(node, &input);
                self.handle(node, *input)
            }
            SimulationEvent::Announce { node, epoch, version } if self.nodes[node].epoch == epoch => {
                self.announced(node, version)
            }
            SimulationEvent::Receive { node, epoch, version } if self.nodes[node].epoch == epoch => {
                self.receive(node, version)
            }
            SimulationEvent::Input { .. }
            | SimulationEvent::Announce { .. }
            | SimulationEvent::Receive { .. } => Ok(()),
            SimulationEvent::Learner { node, lost } => self.name_neighbours(node, &lost),
            SimulationEvent::Open { serial } => self.open_arrived(serial),
            SimulationEvent::Opened { serial } => self.opened(serial),
            SimulationEvent::Control { serial, control } => self.control_arrived(serial, control),
            SimulationEvent::Closed { serial } => self.close_arrived(serial),
            SimulationEvent::Ended { serial } => self.ended(serial),
            SimulationEvent::Uplink { node, epoch, serial, frame } if self.nodes[node].epoch == epoch => {
                self.left(node, serial, frame)
            }
            SimulationEvent::Uplink { .. } => Ok(()),
            SimulationEvent::Arrive { serial, frame } => {
                self.arrived(serial, frame);
                Ok(())
            }
            SimulationEvent::Deliver { serial, frame } => self.delivered(serial, frame),
            SimulationEvent::Publish { version } => self.publish(version),
            SimulationEvent::Crash { node, loud } => self.crash(node, loud),
            SimulationEvent::Restart { node } => self.restart(node),
            SimulationEvent::Reset { draw } => self.reset(draw),
            SimulationEvent::Damage { node, draw } => self.damage(node, draw),
            SimulationEvent::Nonsense { node } => {
                self.talk_nonsense(node);
                Ok(())
            }
        }
    }

    fn timer(&mut self, node: usize) -> Result<(), String> {
        if self.nodes[node].timer != Some(self.now) {
            return Ok(());
        }
        self.nodes[node].timer = None;
        let (at, count) = self.timers_at_once;
        self.timers_at_once = if at == self.now { (at, count + 1) } else { (self.now, 0) };
        if count > MAX_TIMERS_AT_ONCE * self.nodes.len() as u32 {
            return Err(format!("peer {node} spins at {} ms", self.millis()));
        }
        let now = self.time();
        if let Some(machine) = &mut self.nodes[node].machine {
            machine.handle_timeout(now);
        }
        self.obey(node)
    }

    fn time(&self) -> UnixMillis {
        // Not 0, so that machines that confuse an instant with a duration are found.
        UnixMillis(1_700_000_000_000 + self.now / 1000)
    }

    /// Tells a machine what happened and does what it says.
    fn handle(&mut self, node: usize, input: Input) -> Result<(), String> {
        let now = self.time();
        let Some(machine) = &mut self.nodes[node].machine else { return Ok(()) };
        machine.handle(now, input);
        self.obey(node)
    }

    fn name_neighbours(&mut self, node: usize, lost: &[usize]) -> Result<(), String> {
        let mut lost = lost.to_vec();
        let progress = self.nodes[node].machine.as_ref().and_then(Dissemination::progress);
        if progress == std::mem::replace(&mut self.nodes[node].progress, progress) {
            // It got nothing since: perhaps those named so far are of no use.
            let draws = &mut self.draws;
            lost.extend((1..self.nodes.len()).filter(|_| draws.below(2) == 0));
        }
        let alive: Vec<bool> = (0..self.nodes.len()).map(|n| self.is_alive(n)).collect();
        let mut list = match self.mode {
            DisseminationMode::Star => vec![(0, NeighbourRole::Parent)],
            _ => neighbours(node, &alive, &lost, self.chains, self.mesh, &mut self.draws),
        };
        self.nodes[node].parent = list.first().map(|(peer, _)| *peer);
        list.retain(|(peer, _)| *peer != node);
        let named = list.into_iter().map(|(peer, role)| (self.nodes[peer].key, role)).collect();
        self.handle(node, Input::Neighbours(named))
    }
}
