use super::*;
use crate::dissemination::NeighbourRole as Part;
use crate::net::{HostConfig, HostEvents};
use crate::run::tensor_type::TensorType;
use crate::snapshot::manifest::DeltaEntry;
use crate::store::{SnapshotItem, SnapshotReadError, SnapshotReader, write_snapshot};
use crate::wire::content_id::ContentId;
use crate::wire::identity::NodeKey;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

mod deltas;
mod faults;
mod peers;

use peers::{Stand, stand_in};

const CHUNK: u32 = 256 << 10;
const CHUNKS: u32 = 10;
const TOTAL: u64 = (CHUNK * CHUNKS) as u64;

/// A peer with everything that a process has.
struct Party {
    key: PublicKey,
    host: Host,
    _host_events: HostEvents,
    store: Arc<ChunkStore>,
    snapshots: Snapshots,
    events: mpsc::Receiver<SnapshotEvent>,
}

fn key(seed: u8) -> PublicKey {
    NodeKey::from_secret([seed; 32]).public()
}

async fn host(seed: u8) -> (Host, HostEvents) {
    let listen = vec!["/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap()];
    Host::start(HostConfig { listen, ..HostConfig::client([seed; 32], "echo-test") }).await.unwrap()
}

/// A peer whose store is in `dir`.
async fn peer_in(dir: &Path, seed: u8, role: SnapshotRole, learner: Option<PublicKey>) -> Party {
    let (host, _host_events) = host(seed).await;
    let store = Arc::new(ChunkStore::open(dir).unwrap());
    let config =
        SnapshotsConfig { learner, ..SnapshotsConfig::new(key(seed), role, DisseminationMode::Echo) };
    let (snapshots, events) = Snapshots::start(host.clone(), store.clone(), config).unwrap();
    Party { key: key(seed), host, _host_events, store, snapshots, events }
}

/// A peer with a store of its own, which goes with the returned directory.
async fn peer(seed: u8, role: SnapshotRole) -> (Party, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (peer_in(dir.path(), seed, role, None).await, dir)
}

impl Party {
    fn named(&self, part: Part) -> (Peer, Part) {
        as_neighbour(self.key, &self.host, part)
    }

    async fn pull_from(&self, neighbours: Vec<(Peer, Part)>) {
        self.snapshots.neighbours(neighbours).await.unwrap();
    }

    async fn announce(&self, manifest: &Arc<Manifest>) {
        self.snapshots.announce(manifest.clone()).await.unwrap();
    }

    async fn installed(&mut self) -> Arc<Manifest> {
        self.until(|event| match event {
            SnapshotEvent::Install(manifest) => Some(manifest),
            _ => None,
        })
        .await
    }

    async fn cut_off(&mut self) -> PublicKey {
        self.until(|event| match event {
            SnapshotEvent::CutOff(peer) => Some(peer),
            SnapshotEvent::Install(_) => panic!("installed what a liar sent"),
            _ => None,
        })
        .await
    }

    /// Waits until the learner would be told that `peer` is lost.
    async fn misses(&mut self, peer: PublicKey) {
        self.until(|event| match event {
            SnapshotEvent::AskNeighbours { lost } if lost.contains(&peer) => Some(()),
            _ => None,
        })
        .await;
    }

    async fn until<T>(&mut self, wanted: impl Fn(SnapshotEvent) -> Option<T>) -> T {
        let search = async {
            loop {
                if let Some(found) = wanted(self.events.recv().await.expect("the service runs")) {
                    return found;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(120), search).await.expect("the event comes in time")
    }

    fn assert_whole(&self, manifest: &Manifest, bytes: &[u8]) {
        let mut reader = SnapshotReader::new(&self.store, manifest);
        let mut found = Vec::new();
        let read = reader.tensor::<SnapshotReadError>(&manifest.tensors[0], |piece| {
            found.extend_from_slice(piece);
            Ok(())
        });
        read.unwrap();
        assert!(found == bytes, "other bytes than were published");
    }

    async fn stats(&self) -> SnapshotStats {
        self.snapshots.stats().await.unwrap()
    }
}

fn as_neighbour(key: PublicKey, host: &Host, part: Part) -> (Peer, Part) {
    (Peer { key, addresses: host.listen_addrs().iter().map(ToString::to_string).collect() }, part)
}

/// Bytes that no codec makes shorter.
fn noise(salt: u64) -> Vec<u8> {
    let mut bytes = vec![0; TOTAL as usize];
    blake3::Hasher::new().update(&salt.to_be_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn write(store: &ChunkStore, version: u64, bytes: Vec<u8>) -> Manifest {
    let run = crate::snapshot::manifest::tests::manifest(1, 1).run;
    let (dtype, shape) = (TensorType::Bf16, vec![bytes.len() as u64 / 2]);
    let tensor = SnapshotItem::Tensor { name: "w".into(), dtype, shape, bytes };
    write_snapshot(store, run, PolicyVersion(version), CHUNK, [tensor]).unwrap()
}

fn snapshot(store: &ChunkStore, version: u64) -> Arc<Manifest> {
    Arc::new(write(store, version, noise(version)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_passes_snapshots_on_and_the_tail_never_touches_the_source() {
    let ((source, _a), (mut first, _b), (mut second, _c)) = (
        peer(1, SnapshotRole::Source).await,
        peer(2, SnapshotRole::Relay).await,
        peer(3, SnapshotRole::Relay).await,
    );
    for version in [2, 4] {
        let manifest = snapshot(&source.store, version);
        source.snapshots.publish(manifest.clone()).await.unwrap();
        // The tail is told first: it waits at its parent until that has the version.
        second.pull_from(vec![first.named(Part::Parent)]).await;
        second.announce(&manifest).await;
        first.pull_from(vec![source.named(Part::Parent)]).await;
        first.announce(&manifest).await;
        assert_eq!(first.installed().await.version, manifest.version);
        assert_eq!(second.installed().await.version, manifest.version);
        first.assert_whole(&manifest, &noise(version));
        second.assert_whole(&manifest, &noise(version));
    }
    assert!(!second.host.connected_peers().await.contains(&source.host.peer_id()));
    let (source, first, second) = (source.stats().await, first.stats().await, second.stats().await);
    assert_eq!((source.sent_bytes, first.sent_bytes), (2 * TOTAL, 2 * TOTAL), "nothing is sent twice");
    assert_eq!(second.dissemination.blocks, 2 * TOTAL / (64 << 10));
    let times: Vec<_> = second.versions.iter().map(|times| times.version.0).collect();
    assert_eq!(times, [2, 4]);
    assert!(second.versions.iter().all(|t| t.complete >= t.first_byte && t.first_byte.is_some()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mesh_with_a_rotten_peer_ends_whole_and_without_it() {
    let (source, _dir) = peer(1, SnapshotRole::Source).await;
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let liar = stand_in(9, &source, &manifest, Stand::Rotten).await;
    let mut nodes = Vec::new();
    for seed in 2..6 {
        nodes.push(peer(seed, SnapshotRole::Relay).await);
    }
    for (node, _) in &mut nodes {
        node.announce(&manifest).await;
        node.pull_from(vec![liar.named()]).await;
        assert_eq!(node.cut_off().await, liar.key);
        assert!(
            node.store.held(&manifest.piece(crate::snapshot::manifest::PieceIndex(0)).unwrap()).is_empty()
        );
        assert!(
            node.host.dial(liar.host.peer_id(), liar.host.listen_addrs()).await.is_err(),
            "it stays blocked"
        );
    }
    let everyone: Vec<_> = nodes.iter().map(|(node, _)| node.named(Part::Mesh)).collect();
    for (at, (node, _)) in nodes.iter().enumerate() {
        // Half of them do not know the source: they have everything from the others.
        let parent = (at < 2).then(|| source.named(Part::Parent));
        let mut neighbours: Vec<_> = parent.into_iter().chain([liar.named()]).collect();
        neighbours.extend(everyone.iter().filter(|(peer, _)| peer.key != node.key).cloned());
        node.pull_from(neighbours).await;
    }
    for (node, _) in &mut nodes {
        node.installed().await;
        node.assert_whole(&manifest, &noise(2));
        assert_eq!(node.stats().await.cut_off, [liar.key]);
    }
    assert!(source.stats().await.sent_bytes < 3 * TOTAL, "the others had nothing of it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_receives_and_serves_nobody() {
    let ((source, _a), (mut leaf, _b), (mut node, _c)) = (
        peer(1, SnapshotRole::Source).await,
        peer(2, SnapshotRole::Leaf).await,
        peer(3, SnapshotRole::Relay).await,
    );
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    leaf.pull_from(vec![source.named(Part::Parent)]).await;
    leaf.announce(&manifest).await;
    leaf.installed().await;
    node.pull_from(vec![leaf.named(Part::Parent)]).await;
    node.announce(&manifest).await;
    node.misses(leaf.key).await;
    assert_eq!(leaf.stats().await.sent_bytes, 0);
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.installed().await;
}
