//! Networks of dissemination machines in simulated time: links with rates and latencies, faults,
//! liars, and a learner that names neighbours.
//!
//! [`run`] draws a small network with faults from a seed and checks the machine's rules at
//! every step; [`broadcast`] measures how long a snapshot takes without or with churn,
//! against the fluid bound. Both are pure functions: the same arguments give the same
//! events, which [`SimulationReport::trace`] witnesses.

mod checks;
mod event;
mod faults;
mod learner;
mod links;
mod network;

use super::DisseminationMode;
use super::fluid_bound::FluidBroadcast;
use crate::run::charter::RunId;
use crate::run::epoch::Epoch;
use crate::run::tensor_type::TensorType;
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::{DeltaEntry, Manifest, TensorEntry};
use crate::wire::codec;
use crate::wire::content_id::ContentId;
use crate::wire::rng::Draws;
use network::World;

/// What came of a simulated network with faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationReport {
    /// The seed from which the whole network was drawn.
    pub seed: u64,
    /// Peers besides the source.
    pub nodes: usize,
    /// Simulated milliseconds until every honest living node was complete.
    pub millis: u64,
    /// Hash of everything that any machine said, and when.
    pub trace: u64,
    /// Events that the simulated network handled in all.
    pub events: u64,
    /// The first rule that was broken, if any.
    pub broken: Option<String>,
}

/// A network without liars, to be measured. Rates in bytes per second.
#[derive(Clone, Debug)]
pub struct SimulationSetup {
    /// The seed of every random choice in the simulation.
    pub seed: u64,
    /// How blocks are gathered.
    pub mode: DisseminationMode,
    /// Uplink of the source.
    pub source_up: u64,
    /// Uplink of each node.
    pub up: Vec<u64>,
    /// Downlink of each node.
    pub down: u64,
    /// Size of the snapshot.
    pub bytes: u64,
    /// Length of its chunks.
    pub chunk_bytes: u32,
    /// One-way latency between any two peers, in milliseconds.
    pub latency_ms: u64,
    /// Nodes killed at random instants, in percent; every other one comes back.
    pub churn_percent: u64,
    /// Neighbours of each node besides parent and standby.
    pub mesh: usize,
}

/// How long a broadcast took.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Simulated milliseconds until the last living node was complete.
    pub millis: u64,
    /// The fluid bound, in milliseconds: max{F/B0, F/d, N·F/(B0 + ΣB_up)}.
    pub bound_millis: u64,
    /// Blocks that arrived where they were already, in all nodes that lived to the end.
    pub duplicates: u64,
    /// Blocks that arrived where they were missing.
    pub blocks: u64,
    /// Blocks that were taken over from slower neighbours.
    pub repairs: u64,
    /// Bytes that the source sent.
    pub source_bytes: u64,
    /// Living nodes that were complete at the end.
    pub complete: usize,
    /// Nodes that were running at the end.
    pub living: usize,
}

impl Timing {
    /// The time as a multiple of the bound.
    pub fn ratio(&self) -> f64 {
        self.millis as f64 / self.bound_millis.max(1) as f64
    }
}

/// Simulates the network of this seed, faults included, until every honest living node is complete.
pub fn run(seed: u64) -> SimulationReport {
    let mut world = World::with_faults(seed);
    let broken = world.run().err();
    SimulationReport {
        seed,
        nodes: world.nodes.len() - 1,
        millis: world.millis(),
        trace: world.trace(),
        events: world.events,
        broken,
    }
}

/// Simulates one broadcast and measures it; the error is the rule that broke.
pub fn broadcast(setup: &SimulationSetup) -> Result<Timing, String> {
    let mut world = World::measured(setup);
    world.run()?;
    let fluid = FluidBroadcast {
        // A thousand times the bytes, for milliseconds.
        bytes: (setup.bytes * 1000) as f64,
        nodes: setup.up.len() as f64,
        source_up: setup.source_up as f64,
        node_ups: setup.up.iter().sum::<u64>() as f64,
    };
    let bound = fluid.source_s().max(fluid.downlink_s(setup.down as f64)).max(fluid.uplinks_s());
    let stats: Vec<_> =
        world.nodes[1..].iter().filter_map(|n| n.machine.as_ref()).map(|r| r.stats()).collect();
    Ok(Timing {
        millis: world.millis(),
        bound_millis: bound as u64,
        duplicates: stats.iter().map(|s| s.duplicates).sum(),
        blocks: stats.iter().map(|s| s.blocks).sum(),
        repairs: stats.iter().map(|s| s.repairs).sum(),
        source_bytes: world.nodes[0].sent_bytes,
        complete: world.nodes[1..]
            .iter()
            .filter(|n| n.machine.is_some() && n.is_complete(world.newest))
            .count(),
        living: stats.len(),
    })
}

/// A manifest of this size whose content is of no matter; every chunk has a delta of a sixteenth of
/// its length where `deltas`.
pub(super) fn manifest(version: u64, bytes: u64, chunk_bytes: u32, deltas: bool) -> Manifest {
    let chunks = bytes.div_ceil(u64::from(chunk_bytes)) as u32;
    let id = |kind: u8, v: u64, i: u32| ContentId::of(format!("{kind} {v} {i}").as_bytes());
    let shorter = chunk_bytes / 16;
    let delta = |i: u32| {
        // The last chunk may be shorter than its delta would be: it has none.
        let entry = DeltaEntry { base: id(0, version - 1, i), id: id(1, version, i), length: shorter };
        (i + 1 < chunks).then_some(entry)
    };
    Manifest {
        run: run_id(id(2, 0, 0)),
        epoch: Epoch::default(),
        version: PolicyVersion(version),
        base: deltas.then(|| PolicyVersion(version - 1)),
        files: Vec::new(),
        tensors: vec![TensorEntry {
            name: "w".into(),
            dtype: TensorType::Bf16,
            shape: vec![bytes / 2],
            offset: 0,
        }],
        total_bytes: bytes,
        chunk_bytes,
        chunks: (0..chunks).map(|i| id(0, version, i)).collect(),
        deltas: if deltas { (0..chunks).map(delta).collect() } else { Vec::new() },
    }
}

/// A run id that no charter has: it travels like a content id.
fn run_id(id: ContentId) -> RunId {
    let bytes = codec::encode(&id, 64).expect("a content id is short");
    codec::decode(&bytes, 64).expect("a run id travels like a content id")
}

/// Draws of one kind: adding draws of another kind changes none of them.
fn draws(seed: u64, kind: &str) -> Draws {
    Draws::new(*blake3::hash(format!("relay simulation {seed} {kind}").as_bytes()).as_bytes())
}

#[cfg(test)]
mod tests;
