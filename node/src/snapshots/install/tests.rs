#[cfg(target_os = "linux")]
mod memory;

use super::*;
use crate::learner_link::client::LearnerClient;
use crate::learner_link::neighbours::CurrentNeighbours;
use crate::snapshots::downloads::SnapshotDownloads;
use crate::snapshots::manifests::Manifests;
use crate::status::node_state::NodeState;
use crate::testing;
use echo_policy::generation::Generation;
use echo_policy::model::weights::Weights;
use echo_protocol::control::requests::Peer;
use echo_protocol::dissemination;
use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::net::snapshots::{SnapshotRole, Snapshots, SnapshotsConfig};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::order::OrderCounter;
use std::fs;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The file of a chunk, wherever the store keeps it.
fn file_of(dir: &Path, name: &str) -> PathBuf {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let (dirs, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().find(|f| f.ends_with(name)).unwrap_or_else(|| {
        let within = |dir: &PathBuf| fs::read_dir(dir).unwrap().any(|e| e.unwrap().file_name() == name);
        dirs.iter().find(|dir| within(dir)).unwrap().join(name)
    })
}

/// Damages a file as a disk does: its length stays.
fn flip_a_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[5] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// An empty store, and a place for images beside it.
fn home() -> (tempfile::TempDir, ChunkStore, Images) {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let images = Images::open(&dir.path().join("images")).unwrap();
    (dir, store, images)
}

#[test]
fn a_complete_snapshot_becomes_a_policy() {
    let (_dir, store, images) = home();
    let manifest = testing::snapshot(&store, 7);
    let installed = load(&store, &images, &manifest, &testing::workload(), &DeviceFallback::cpu()).unwrap();
    assert_eq!(installed.policy.version(), 7);
}

#[test]
fn a_policy_generates_what_its_snapshot_says_whatever_order_its_tensors_have() {
    let (_dir, store, images) = home();
    let (workload, mut manifest) = (testing::workload(), testing::snapshot(&store, 7));
    let weights = Weights::random(&workload.model, 7);
    let expected = Arc::new(Policy::load(7, &workload.model, &weights).unwrap());
    for _ in 0..2 {
        let installed = load(&store, &images, &manifest, &workload, &DeviceFallback::cpu()).unwrap();
        let request = workload.request(OrderCounter(3), &installed.tokenizer).unwrap();
        let expected = Generation::start(expected.clone(), vec![request.clone()]).unwrap().run().unwrap();
        // Where it generates, and where it checks others.
        let own = Generation::start(installed.policy.clone(), vec![request.clone()]).unwrap().run().unwrap();
        let audits = Arc::new(installed.weights.policy(installed.precision()).unwrap());
        let audits = Generation::start(audits, vec![request]).unwrap().run().unwrap();
        assert!(own == expected && audits == expected);
        manifest.tensors.reverse();
    }
}

#[test]
fn a_damaged_chunk_is_named_and_is_no_longer_there() {
    let (dir, store, images) = home();
    let manifest = testing::snapshot(&store, 7);
    let path = file_of(&dir.path().join("chunks"), &manifest.chunks[1].to_string());
    flip_a_bit(&path);
    let error = load(&store, &images, &manifest, &testing::workload(), &DeviceFallback::cpu()).err().unwrap();
    assert!(matches!(
        error,
        InstallError::Chunk { index: ChunkIndex(1), source: ChunkStoreError::Damaged { .. } }
    ));
    assert!(!store.present(&manifest).contains(&ChunkIndex(1)));
}

#[test]
fn without_room_for_its_weights_a_policy_is_not_installed_and_the_reason_names_the_place() {
    let (dir, store, images) = home();
    let manifest = testing::snapshot(&store, 7);
    fs::remove_dir(dir.path().join("images")).unwrap();
    let error = load(&store, &images, &manifest, &testing::workload(), &DeviceFallback::cpu()).err().unwrap();
    assert!(matches!(error, InstallError::Weights(WeightsError::Image { .. })), "{error}");
    assert!(error.to_string().contains("images") && error.to_string().contains("free"), "{error}");
    assert_eq!(store.present(&manifest).len(), manifest.chunks.len());
}

#[tokio::test]
async fn a_node_keeps_its_version_until_the_next_one_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(ChunkStore::open(&dir.path().join("chunks")).unwrap());
    let (host, _events) = testing::host(1, Vec::new()).await;
    let config = SnapshotsConfig::new(public(1), SnapshotRole::Relay, DisseminationMode::Echo);
    let (snapshots, events) = Snapshots::start(host.clone(), store.clone(), config).unwrap();
    let node_state = Arc::new(NodeState::default());
    let learner = echo_protocol::net::peer_id_of([99; 32]);
    let neighbours = CurrentNeighbours::new(host.clone(), learner, snapshots.clone(), node_state.clone());
    let workload = testing::workload();
    let manifests = Arc::new(Manifests::new(workload.clone(), snapshots.clone()));
    let (policy, mut installed) = watch::channel(None);
    let kept = dir.path().join("installed");
    let downloads = SnapshotDownloads {
        workload,
        store: store.clone(),
        images: Images::open(&dir.path().join("images")).unwrap(),
        fallback: Arc::new(DeviceFallback::cpu()),
        snapshots: snapshots.clone(),
        manifests: manifests.clone(),
        learner: LearnerClient::new(host.clone(), learner),
        neighbours,
        node_state,
        kept: kept.clone(),
        policy: Some(policy),
        instead: None,
        installed: watch::Sender::new(None),
    };
    let running = tokio::spawn(downloads.run(events));
    let offer = async |manifest: &Manifest| {
        manifests.offer(Signed::sign(manifest, &testing::learner_key()).unwrap()).await.unwrap().unwrap()
    };

    offer(&testing::snapshot(&store, 1)).await;
    installed.changed().await.unwrap();
    assert_eq!(installed.borrow_and_update().as_ref().unwrap().policy.version(), 1);

    // Version 2 has all of its files, but one is damaged: it is not installed, and the
    // chunk counts as missing.
    let second = testing::snapshot(&store, 2);
    let path = file_of(&dir.path().join("chunks"), &second.chunks[3].to_string());
    flip_a_bit(&path);
    offer(&second).await;
    while path.exists() {
        tokio::task::yield_now().await;
    }
    assert!(!installed.has_changed().unwrap());
    assert_eq!(store.present(&second).len(), second.chunks.len() - 1);

    // A parent that has it mends it; only now version 2 takes over, and is what the next start begins with.
    let (source, _source_events) = testing::host(2, Vec::new()).await;
    let source_store = Arc::new(ChunkStore::open(&dir.path().join("source")).unwrap());
    let whole = Arc::new(testing::snapshot(&source_store, 2));
    let config = SnapshotsConfig::new(public(2), SnapshotRole::Source, DisseminationMode::Echo);
    let (publisher, _published) = Snapshots::start(source.clone(), source_store, config).unwrap();
    publisher.publish(whole).await.unwrap();
    let addresses = source.listen_addrs().iter().map(ToString::to_string).collect();
    let parent = (Peer { key: public(2), addresses }, dissemination::NeighbourRole::Parent);
    snapshots.neighbours(vec![parent]).await.unwrap();
    installed.changed().await.unwrap();
    assert_eq!(installed.borrow_and_update().as_ref().unwrap().policy.version(), 2);
    while Manifests::kept(&kept).is_none_or(|m| m.open().unwrap().version != PolicyVersion(2)) {
        tokio::task::yield_now().await;
    }
    running.abort();
    host.shutdown().await;
    source.shutdown().await;
}

fn public(secret: u8) -> PublicKey {
    NodeKey::from_secret([secret; 32]).public()
}
