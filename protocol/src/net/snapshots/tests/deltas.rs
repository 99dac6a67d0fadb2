//! Versions that are made from the one before.

use super::*;
use crate::snapshot::delta;
use crate::snapshot::delta::Width;

/// `old` with few of its numbers changed.
fn nudged(old: &[u8], salt: usize) -> Vec<u8> {
    let mut new = old.to_vec();
    (salt..new.len()).step_by(4_001).for_each(|at| new[at] ^= 1);
    new
}

/// Writes `bytes` as a version with deltas against `base`.
fn publish_delta(store: &ChunkStore, base: &Manifest, version: u64, bytes: Vec<u8>) -> Arc<Manifest> {
    let mut manifest = write(store, version, bytes);
    let delta = |(old, new): (&ContentId, &ContentId)| {
        let blob = delta::encode(&store.read(old).unwrap(), &store.read(new).unwrap(), Width::Two)?;
        let length = blob.len() as u32;
        Some(DeltaEntry { base: *old, id: store.put(&blob).unwrap(), length })
    };
    manifest.deltas = base.chunks.iter().zip(&manifest.chunks).map(delta).collect();
    manifest.base = Some(base.version);
    assert!(manifest.deltas.iter().all(Option::is_some));
    manifest.validate().unwrap();
    Arc::new(manifest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cheap_path_and_the_full_one_side_by_side() {
    let ((source, _a), (mut old, _b), (mut new, _c)) = (
        peer(1, SnapshotRole::Source).await,
        peer(2, SnapshotRole::Relay).await,
        peer(3, SnapshotRole::Relay).await,
    );
    let base = snapshot(&source.store, 2);
    source.snapshots.publish(base.clone()).await.unwrap();
    old.pull_from(vec![source.named(Part::Parent)]).await;
    old.announce(&base).await;
    old.installed().await;
    let before = old.stats().await.received_bytes;

    let bytes = nudged(&noise(2), 1);
    let next = publish_delta(&source.store, &base, 4, bytes.clone());
    source.snapshots.publish(next.clone()).await.unwrap();
    new.pull_from(vec![source.named(Part::Parent), old.named(Part::Mesh)]).await;
    for node in [&mut old, &mut new] {
        node.announce(&next).await;
    }
    for node in [&mut old, &mut new] {
        assert_eq!(node.installed().await.version, next.version);
        node.assert_whole(&next, &bytes);
    }
    let delta = old.stats().await.received_bytes - before;
    assert!(delta < TOTAL / 10, "{delta} bytes for a version that hardly changed");
    assert!(new.stats().await.received_bytes >= TOTAL, "a newcomer has nothing that a delta applies to");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_missed_a_version_takes_the_deltas_of_both() {
    let ((source, _a), (mut node, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(2, SnapshotRole::Relay).await);
    let first = snapshot(&source.store, 2);
    source.snapshots.publish(first.clone()).await.unwrap();
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.announce(&first).await;
    node.installed().await;
    let before = node.stats().await.received_bytes;

    let (missed, wanted) = (nudged(&noise(2), 1), nudged(&nudged(&noise(2), 1), 7));
    let second = publish_delta(&source.store, &first, 4, missed);
    let third = publish_delta(&source.store, &second, 6, wanted.clone());
    source.snapshots.publish(second.clone()).await.unwrap();
    source.snapshots.publish(third.clone()).await.unwrap();
    node.announce(&second).await;
    node.announce(&third).await;
    let last = async { while node.installed().await.version != third.version {} };
    last.await;
    node.assert_whole(&third, &wanted);
    assert!(node.stats().await.received_bytes - before < TOTAL / 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delta_that_makes_another_chunk_costs_only_that_chunk() {
    let ((source, _a), (mut node, _b)) =
        (peer(1, SnapshotRole::Source).await, peer(2, SnapshotRole::Relay).await);
    let base = snapshot(&source.store, 2);
    source.snapshots.publish(base.clone()).await.unwrap();
    node.pull_from(vec![source.named(Part::Parent)]).await;
    node.announce(&base).await;
    node.installed().await;
    let before = node.stats().await.received_bytes;

    let bytes = nudged(&noise(2), 1);
    let mut next = (*publish_delta(&source.store, &base, 4, bytes.clone())).clone();
    // Two deltas trade places: they apply, and make something else.
    let ids = [3, 4].map(|chunk| next.deltas[chunk].unwrap());
    for (chunk, other) in [(3, ids[1]), (4, ids[0])] {
        next.deltas[chunk] = Some(DeltaEntry { base: ids[chunk - 3].base, ..other });
    }
    let next = Arc::new(next);
    source.snapshots.publish(next.clone()).await.unwrap();
    node.announce(&next).await;
    node.installed().await;
    node.assert_whole(&next, &bytes);
    let received = node.stats().await.received_bytes - before;
    assert!((2 * u64::from(CHUNK)..TOTAL / 2).contains(&received), "{received} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deltas_that_no_neighbour_has_are_given_up() {
    let ((source, _a), (mut old, _b), (mut new, _c)) = (
        peer(1, SnapshotRole::Source).await,
        peer(2, SnapshotRole::Relay).await,
        peer(3, SnapshotRole::Relay).await,
    );
    let base = snapshot(&source.store, 2);
    source.snapshots.publish(base.clone()).await.unwrap();
    old.pull_from(vec![source.named(Part::Parent)]).await;
    old.announce(&base).await;
    old.installed().await;

    let bytes = nudged(&noise(2), 1);
    let next = publish_delta(&source.store, &base, 4, bytes.clone());
    source.snapshots.publish(next.clone()).await.unwrap();
    new.pull_from(vec![source.named(Part::Parent)]).await;
    new.announce(&next).await;
    new.installed().await;
    // The newcomer has every chunk and no delta.
    old.pull_from(vec![new.named(Part::Parent)]).await;
    old.announce(&next).await;
    old.installed().await;
    old.assert_whole(&next, &bytes);
}
