//! A chunk that rots on the wire or on a disk is neither installed nor passed on, and the volunteer
//! goes on with true ones.
//!
//! Somebody who holds all work that may be handed out keeps the run at its first version until the
//! damage is done and mended, so nothing here depends on who is quicker.
#![cfg(test)]

use echo_lab::harness::liar::{Liar, LiarOrder, PATIENCE, ROTTEN, receive};
use echo_lab::harness::network::{TestNetwork, TestNodeConfig};
use echo_lab::harness::small_run;
use echo_lab::harness::small_run::until;
use echo_protocol::control::requests::Peer;
use echo_protocol::net::PeerId;
use echo_protocol::net::peer_id::{addresses_of, peer_of_key};
use echo_protocol::program::keyfile;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::content_id::{ChunkIndex, ContentId};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::submission::Outcome;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More than are made before the tests end.
const UPDATES: u32 = 100_000;
const LIMIT: Duration = Duration::from_secs(120);
const GRACE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_on_the_wire_is_not_kept_and_cuts_the_parent_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut network = small_run::start(dir.path(), UPDATES).await.unwrap();
    let mut liar = Liar::join(&network.layout().list(), [1; 32], true).await.unwrap();
    let hoard = liar.hoard().await.unwrap();
    let manifest = newest_manifest(&liar).await;
    let chunks = receive(liar.host(), liar.learner().peer(), &manifest).await.unwrap();
    assert_true(&manifest, &chunks);
    assert!(chunks.len() == manifest.chunks.len() && chunks.contains_key(&ROTTEN));
    let mut parent = liar.poison(chunks).unwrap();

    // Who joined first stands before who joins second.
    let node = network.add_node(volunteer()).unwrap();
    let child = parent.serve().await.unwrap();
    assert_eq!(child, node_key(&network, node));
    gone(&liar, peer_of_key(&child).unwrap()).await;
    installs(&mut network, node, manifest.version).await;
    assert!(log(&network, node).contains("cut off"), "{}", log(&network, node));
    let learner = liar.learner_key().short();
    until("the learner as the parent", LIMIT, &mut network, |network| {
        (network.node_status(node)?["parent"] == learner.as_str()).then_some(())
    })
    .await
    .unwrap();
    let (kept, rotten) = store_files(&network, node);
    assert!(rotten.is_empty(), "{rotten:?}");
    assert_eq!(kept, manifest.chunks.len());

    goes_on(&mut network, node, &mut liar, hoard, manifest.version).await;
    let layout = network.layout().clone();
    let name = network.node_name(node).to_owned();
    network.stop(GRACE).await.unwrap();
    assert_eq!(rotten_files(&layout.node_dir(&name).join("chunks")).1, Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_on_disk_is_neither_installed_nor_forwarded() {
    let dir = tempfile::tempdir().unwrap();
    let mut network = small_run::start(dir.path(), UPDATES).await.unwrap();
    let mut holder = Liar::join(&network.layout().list(), [1; 32], false).await.unwrap();
    let hoard = holder.hoard().await.unwrap();
    let manifest = newest_manifest(&holder).await;
    let node = network.add_node(volunteer()).unwrap();
    installs(&mut network, node, manifest.version).await;

    // While the volunteer is away.
    network.kill_node(node).await.unwrap();
    damage(&chunk_file(&network, node, &manifest, 2));
    fs::remove_file(network.layout().node_dir(network.node_name(node)).join("status.json")).unwrap();
    let before = log(&network, node).len();
    network.start_node(node).unwrap();
    installs(&mut network, node, manifest.version).await;
    let said = log(&network, node).split_off(before);
    let (damaged, installed) = (said.find("was damaged on disk"), said.find(" INFO installed version="));
    assert!(damaged.is_some() && damaged < installed, "{said}");
    assert_eq!(store_files(&network, node), (manifest.chunks.len(), Vec::new()));

    // While it is at work: what its child gets is true, and the file is mended.
    damage(&chunk_file(&network, node, &manifest, 3));
    // It relays nothing, so it comes after the volunteer.
    let child = Liar::join(&network.layout().list(), [2; 32], false).await.unwrap();
    let parent = reach_parent(&child, node_key(&network, node)).await;
    let received = receive(child.host(), parent, &manifest).await.unwrap();
    assert_true(&manifest, &received);
    // Only reading the chunk in order to forward it can have found the damage.
    until("a mended store", LIMIT, &mut network, |network| {
        (store_files(network, node) == (manifest.chunks.len(), Vec::new())).then_some(())
    })
    .await
    .unwrap();
    let again = receive_again(&child, parent, &manifest).await;
    assert_true(&manifest, &again);
    assert_eq!(again.len(), manifest.chunks.len(), "mended, it passes everything on");

    goes_on(&mut network, node, &mut holder, hoard, manifest.version).await;
    let layout = network.layout().clone();
    let name = network.node_name(node).to_owned();
    network.stop(GRACE).await.unwrap();
    assert_eq!(rotten_files(&layout.node_dir(&name).join("chunks")).1, Vec::<PathBuf>::new());
}

/// A volunteer whose log is plain text.
fn volunteer() -> TestNodeConfig {
    let mut node = TestNodeConfig::several(1).remove(0);
    node.environment.insert("NO_COLOR".into(), "1".into());
    node
}

async fn newest_manifest(member: &Liar) -> Manifest {
    member.learner().newest().await.unwrap();
    let signed = member.learner().manifest().await.unwrap();
    signed.open_from(&member.learner_key()).unwrap()
}

/// Every chunk is what the manifest says.
fn assert_true(manifest: &Manifest, chunks: &BTreeMap<ChunkIndex, Vec<u8>>) {
    for (index, bytes) in chunks {
        assert!(manifest.chunk_id(*index).unwrap().matches(bytes), "{index:?}");
    }
}

/// Waits until the volunteer says that it generates under `version` or a newer one.
async fn installs(network: &mut TestNetwork, node: usize, version: PolicyVersion) {
    until("an installation", LIMIT, network, |network| {
        let installed = network.node_status(node)?["version"].as_u64()?;
        (installed >= version.0).then_some(())
    })
    .await
    .unwrap();
}

/// Hands the hoarded work in, so that the run moves on, and waits until the volunteer works
/// under a newer version.
async fn goes_on(
    network: &mut TestNetwork,
    node: usize,
    member: &mut Liar,
    hoard: Vec<LiarOrder>,
    old: PolicyVersion,
) {
    for order in hoard {
        let work = member.work(order).await.unwrap();
        assert_eq!(member.send(&work).await.unwrap().outcome, Outcome::Accepted);
    }
    installs(network, node, old.next()).await;
    until("accepted work", LIMIT, network, |network| {
        network.node_status(node)?["accepted"].as_u64().filter(|accepted| *accepted > 0)
    })
    .await
    .unwrap();
}

/// Pulls once more from one who refuses those that come back within a moment.
async fn receive_again(member: &Liar, parent: PeerId, manifest: &Manifest) -> BTreeMap<ChunkIndex, Vec<u8>> {
    let served = async {
        loop {
            let received = receive(member.host(), parent, manifest).await.unwrap();
            if !received.is_empty() {
                return received;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, served).await.unwrap()
}

/// Waits until the volunteer has closed its connections with us.
async fn gone(liar: &Liar, node: PeerId) {
    let disconnected = async {
        while liar.host().connected_peers().await.contains(&node) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, disconnected).await.unwrap();
}

/// Connects a member to its parent, which has to be `expected`, where the learner says that it is.
async fn reach_parent(member: &Liar, expected: PublicKey) -> PeerId {
    let reach = async {
        loop {
            let is_parent = |peer: &Peer| peer.key == expected;
            let news = member.learner().news("a parent", |news| news.parent.as_ref().is_some_and(is_parent));
            let parent = news.await.unwrap().parent.unwrap();
            let peer = peer_of_key(&parent.key).unwrap();
            // Until its first heartbeat the learner names the address that it had before it was killed.
            if member.host().dial(peer, addresses_of(&parent)).await.is_ok() {
                return peer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reach).await.unwrap()
}

fn node_dir(network: &TestNetwork, node: usize) -> PathBuf {
    network.layout().node_dir(network.node_name(node))
}

fn node_key(network: &TestNetwork, node: usize) -> PublicKey {
    keyfile::load_or_create(&node_dir(network, node).join("identity")).unwrap().public()
}

fn log(network: &TestNetwork, node: usize) -> String {
    fs::read_to_string(network.layout().log(network.node_name(node))).unwrap()
}

fn chunk_file(network: &TestNetwork, node: usize, manifest: &Manifest, index: u32) -> PathBuf {
    let name = manifest.chunk_id(ChunkIndex(index)).unwrap().to_string();
    node_dir(network, node).join("chunks").join(&name[..2]).join(name)
}

/// Flips one bit in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn store_files(network: &TestNetwork, node: usize) -> (usize, Vec<PathBuf>) {
    rotten_files(&node_dir(network, node).join("chunks"))
}

/// How many true chunks lie in a store, and the files that are not what their names say.
fn rotten_files(store: &Path) -> (usize, Vec<PathBuf>) {
    let mut whole = 0;
    let mut rotten = Vec::new();
    for folder in fs::read_dir(store).unwrap().map(Result::unwrap) {
        if folder.file_name() == "drafts" {
            continue;
        }
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            // A running volunteer may delete it under our eyes.
            let Ok(bytes) = fs::read(file.path()) else { continue };
            if file.file_name().to_str() == Some(&ContentId::of(&bytes).to_string()) {
                whole += 1;
            } else {
                rotten.push(file.path());
            }
        }
    }
    (whole, rotten)
}
