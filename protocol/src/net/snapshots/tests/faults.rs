//! Peers that lie, leave or ask for too much.

use super::peers::{ask, blocks, consumer, hear, say};
use super::*;
use crate::net::snapshots::frames::{PullMessage, ServeMessage, read};
use crate::snapshot::manifest::PieceIndex;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_that_dies_in_mid_transfer_is_reported_and_replaced() {
    let ((source, _a), (mut node, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(3, SnapshotRole::Relay).await);
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let mortal = stand_in(2, &source, &manifest, Stand::Mortal(9)).await;
    node.pull_from(vec![mortal.named()]).await;
    node.announce(&manifest).await;
    node.misses(mortal.key).await;
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.installed().await;
    node.assert_whole(&manifest, &noise(2));
    let stats = node.stats().await;
    assert_eq!(stats.dissemination.duplicates, 0);
    assert!(source.stats().await.sent_bytes < TOTAL, "what the dead parent had sent was kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_goes_on_where_it_was() {
    let ((source, _a), dir) = (peer(1, SnapshotRole::Source).await, tempfile::tempdir().unwrap());
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let mortal = stand_in(2, &source, &manifest, Stand::Mortal(13)).await;
    let mut before = peer_in(dir.path(), 3, SnapshotRole::Relay, None).await;
    before.pull_from(vec![mortal.named()]).await;
    before.announce(&manifest).await;
    before.misses(mortal.key).await;
    let kept: u64 = before.stats().await.dissemination.upstreams.iter().map(|u| u.bytes).sum();
    assert!(kept > 0, "what arrived before the stream broke is stored");
    before.host.shutdown().await;
    drop(before);

    let mut after = peer_in(dir.path(), 3, SnapshotRole::Relay, None).await;
    after.pull_from(vec![source.named(Part::Parent)]).await;
    after.announce(&manifest).await;
    after.installed().await;
    after.assert_whole(&manifest, &noise(2));
    // All that the first process stored is still there.
    assert!(source.stats().await.sent_bytes <= TOTAL - kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lies_of_every_kind_cut_off() {
    let (source, _dir) = peer(1, SnapshotRole::Source).await;
    let manifest = snapshot(&source.store, 2);
    let stands = [Stand::Rotten, Stand::WrongTree, Stand::Oversized, Stand::Boasting];
    for (stand, seed) in stands.into_iter().zip(20..) {
        let liar = stand_in(seed, &source, &manifest, stand).await;
        let (mut node, _dir) = peer(seed + 50, SnapshotRole::Relay).await;
        node.pull_from(vec![liar.named()]).await;
        node.announce(&manifest).await;
        assert_eq!(node.cut_off().await, liar.key, "{stand:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_liar_says_that_it_sends_takes_no_room_under_the_cap() {
    let ((source, _a), (mut node, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(3, SnapshotRole::Relay).await);
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let liar = stand_in(2, &source, &manifest, Stand::Boasting).await;
    node.host.pacing().set_max_download(Some(4 * TOTAL));
    node.pull_from(vec![liar.named()]).await;
    node.announce(&manifest).await;
    assert_eq!(node.cut_off().await, liar.key);
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.installed().await;
    node.assert_whole(&manifest, &noise(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_tells_the_same_without_an_end_is_let_go() {
    let ((source, _a), (mut node, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(3, SnapshotRole::Relay).await);
    let manifest = snapshot(&source.store, 2);
    let babbler = stand_in(2, &source, &manifest, Stand::Babbling).await;
    node.pull_from(vec![babbler.named()]).await;
    node.announce(&manifest).await;
    node.misses(babbler.key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_bytes_with_what_it_asks_for_is_not_listened_to() {
    let (source, _dir) = peer(1, SnapshotRole::Source).await;
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let (_host, _events, mut stream) = consumer(2, &source, &manifest).await;
    let cancel = PullMessage::Cancel { piece: PieceIndex(0), blocks: blocks(1) };
    say(&mut stream, &cancel, &[7; 1000]).await.unwrap();
    assert_eq!(hear(&mut stream, &manifest).await, (vec![], false), "the stream ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_is_cut_off_can_still_be_talked_to() {
    let (source, _dir) = peer(1, SnapshotRole::Source).await;
    let manifest = snapshot(&source.store, 2);
    let learner = stand_in(2, &source, &manifest, Stand::Rotten).await;
    let dir = tempfile::tempdir().unwrap();
    let mut node = peer_in(dir.path(), 3, SnapshotRole::Relay, Some(learner.key)).await;
    // Neighbours are heard of from a learner that is connected; local addresses count only from such a one.
    node.host.dial(learner.host.peer_id(), learner.host.listen_addrs()).await.unwrap();
    node.pull_from(vec![learner.named()]).await;
    node.announce(&manifest).await;
    assert_eq!(node.cut_off().await, learner.key);
    node.host.dial(learner.host.peer_id(), learner.host.listen_addrs()).await.unwrap();
    // But nothing is fetched from it any more.
    node.pull_from(vec![learner.named()]).await;
    node.misses(learner.key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_what_is_not_here_is_refused_and_others_are_served() {
    let (source, _dir) = peer(1, SnapshotRole::Source).await;
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let (_host, _events, mut greedy) = consumer(2, &source, &manifest).await;
    let (_host, _events, mut modest) = consumer(3, &source, &manifest).await;
    let request =
        |piece, mask| PullMessage::Request { piece: PieceIndex(piece), blocks: blocks(mask), tree: true };
    ask(&mut modest, &request(0, 0b11)).await;
    ask(&mut modest, &request(1, 0b1000)).await;
    // A chunk has four blocks, so this has none of the blocks that are asked for.
    ask(&mut greedy, &request(3, 0b10000)).await;
    assert_eq!(hear(&mut greedy, &manifest).await, (vec![], true));
    ask(&mut modest, &PullMessage::Request { piece: PieceIndex(1), blocks: blocks(0b1), tree: false }).await;
    ask(&mut modest, &request(99, 1)).await;
    let (mut came, refused) = hear(&mut modest, &manifest).await;
    came.sort_unstable();
    // What was asked before the nonsense may have been on its way or not.
    let asked = [(0, 0), (0, 1), (1, 0), (1, 3)].map(|(piece, block)| (PieceIndex(piece), block));
    assert!(refused && came.iter().all(|block| asked.contains(block)), "{came:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_damaged_on_disk_is_fetched_again_before_anybody_gets_it() {
    let ((source, _a), (mut child, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(4, SnapshotRole::Relay).await);
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut node = peer_in(dir.path(), 3, SnapshotRole::Relay, None).await;
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.announce(&manifest).await;
    node.installed().await;
    // Another process, which remembers nothing of what it once verified.
    node.host.shutdown().await;
    drop(node);
    let id: ContentId = manifest.chunks[7];
    let path = dir.path().join(&id.to_string()[..2]).join(id.to_string());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] ^= 0x40;
    std::fs::write(&path, bytes).unwrap();
    let mut node = peer_in(dir.path(), 3, SnapshotRole::Relay, None).await;
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.announce(&manifest).await;
    node.installed().await;

    child.pull_from(vec![node.named(Part::Parent)]).await;
    child.announce(&manifest).await;
    // The node finds the damage when it reads the chunk, and heals itself from its own parent.
    node.installed().await;
    node.assert_whole(&manifest, &noise(2));
    child.installed().await;
    child.assert_whole(&manifest, &noise(2));
    assert!(child.stats().await.cut_off.is_empty(), "an honest node with a bad disk was cut off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_means_another_snapshot_of_the_same_number_is_refused_and_not_taken_for_a_liar() {
    let ((source, _a), (mut node, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(3, SnapshotRole::Relay).await);
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let other = Arc::new(write(&source.store, 2, noise(99)));
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.announce(&other).await;
    node.misses(source.key).await;
    assert!(node.stats().await.cut_off.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_makes_nobody_known_to_the_source_and_a_consumer_of_a_node_is_no_stranger() {
    let ((source, _a), (relay, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(2, SnapshotRole::Relay).await);
    let (kept, _kept_events) = host(3).await;
    for party in [&source, &relay] {
        party.host.keep(vec![kept.peer_id()]).await.unwrap();
    }
    let manifest = snapshot(&source.store, 2);
    source.snapshots.publish(manifest.clone()).await.unwrap();
    let (stranger, _events, mut stream) = consumer(4, &source, &manifest).await;
    // It is told what is here, so it has a place.
    read::<ServeMessage>(&mut stream).await.unwrap().unwrap();
    assert!(source.host.pacing().is_stranger(&stranger.peer_id()));
    let (pulling, _events, _stream) = consumer(5, &relay, &manifest).await;
    let is_served = async {
        while relay.host.pacing().is_stranger(&pulling.peer_id()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_served).await.expect("its stream is served");
}
