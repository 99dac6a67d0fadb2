//! One machine alone: what it says to each input, at instants that the test chooses.

use super::*;
use crate::snapshot::blocks::BLOCK_BYTES;
use crate::snapshot::manifest::tests as manifests;

mod asking;
mod completing;
mod damage;
mod disclosing;
mod driving;
mod learner;
mod losing;
mod modes;
mod places;
mod repairs;
mod rotten;
mod serving;
mod source;
mod telling;
mod windows;
mod wishes;
mod words;

use words::*;

const V1: PolicyVersion = PolicyVersion(1);
const V2: PolicyVersion = PolicyVersion(2);
const V3: PolicyVersion = PolicyVersion(3);
const V4: PolicyVersion = PolicyVersion(4);

/// The machine's own peer.
const ME: u8 = 0;
/// Neighbours, in the order in which the machine goes through them.
const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
/// Consumers, in that order.
const X: u8 = 100;
const Y: u8 = 101;
const Z: u8 = 102;

/// Lists of neighbours that tests name.
const ONE: [(u8, NeighbourRole); 1] = [(A, NeighbourRole::Mesh)];
const TWO: [(u8, NeighbourRole); 2] = [(A, NeighbourRole::Mesh), (B, NeighbourRole::Mesh)];
const PARENT: [(u8, NeighbourRole); 1] = [(A, NeighbourRole::Parent)];
const CHAIN: [(u8, NeighbourRole); 3] =
    [(A, NeighbourRole::Parent), (B, NeighbourRole::Standby), (C, NeighbourRole::Mesh)];

/// When every test begins. Not 0: an instant must not pass for a duration.
const START: UnixMillis = UnixMillis(1_700_000_000_000);
/// Timeouts that may come while a test lets time pass.
const MAX_TURNS: u32 = 10_000;
const NOTHING: [Output; 0] = [];

/// A machine and its clock.
struct Fixture {
    machine: Dissemination,
    now: UnixMillis,
}

fn config(mode: DisseminationMode) -> DisseminationConfig {
    DisseminationConfig {
        me: key(ME),
        source: false,
        serves: true,
        keep_versions: KEPT_VERSIONS,
        mode,
        seed: [7; 32],
    }
}

/// A manifest of `chunks` chunks, each of `blocks` whole blocks. Its tensors are of no matter here.
fn snapshot(version: PolicyVersion, chunks: u8, blocks: u32) -> Arc<Manifest> {
    let chunk_bytes = blocks * BLOCK_BYTES as u32;
    let total_bytes = u64::from(chunks) * u64::from(chunk_bytes);
    Arc::new(Manifest { total_bytes, chunk_bytes, ..manifests::manifest(version.0, chunks) })
}

impl Fixture {
    fn new(config: DisseminationConfig) -> Self {
        Self { machine: Dissemination::new(config), now: START }
    }

    fn node(mode: DisseminationMode) -> Self {
        Self::new(config(mode))
    }

    /// The source, which has published this snapshot.
    fn source(manifest: &Arc<Manifest>) -> Self {
        let mut fixture = Self::new(DisseminationConfig { source: true, ..config(DisseminationMode::Echo) });
        assert_eq!(fixture.on(published(manifest)), NOTHING);
        fixture
    }

    /// A node that has this snapshot.
    fn holding(manifest: &Arc<Manifest>) -> Self {
        let mut fixture = Self::node(DisseminationMode::Echo);
        assert_eq!(fixture.complete(manifest), [complete(manifest.version)]);
        fixture
    }

    /// A node that wants this snapshot, has nothing of it, and has an open stream to each of these
    /// neighbours that its mode uses.
    fn receiving(
        mode: DisseminationMode,
        manifest: &Arc<Manifest>,
        neighbours: &[(u8, NeighbourRole)],
    ) -> Self {
        let mut fixture = Self::node(mode);
        fixture.announce(manifest, &[]);
        fixture.meet(neighbours);
        fixture
    }

    /// Announces a snapshot of which every chunk is wanted.
    fn announce(&mut self, manifest: &Arc<Manifest>, have: &[(u32, u64)]) -> Vec<Output> {
        let chunks: Vec<u32> = (0..manifest.chunks.len() as u32).collect();
        self.on(announced(manifest, have, &chunks))
    }

    /// Announces a snapshot of which every chunk is on the disk.
    fn complete(&mut self, manifest: &Arc<Manifest>) -> Vec<Output> {
        let have: Vec<(u32, u64)> =
            (0..manifest.chunks.len() as u32).map(|chunk| (chunk, u64::MAX)).collect();
        self.announce(manifest, &have)
    }

    /// Names neighbours and opens the streams to them.
    fn meet(&mut self, neighbours: &[(u8, NeighbourRole)]) {
        self.on(named(neighbours));
        for (peer, _) in neighbours {
            self.on(opened(*peer));
        }
    }

    /// Tells the machine what happened, and returns what it says to that. Who joins goes by the
    /// manifest that the machine has, or will have.
    fn on(&mut self, mut input: Input) -> Vec<Output> {
        if let Input::Joined { version, manifest, .. } = &mut input {
            *manifest = self.machine.manifest_id(*version).unwrap_or_else(|| snapshot(*version, 1, 4).id());
        }
        self.machine.handle(self.now, input);
        self.said()
    }

    fn said(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.machine.poll_output()).collect()
    }

    /// Lets time pass, with every timeout on the way, and returns what the machine says meanwhile.
    fn pass(&mut self, millis: u64) -> Vec<Output> {
        let end = self.now.plus(millis);
        let (mut said, mut turns) = (Vec::new(), 0);
        while let Some(at) = self.machine.poll_timeout().filter(|at| *at <= end) {
            turns += 1;
            assert!(turns <= MAX_TURNS, "the machine spins");
            self.now = self.now.max(at);
            self.machine.handle_timeout(self.now);
            said.extend(self.said());
        }
        self.now = end;
        said
    }
}
