use super::*;
use crate::codec;
use crate::content::ContentId;
use crate::identity::NodeKey;
use crate::manifest::TensorType;
use crate::net::{ConnectionLimits, DhtMode, HostConfig, HostEvents, read_frame, write_frame};
use crate::store::{SnapshotItem, SnapshotReader, write_snapshot};
use std::time::Duration;
use tempfile::TempDir;

const CHUNK: u32 = 16 << 10;
const CHUNKS: u32 = 40;

struct Party {
    key: PublicKey,
    host: Host,
    _host_events: HostEvents,
    store: Arc<ChunkStore>,
    snapshots: Snapshots,
    events: mpsc::Receiver<SnapshotEvent>,
    dir: TempDir,
}

async fn host(seed: u8) -> (Host, HostEvents) {
    let config = HostConfig {
        secret: [seed; 32],
        listen: vec!["/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap()],
        mode: DhtMode::Client,
        agent: "echo-test".into(),
        topics: Vec::new(),
        limits: ConnectionLimits::default(),
        external: Vec::new(),
    };
    Host::start(config).await.unwrap()
}

async fn peer(seed: u8, role: Role) -> Party {
    let (host, host_events) = host(seed).await;
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(ChunkStore::open(dir.path()).unwrap());
    let key = NodeKey::from_secret([seed; 32]).public();
    let (snapshots, events) = Snapshots::start(host.clone(), store.clone(), key, role).unwrap();
    Party { key, host, _host_events: host_events, store, snapshots, events, dir }
}

fn as_parent(key: PublicKey, host: &Host) -> Option<Peer> {
    Some(Peer { key, addresses: host.listen_addrs().iter().map(ToString::to_string).collect() })
}

fn tensor_bytes(version: u64) -> Vec<u8> {
    let words = (0..CHUNK * CHUNKS / 4).map(|i| i.wrapping_mul(2_654_435_761) ^ version as u32);
    words.flat_map(u32::to_le_bytes).collect()
}

fn snapshot(store: &ChunkStore, version: u64) -> Arc<Manifest> {
    let run = crate::manifest::tests::manifest(1, 1).run;
    let tensor = SnapshotItem::Tensor {
        name: "w".into(),
        dtype: TensorType::F32,
        shape: vec![u64::from(CHUNK * CHUNKS / 4)],
        bytes: tensor_bytes(version),
    };
    Arc::new(write_snapshot(store, run, PolicyVersion(version), CHUNK, [tensor]).unwrap())
}

async fn until<T>(
    events: &mut mpsc::Receiver<SnapshotEvent>,
    wanted: impl Fn(SnapshotEvent) -> Option<T>,
) -> T {
    let search = async {
        loop {
            if let Some(found) = wanted(events.recv().await.expect("the service runs")) {
                return found;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), search).await.expect("the event comes in time")
}

async fn installed(peer: &mut Party) -> Arc<Manifest> {
    let manifest = until(&mut peer.events, |event| match event {
        SnapshotEvent::Install(manifest) => Some(manifest),
        _ => None,
    });
    manifest.await
}

async fn asked(peer: &mut Party) -> Option<PublicKey> {
    until(&mut peer.events, |event| match event {
        SnapshotEvent::AskParent { lost } => Some(lost),
        _ => None,
    })
    .await
}

fn assert_whole(peer: &Party, manifest: &Manifest) {
    let bytes = SnapshotReader::new(&peer.store, manifest).tensor(&manifest.tensors[0]).unwrap();
    assert_eq!(bytes, tensor_bytes(manifest.version.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_passes_snapshots_on_and_the_tail_never_touches_the_source() {
    let (source, mut first, mut second) =
        (peer(1, Role::Source).await, peer(2, Role::Relay).await, peer(3, Role::Relay).await);
    for version in [2, 4] {
        let manifest = snapshot(&source.store, version);
        source.snapshots.publish(manifest.clone()).await.unwrap();
        // The tail is told first: it waits at its parent until that has the version.
        second.snapshots.parent(as_parent(first.key, &first.host)).await.unwrap();
        second.snapshots.announce(manifest.clone()).await.unwrap();
        first.snapshots.parent(as_parent(source.key, &source.host)).await.unwrap();
        first.snapshots.announce(manifest.clone()).await.unwrap();
        assert_eq!(installed(&mut first).await.version, manifest.version);
        assert_eq!(installed(&mut second).await.version, manifest.version);
        assert_whole(&first, &manifest);
        assert_whole(&second, &manifest);
    }
    assert!(!second.host.connected_peers().await.contains(&source.host.peer_id()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_that_dies_is_reported_and_replaced() {
    let (source, mut node) = (peer(1, Role::Source).await, peer(3, Role::Relay).await);
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    // This parent sends three chunks and dies.
    let (mortal, _events) = host(2).await;
    let mortal_key = NodeKey::from_secret([2; 32]).public();
    let mut incoming = mortal.accept(names::CHUNKS).unwrap();
    let (held, chunks) = (source.store.clone(), manifest.clone());
    let dying = tokio::spawn(async move {
        let (_, mut stream) = incoming.next().await.unwrap();
        read_frame(&mut stream, wire::MAX_SUBSCRIPTION_BYTES).await.unwrap().unwrap();
        for i in 0..3 {
            let bytes = held.read(&chunks.chunks[i as usize]).unwrap();
            send(&mut stream, ChunkIndex(i), bytes).await;
        }
    });
    node.snapshots.parent(as_parent(mortal_key, &mortal)).await.unwrap();
    node.snapshots.announce(manifest.clone()).await.unwrap();
    assert_eq!(asked(&mut node).await, Some(mortal_key));
    dying.await.unwrap();
    node.snapshots.parent(as_parent(source.key, &source.host)).await.unwrap();
    installed(&mut node).await;
    assert_whole(&node, &manifest);
}

async fn send(stream: &mut crate::net::Stream, index: ChunkIndex, bytes: Vec<u8>) {
    let message =
        codec::encode(&wire::ChunkMessage::Chunk { index, bytes }, wire::MAX_CHUNK_MESSAGE_BYTES).unwrap();
    write_frame(stream, &message, wire::MAX_CHUNK_MESSAGE_BYTES).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotten_chunks_are_neither_stored_nor_forwarded_and_cut_the_sender_off() {
    let (source, mut node, mut child) =
        (peer(1, Role::Source).await, peer(3, Role::Relay).await, peer(4, Role::Relay).await);
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let (liar, _events) = host(2).await;
    let liar_key = NodeKey::from_secret([2; 32]).public();
    let mut incoming = liar.accept(names::CHUNKS).unwrap();
    let (held, chunks) = (source.store.clone(), manifest.clone());
    tokio::spawn(async move {
        let (_, mut stream) = incoming.next().await.unwrap();
        read_frame(&mut stream, wire::MAX_SUBSCRIPTION_BYTES).await.unwrap().unwrap();
        let mut bytes = held.read(&chunks.chunks[5]).unwrap();
        bytes[77] ^= 1;
        send(&mut stream, ChunkIndex(5), bytes).await;
        // Keep the stream open: it is the receiver that has to end this.
        let _ = read_frame(&mut stream, 16).await;
    });
    child.snapshots.parent(as_parent(node.key, &node.host)).await.unwrap();
    child.snapshots.announce(manifest.clone()).await.unwrap();
    node.snapshots.parent(as_parent(liar_key, &liar)).await.unwrap();
    node.snapshots.announce(manifest.clone()).await.unwrap();
    let cut_off = until(&mut node.events, |event| match event {
        SnapshotEvent::CutOff(peer) => Some(peer),
        SnapshotEvent::Install(_) => panic!("installed a rotten snapshot"),
        _ => None,
    });
    assert_eq!(cut_off.await, liar_key);
    assert!(node.store.present(&manifest).is_empty() && child.store.present(&manifest).is_empty());
    assert!(node.host.dial(liar.peer_id(), liar.listen_addrs()).await.is_err(), "it stays blocked");
    node.snapshots.parent(as_parent(source.key, &source.host)).await.unwrap();
    installed(&mut node).await;
    installed(&mut child).await;
    assert_whole(&child, &manifest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_damaged_on_disk_is_fetched_again_before_anybody_gets_it() {
    let (source, mut node, mut child) =
        (peer(1, Role::Source).await, peer(3, Role::Relay).await, peer(4, Role::Relay).await);
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    node.snapshots.parent(as_parent(source.key, &source.host)).await.unwrap();
    node.snapshots.announce(manifest.clone()).await.unwrap();
    installed(&mut node).await;

    let id: ContentId = manifest.chunks[7];
    let path = node.dir.path().join(&id.to_string()[..2]).join(id.to_string());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] ^= 0x40;
    std::fs::write(&path, bytes).unwrap();

    child.snapshots.parent(as_parent(node.key, &node.host)).await.unwrap();
    child.snapshots.announce(manifest.clone()).await.unwrap();
    // The node finds the damage when it reads the chunk, and heals itself from its own parent.
    installed(&mut node).await;
    assert_whole(&node, &manifest);
    loop {
        let event =
            tokio::time::timeout(Duration::from_secs(20), child.events.recv()).await.unwrap().unwrap();
        match event {
            SnapshotEvent::CutOff(_) => panic!("an honest node with a bad disk was cut off"),
            SnapshotEvent::AskParent { .. } => {
                child.snapshots.parent(as_parent(node.key, &node.host)).await.unwrap();
            }
            SnapshotEvent::Install(_) => break,
            SnapshotEvent::Progress { .. } => {}
        }
    }
    assert_whole(&child, &manifest);
}
