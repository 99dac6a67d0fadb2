use super::*;
use crate::snapshot::blocks::BlockTree;
use crate::snapshot::manifest::tests::with_deltas;
use crate::snapshot::manifest::{Piece, PieceIndex};
use crate::store::tests::store;
use std::sync::atomic::{AtomicBool, Ordering};

fn bytes(version: u64, at: u8, delta: bool) -> Vec<u8> {
    let length = if delta { 100 } else { 16 << 10 };
    (0..length).map(|i: usize| (i as u8) ^ at ^ (version as u8) << 4 ^ u8::from(delta) << 7).collect()
}

/// A manifest whose pieces are all in `store`: four chunks and as many deltas. All but the first of
/// each differ from version to version.
fn manifest(store: &ChunkStore, version: u64) -> Arc<Manifest> {
    let mut manifest = with_deltas(version, 4, 100);
    for at in 0..4 {
        // The first chunk is the same in every version.
        let version = if at == 0 { 0 } else { version };
        manifest.chunks[at as usize] = store.put(&bytes(version, at, false)).unwrap();
        manifest.deltas[at as usize].as_mut().unwrap().id = store.put(&bytes(version, at, true)).unwrap();
    }
    Arc::new(manifest)
}

fn here(store: &ChunkStore, manifest: &Manifest) -> usize {
    manifest.ids().filter(|id| store.read(id).is_ok()).count()
}

#[test]
fn what_a_kept_manifest_names_stays() {
    let (_dir, store) = store();
    let (old, new) = (manifest(&store, 1), manifest(&store, 2));
    for kept in [&old, &old, &new] {
        store.keep(kept);
    }
    assert_eq!(store.discard(&old).unwrap(), 0, "it was kept twice");
    assert_eq!(store.discard(&old).unwrap(), 6, "the first chunk and its delta are shared");
    assert_eq!(store.discard(&old).unwrap(), 0);
    assert_eq!((here(&store, &old), here(&store, &new)), (2, 8));
    assert_eq!(store.discard(&new).unwrap(), 8);
    assert_eq!(here(&store, &new), 0);
}

#[test]
fn sweeping_leaves_the_kept_and_takes_partial_pieces_too() {
    let (dir, store) = store();
    let (old, new) = (manifest(&store, 1), manifest(&store, 2));
    let big = vec![3; 200 << 10];
    let (id, tree) = BlockTree::of(&big);
    store.begin(&Piece { id, length: big.len() as u64 }, tree).unwrap();
    fs::write(dir.path().join("notes.txt"), b"not ours").unwrap();
    store.keep(&new);
    assert_eq!(store.sweep().unwrap(), 7);
    assert_eq!((here(&store, &old), here(&store, &new)), (2, 8));
    assert_eq!(fs::read_dir(dir.path().join(PARTIAL)).unwrap().count(), 0);
    assert!(dir.path().join("notes.txt").exists());
}

#[test]
fn nothing_is_deleted_while_a_snapshot_is_written() {
    let (_dir, store) = store();
    let old = manifest(&store, 1);
    store.keep(&old);
    let draft = store.draft();
    // Both happen to have the first chunk. It is found present, and then the old version is discarded.
    let new = manifest(&store, 2);
    assert_eq!(store.discard(&old).unwrap(), 0);
    assert_eq!(here(&store, &old), 8);
    draft.keep(&new);
    assert_eq!((here(&store, &old), here(&store, &new)), (2, 8));
}

#[test]
fn a_chunk_found_present_after_keeping_is_never_deleted() {
    let (_dir, store) = store();
    let (old, new) = (manifest(&store, 1), manifest(&store, 2));
    let piece = new.piece(PieceIndex(0)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Whatever this thread keeps and finds it can read until it lets go.
            for _ in 0..300 {
                store.keep(&new);
                if !store.held(&piece).is_empty() {
                    assert!(store.read(&piece.id).is_ok());
                } else {
                    store.write(&piece.id, &bytes(0, 0, false)).unwrap();
                }
                assert!(store.read_block(&piece, 0).is_ok());
                store.discard(&new).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            store.keep(&old);
            store.discard(&old).unwrap();
        }
    });
}
