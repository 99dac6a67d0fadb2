use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

fn entries(store: &dyn Store, tree: Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    store.visit(tree, &mut |key, value| found.push((key.to_vec(), value))).unwrap();
    found
}

fn put(store: &dyn Store, tree: Tree, key: u8, value: Vec<u8>) {
    let mut batch = WriteBatch::default();
    batch.put(tree, &[key], value);
    store.apply(&batch).unwrap();
}

fn value(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn both_stores_keep_trees_apart_and_values_of_any_size() {
    let dir = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::default()), Arc::new(SledStore::open(dir.path()).unwrap())];
    for store in stores {
        let sizes = [0, 1, 4_095, 4_096, 4_097, 8_192, 1_000_000];
        for (key, size) in (0u8..).zip(sizes) {
            put(&*store, Tree::Groups, key, value(size));
        }
        put(&*store, Tree::Waiting, 3, b"other tree".to_vec());
        for (key, size) in (0u8..).zip(sizes) {
            assert_eq!(store.get(Tree::Groups, &[key]).unwrap(), Some(value(size)), "{size}");
        }
        let visited: Vec<usize> =
            entries(&*store, Tree::Groups).iter().map(|(_, value)| value.len()).collect();
        assert_eq!(visited, sizes);

        // A shorter value leaves nothing of the longer one behind.
        put(&*store, Tree::Groups, 6, b"short".to_vec());
        assert_eq!(store.get(Tree::Groups, &[6]).unwrap(), Some(b"short".to_vec()));
        let mut batch = WriteBatch::default();
        (0..7).for_each(|key| batch.remove(Tree::Groups, &[key]));
        store.apply(&batch).unwrap();
        assert_eq!(entries(&*store, Tree::Groups), []);
        assert_eq!(entries(&*store, Tree::Waiting), [(vec![3], b"other tree".to_vec())]);
        store.flush().unwrap();
    }
}

#[test]
fn limits_refuse_the_whole_batch() {
    let store = MemoryStore::default();
    let mut batch = WriteBatch::default();
    batch.put(Tree::Groups, &[1], vec![1]);
    batch.put(Tree::Groups, &[0; MAX_KEY_BYTES + 1], vec![1]);
    assert!(matches!(store.apply(&batch), Err(ObjectStoreError::TooLarge { what: "key", .. })));
    assert_eq!(store.get(Tree::Groups, &[1]).unwrap(), None);
}

#[test]
fn a_crash_keeps_flushed_batches_and_a_prefix_of_the_rest() {
    let store = MemoryStore::default();
    put(&store, Tree::Groups, 1, vec![1]);
    store.flush().unwrap();
    put(&store, Tree::Groups, 2, vec![2]);
    put(&store, Tree::Groups, 3, vec![3]);
    store.crash(1);
    assert_eq!(entries(&store, Tree::Groups), [(vec![1], vec![1]), (vec![2], vec![2])]);

    store.fail_after(Some(1));
    put(&store, Tree::Groups, 4, vec![4]);
    assert!(matches!(store.flush(), Err(ObjectStoreError::Full { .. })));
    store.crash(0);
    assert_eq!(entries(&store, Tree::Groups).len(), 2);
}

#[test]
fn sled_reopens_with_its_contents_and_without_side_files() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = SledStore::open(dir.path()).unwrap();
        for round in 0..3 {
            (0..8).for_each(|key| put(&store, Tree::Groups, key, value(700_000 + round)));
        }
        store.flush().unwrap();
        assert!(matches!(SledStore::open(dir.path()), Err(ObjectStoreError::InUse { .. })));
        // Side files are never synced: a value in one would not survive power loss.
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
    }
    let store = SledStore::open(dir.path()).unwrap();
    assert!((0..8).all(|key| store.get(Tree::Groups, &[key]).unwrap() == Some(value(700_002))));
}

/// Bytes of a value of which sled's files are made here. With these and [`KEPT`], now and then a
/// cut leaves a store that opens, and makes sled panic at a later call.
const SIZE: usize = 60_000;
/// Values that are written, one after another.
const WRITTEN: u8 = 50;
/// Values that are not yet removed again.
const KEPT: u8 = 5;

