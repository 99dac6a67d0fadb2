//! How simulated networks begin.

use super::{PeerKind, SimulatedNode, SimulationEvent, World};
use crate::dissemination::simulation::{SimulationSetup, draws, faults, manifest};
use crate::dissemination::{Dissemination, DisseminationConfig, DisseminationMode, KEPT_VERSIONS};
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::Manifest;
use crate::wire::identity::PublicKey;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::DefaultHasher;
use std::sync::Arc;

/// How long a network may take in all, in microseconds: the slowest one drawn needs a tenth.
const LIMIT: u64 = 1_800_000_000;

impl World {
    /// A small network with faults and liars.
    pub(in crate::dissemination::simulation) fn with_faults(seed: u64) -> Self {
        let mut d = draws(seed, "network");
        let nodes = 1 + d.below(8) as usize;
        let mode = match d.below(6) {
            0 => DisseminationMode::Chain,
            1 => DisseminationMode::Star,
            _ => DisseminationMode::Echo,
        };
        let chunk_bytes = [128 << 10, 256 << 10, 1 << 20][d.below(3) as usize];
        let versions = 1 + d.below(3) as usize;
        let bytes = (200 << 10) + 2 * d.below(5 << 20);
        let has_deltas = d.below(2) == 0;
        let manifests: Vec<_> = (1..=versions as u64)
            .map(|v| Arc::new(manifest(v, bytes, chunk_bytes, has_deltas && v > 1)))
            .collect();
        let mut rate = |most: u64| 50_000 + d.below(most) * d.below(1000) / 1000;
        let mut peers = vec![peer(0, rate(20_000_000), 100_000_000)];
        peers.extend((1..=nodes).map(|i| peer(i, rate(5_000_000), rate(20_000_000))));
        let latency = (0..=nodes).map(|_| 1_000 + d.below(200_000)).collect();
        let (chains, mesh) = (1 + d.below(3) as usize, d.below(8) as usize);
        let jitter = if d.below(2) == 0 { 2_000 } else { 300_000 };
        let mut world = Self::empty(seed, mode, peers, manifests);
        (world.chains, world.mesh, world.latency, world.jitter) = (chains, mesh, latency, jitter);
        for node in 1..=nodes {
            world.nodes[node].kind = faults::kind(&mut d);
            match world.nodes[node].kind {
                PeerKind::Honest => world.start(node),
                PeerKind::Nonsense => world.at(0, SimulationEvent::Nonsense { node }),
                PeerKind::Rotten | PeerKind::Silent => {}
            }
        }
        for version in 1..=versions {
            let at = if version == 1 { 0 } else { d.below(faults::FAULTS_UNTIL) };
            world.plan(at, SimulationEvent::Publish { version });
        }
        for (at, event) in faults::plan(nodes, &mut d) {
            world.plan(at, event);
        }
        world
    }

    /// A network to be measured.
    pub(in crate::dissemination::simulation) fn measured(setup: &SimulationSetup) -> Self {
        let mut d = draws(setup.seed, "broadcast");
        let snapshot = Arc::new(manifest(1, setup.bytes, setup.chunk_bytes, false));
        let mut peers = vec![peer(0, setup.source_up, setup.source_up)];
        peers.extend(setup.up.iter().enumerate().map(|(i, up)| peer(i + 1, *up, setup.down)));
        let nodes = setup.up.len();
        let mut world = Self::empty(setup.seed, setup.mode, peers, vec![snapshot]);
        let mean = setup.up.iter().sum::<u64>() / nodes.max(1) as u64;
        world.chains = ((setup.source_up / mean.max(1)) as usize).clamp(1, nodes);
        world.mesh = setup.mesh;
        world.latency = vec![setup.latency_ms * 1000; nodes + 1];
        (1..=nodes).for_each(|node| world.start(node));
        world.plan(0, SimulationEvent::Publish { version: 1 });
        let bound = 1_000_000 * (setup.bytes * nodes as u64) / (setup.source_up + mean * nodes as u64);
        let mut victims: Vec<usize> = (1..=nodes).collect();
        d.shuffle(&mut victims);
        victims.truncate(nodes * setup.churn_percent as usize / 100);
        for (order, node) in victims.into_iter().enumerate() {
            let at = d.below(bound);
            world.plan(at, SimulationEvent::Crash { node, loud: true });
            if order % 2 == 0 {
                world.plan(at + 2_000_000, SimulationEvent::Restart { node });
            }
        }
        world
    }

    fn empty(
        seed: u64,
        mode: DisseminationMode,
        nodes: Vec<SimulatedNode>,
        manifests: Vec<Arc<Manifest>>,
    ) -> Self {
        let mut world = Self {
            newest: manifests.last().map_or(PolicyVersion(0), |m| m.version),
            events: 0,
            completions: 0,
            latency: vec![0; nodes.len()],
            nodes,
            manifests,
            published: 0,
            streams: BTreeMap::new(),
            queue: BTreeMap::new(),
            pending: 0,
            now: 0,
            serial: 0,
            timers_at_once: (0, 0),
            mode,
            chains: 1,
            mesh: 0,
            seed,
            jitter: 0,
            draws: draws(seed, "world"),
            trace: DefaultHasher::new(),
            limit: LIMIT,
        };
        world.start(0);
        world
    }

    /// Something that has to happen before the network may be judged.
    fn plan(&mut self, at: u64, event: SimulationEvent) {
        self.pending += 1;
        self.at(at, event);
    }

    /// Gives a peer a new machine.
    pub(super) fn start(&mut self, node: usize) {
        let seed =
            *blake3::hash(format!("{} {node} {}", self.seed, self.nodes[node].epoch).as_bytes()).as_bytes();
        let config = DisseminationConfig {
            me: self.nodes[node].key,
            source: node == 0,
            serves: true,
            keep_versions: KEPT_VERSIONS,
            mode: self.mode,
            seed,
        };
        self.nodes[node].machine = Some(Dissemination::new(config));
    }

    /// Lets a peer hear of a version.
    pub(super) fn announce_at(&mut self, at: u64, node: usize, version: usize) {
        let epoch = self.nodes[node].epoch;
        self.at(at, SimulationEvent::Announce { node, epoch, version });
    }
}

fn peer(index: usize, up: u64, down: u64) -> SimulatedNode {
    SimulatedNode {
        key: PublicKey::from_bytes(*blake3::hash(&index.to_le_bytes()).as_bytes()),
        kind: PeerKind::Honest,
        machine: None,
        epoch: 0,
        up,
        down,
        uplink_busy: false,
        turn: 0,
        downlink_free: 0,
        pulling: BTreeMap::new(),
        serving: BTreeMap::new(),
        disk: BTreeMap::new(),
        unapplied: BTreeSet::new(),
        waiting: None,
        blocked: BTreeSet::new(),
        watch: Default::default(),
        timer: None,
        parent: None,
        progress: None,
        sent_bytes: 0,
    }
}
