use super::*;
use crate::run::tensor_type::TensorType;
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::Manifest;
use crate::wire::content_id::ChunkIndex;
use std::collections::BTreeSet;
use tempfile::TempDir;

const CHUNK: u32 = 16 << 10;

pub(super) fn store() -> (TempDir, ChunkStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(dir.path()).unwrap();
    (dir, store)
}

fn items(fill: u8) -> Vec<SnapshotItem> {
    let tensor = |name: &str, elements: usize, salt: u8| SnapshotItem::Tensor {
        name: name.into(),
        dtype: TensorType::F32,
        shape: vec![elements as u64],
        bytes: (0..elements * 4).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ salt).collect(),
    };
    let file = SnapshotItem::File { name: "tokenizer.json".into(), bytes: vec![7; 3 * CHUNK as usize + 5] };
    vec![file, tensor("a", 5_000, fill), tensor("b", 1, fill), tensor("c", 9_000, fill)]
}

fn written(store: &ChunkStore, version: u64, fill: u8) -> Manifest {
    let run = crate::snapshot::manifest::tests::manifest(1, 1).run;
    write_snapshot(store, run, PolicyVersion(version), CHUNK, items(fill)).unwrap()
}

#[test]
fn a_snapshot_comes_back_as_it_was() {
    let (_dir, store) = store();
    let manifest = written(&store, 1, 0);
    let mut reader = SnapshotReader::new(&store, &manifest);
    for item in items(0) {
        match item {
            SnapshotItem::File { name, bytes } => {
                assert_eq!(reader.files(|_| true).unwrap(), [(name, bytes)])
            }
            SnapshotItem::Tensor { name, bytes, .. } => {
                let entry = manifest.tensors.iter().find(|t| t.name == name).unwrap();
                let (mut found, mut most) = (Vec::new(), 0);
                let read = reader.tensor::<SnapshotReadError>(entry, |piece| {
                    found.extend_from_slice(piece);
                    most = most.max(piece.len());
                    Ok(())
                });
                read.unwrap();
                assert!(found == bytes && most <= CHUNK as usize, "{most}");
            }
        }
    }
    assert_eq!(store.present(&manifest).len(), manifest.chunks.len());
}

#[test]
fn unchanged_chunks_keep_their_names_and_survive_collection() {
    let (_dir, store) = store();
    let (old, new) = (written(&store, 1, 0), written(&store, 2, 1));
    assert_eq!(old.chunks[..3], new.chunks[..3], "the tokenizer's chunks are shared");
    assert_ne!(old.chunks[4], new.chunks[4]);
    // The file's three full chunks are equal to each other, so they are one file on disk.
    let distinct: BTreeSet<_> = old.chunks.iter().chain(&new.chunks).collect();
    let (old, new) = (Arc::new(old.clone()), Arc::new(new.clone()));
    [&old, &new].into_iter().for_each(|manifest| store.keep(manifest));
    let gone = store.discard(&old).unwrap();
    assert_eq!(distinct.len() - gone, new.chunks.iter().collect::<BTreeSet<_>>().len());
    assert_eq!(store.present(&new).len(), new.chunks.len());
}

#[test]
fn damage_is_found_deleted_and_named() {
    let (_dir, store) = store();
    let manifest = written(&store, 1, 0);
    let index = ChunkIndex(4);
    let path = store.path(&manifest.chunks[4]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut reader = SnapshotReader::new(&store, &manifest);
    let error = manifest
        .tensors
        .iter()
        .find_map(|t| reader.tensor::<SnapshotReadError>(t, |_| Ok(())).err())
        .unwrap();
    assert_eq!(error.index, index);
    assert!(matches!(error.source, ChunkStoreError::Damaged { .. }));
    assert!(!store.present(&manifest).contains(&index) && !path.exists());
    // Damage that nobody has read yet does not keep the true bytes out.
    written(&store, 1, 0);
    fs::write(&path, b"torn by a power loss").unwrap();
    written(&store, 1, 0);
    assert!(store.read(&manifest.chunks[4]).is_ok());
}

#[test]
fn bytes_that_do_not_match_their_name_are_not_kept() {
    let (dir, store) = store();
    let id = ContentId::of(b"right");
    assert!(matches!(store.write(&id, b"wrong"), Err(ChunkStoreError::Mismatch { .. })));
    assert!(matches!(store.read(&id), Err(ChunkStoreError::Missing { .. })));
    fs::write(dir.path().join("drafts/7"), b"half").unwrap();
    ChunkStore::open(dir.path()).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("drafts")).unwrap().count(), 0);
}