/// The files of a store that worked for a while.
fn worked(dir: &Path) {
    let store = SledStore::open_without_background(dir).unwrap();
    for key in 0..WRITTEN {
        let mut batch = WriteBatch::default();
        batch.put(Tree::Groups, &[key], seal(&value(SIZE)).unwrap());
        batch.put(Tree::Waiting, &[key], value(100));
        batch.put(Tree::BufferHead, &[0], value(60));
        if let Some(old) = key.checked_sub(KEPT) {
            batch.remove(Tree::Groups, &[old]);
            batch.remove(Tree::Waiting, &[old]);
        }
        store.apply(&batch).unwrap();
        store.flush().unwrap();
    }
}

/// Reads, writes and flushes; every call does what it is for or says what is wrong with the store.
fn work_on(store: &SledStore) -> Result<(), ObjectStoreError> {
    // What sled lost of a value is missing from it; the checksum of the record is what its reader goes by.
    let read = |found: &[u8]| {
        let record = unseal::<Vec<u8>>(found);
        assert!(record.is_none_or(|found| found == value(SIZE)), "a record that nobody wrote");
    };
    store.visit(Tree::Groups, &mut |_, found| read(&found))?;
    for key in 0..2 * WRITTEN {
        store.get(Tree::Groups, &[key])?.iter().for_each(|found| read(found));
        let mut batch = WriteBatch::default();
        batch.put(Tree::Groups, &[key], seal(&value(SIZE)).unwrap());
        store.apply(&batch)?;
        store.flush()?;
    }
    Ok(())
}

#[test]
fn truncated_files_lose_values_or_are_refused_but_never_panic() {
    const CUTS: usize = 48;
    let dir = tempfile::tempdir().unwrap();
    worked(dir.path());
    let whole = fs::read(dir.path().join("db")).unwrap();
    for cut in 0..CUTS {
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("blobs")).unwrap();
        fs::copy(dir.path().join("conf"), copy.path().join("conf")).unwrap();
        fs::write(copy.path().join("db"), &whole[..whole.len() * cut / CUTS]).unwrap();
        let opened = SledStore::open_without_background(copy.path());
        if let Err(error) = opened.and_then(|store| work_on(&store)) {
            assert!(error.to_string().contains("move that directory away"), "{cut}: {error}");
        }
    }
}

/// Opens a store that was closed a moment ago. Processes that other tests start meanwhile hold its
/// lock until they run their program.
fn reopened(dir: &Path) -> SledStore {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match SledStore::open_without_background(dir) {
            Err(ObjectStoreError::InUse { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn damaged_settings_are_written_again_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    worked(dir.path());
    let conf = dir.path().join("conf");
    let whole = fs::read(&conf).unwrap();
    let entries = |store: &SledStore| entries(store, Tree::Groups);
    let before = entries(&reopened(dir.path()));
    for damaged in [whole[..whole.len() / 2].to_vec(), vec![0; whole.len()], b"noise and more noise".to_vec()]
    {
        fs::write(&conf, damaged).unwrap();
        assert_eq!(entries(&reopened(dir.path())), before);
        assert_eq!(fs::read(&conf).unwrap(), whole);
    }
}

#[test]
fn a_visit_begins_and_ends_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let sled = SledStore::open(dir.path()).unwrap();
    for store in [&MemoryStore::default() as &dyn Store, &sled] {
        for key in [1, 3, 5, 7] {
            // Some in several pieces.
            put(store, Tree::Groups, key, value(usize::from(key) * 3_000));
        }
        put(store, Tree::Waiting, 0, value(1));
        let seen = |from: &[u8], most: usize| {
            let mut seen = Vec::new();
            let mut each = |key: &[u8], value: Vec<u8>| {
                seen.push((key[0], value.len()));
                seen.len() < most
            };
            store.visit_from(Tree::Groups, from, &mut each).unwrap();
            seen
        };
        assert_eq!(seen(&[3], 9), [(3, 9_000), (5, 15_000), (7, 21_000)]);
        assert_eq!(seen(&[4], 1), [(5, 15_000)]);
        assert_eq!(seen(&[], 2), [(1, 3_000), (3, 9_000)]);
        assert_eq!(seen(&[8], 9), []);
    }
}
