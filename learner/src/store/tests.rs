use std::fs;
use std::sync::Arc;

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
    assert!(matches!(store.apply(&batch), Err(StoreError::TooLarge { what: "key", .. })));
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
    assert!(matches!(store.flush(), Err(StoreError::Full { .. })));
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
        assert!(matches!(SledStore::open(dir.path()), Err(StoreError::InUse { .. })));
        // Side files are never synced: a value in one would not survive power loss.
        assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
    }
    let store = SledStore::open(dir.path()).unwrap();
    assert!((0..8).all(|key| store.get(Tree::Groups, &[key]).unwrap() == Some(value(700_002))));
}

#[test]
fn truncated_files_lose_values_or_refuse_to_open_but_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = SledStore::open(dir.path()).unwrap();
        for key in 0..40 {
            put(&store, Tree::Groups, key, seal(&value(40_000)).unwrap());
            store.flush().unwrap();
        }
    }
    let whole = fs::read(dir.path().join("db")).unwrap();
    for cut in 0..12 {
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("blobs")).unwrap();
        fs::copy(dir.path().join("conf"), copy.path().join("conf")).unwrap();
        let kept = whole.len() * cut / 12;
        fs::write(copy.path().join("db"), &whole[..kept]).unwrap();
        match SledStore::open(copy.path()) {
            Ok(store) => {
                // What sled lost of a value is missing from it; the checksum of the record is what its reader goes by.
                let read = store.visit(Tree::Groups, &mut |_, found| {
                    let record = unseal::<Vec<u8>>(&found);
                    assert!(record.is_none_or(|found| found == value(40_000)), "a record that nobody wrote");
                });
                assert!(matches!(read, Ok(()) | Err(StoreError::Damaged { .. } | StoreError::Io { .. })));
            }
            Err(error) => assert!(error.to_string().contains("move that directory away"), "{error}"),
        }
    }
}