#[test]
fn a_delta_makes_the_chunk_that_it_was_made_for_and_no_other() {
    let (_dir, store) = store();
    let old: Vec<u8> = (0..40_000u32).flat_map(|i| (i as u16).wrapping_mul(7).to_le_bytes()).collect();
    let mut new = old.clone();
    (0..old.len()).step_by(500).for_each(|at| new[at] ^= 1);
    let blob = crate::snapshot::delta::encode(&old, &new, crate::snapshot::delta::Width::Two).unwrap();
    let (base, target) = (store.put(&old).unwrap(), ContentId::of(&new));
    let delta = Piece { id: store.put(&blob).unwrap(), length: blob.len() as u64 };
    let length = new.len() as u64;
    store.apply(&delta, &base, &target, length).unwrap();
    assert_eq!(store.read(&target).unwrap(), new);

    let other = ContentId::of(b"other");
    assert!(
        matches!(store.apply(&delta, &base, &other, length), Err(ChunkStoreError::Mismatch { id }) if id == other)
    );
    assert!(
        matches!(store.apply(&delta, &other, &target, length), Err(ChunkStoreError::Missing { id }) if id == other)
    );
    assert!(store.apply(&delta, &base, &target, u64::MAX).is_err());
    let noise = Piece { id: store.put(b"no delta").unwrap(), length: 8 };
    assert!(
        matches!(store.apply(&noise, &base, &other, length), Err(ChunkStoreError::Delta { id, .. }) if id == noise.id)
    );

    // Of a damaged base something else comes out, or nothing at all; either way it is the base that
    // is named and deleted.
    for (blob, target) in [(&delta, &target), (&noise, &other)] {
        store.write(&base, &old).unwrap();
        fs::write(store.path(&base), vec![1; old.len()]).unwrap();
        let applied = store.apply(blob, &base, target, length);
        assert!(matches!(applied, Err(ChunkStoreError::Damaged { id }) if id == base));
        assert!(!store.path(&base).exists());
    }
}

/// A file that opens and cannot be read, as on a dying disk.
#[cfg(target_os = "linux")]
#[test]
fn what_the_disk_cannot_read_any_more_is_deleted_and_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(dir.path()).unwrap();
    let id = store.put(b"chunk").unwrap();
    let path = dir.path().join(&id.to_string()[..2]).join(id.to_string());
    fs::remove_file(&path).unwrap();
    // Nothing is mapped at the start of a process.
    std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap();
    assert_eq!(fs::read(&path).unwrap_err().raw_os_error(), Some(5));
    assert!(matches!(store.read(&id), Err(ChunkStoreError::Damaged { .. })));
    assert!(matches!(store.read(&id), Err(ChunkStoreError::Missing { .. })));
    store.write(&id, b"chunk").unwrap();
    assert_eq!(store.read(&id).unwrap(), b"chunk");

    let delta = store.put(b"no matter which").unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap();
    let applied = store.apply(&Piece { id: delta, length: 15 }, &id, &ContentId::of(b"other"), 5);
    assert!(matches!(applied, Err(ChunkStoreError::Damaged { id: named }) if named == id));
    assert!(matches!(store.read(&id), Err(ChunkStoreError::Missing { .. })));
}
