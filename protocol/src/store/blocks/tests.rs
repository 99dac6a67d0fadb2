use super::*;
use crate::snapshot::blocks::{BLOCK_BYTES, MAX_PIECE_BYTES};
use crate::store::index::PARTIAL;
use crate::wire::content_id::ContentId;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

const B: usize = BLOCK_BYTES;

struct Sample {
    dir: TempDir,
    bytes: Bytes,
    piece: Piece,
    tree: BlockTree,
}

impl Sample {
    fn new(length: usize) -> Self {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&length.to_be_bytes()).finalize_xof().fill(&mut bytes);
        let (id, tree) = BlockTree::of(&bytes);
        let piece = Piece { id, length: length as u64 };
        Self { dir: tempfile::tempdir().unwrap(), bytes: bytes.into(), piece, tree }
    }

    /// Another process on the same directory: nothing is left in memory.
    fn open(&self) -> ChunkStore {
        ChunkStore::open(self.dir.path()).unwrap()
    }

    fn block(&self, block: u32) -> Bytes {
        let range = block_range(self.piece.length, block);
        self.bytes.slice(range.start as usize..range.end as usize)
    }

    fn write(&self, store: &ChunkStore, blocks: impl IntoIterator<Item = u32>) -> Written {
        store.begin(&self.piece, self.tree.clone()).unwrap();
        let write = |block| store.write_block(&self.piece, block, self.block(block)).unwrap();
        blocks.into_iter().map(write).last().unwrap()
    }

    fn partial_file(&self) -> PathBuf {
        self.dir.path().join(PARTIAL).join(self.piece.id.to_string())
    }
}

#[test]
fn blocks_in_any_order_make_the_piece() {
    let sample = Sample::new(3 * B + 77);
    let store = sample.open();
    assert!(store.needs_tree(&sample.piece) && store.held(&sample.piece).is_empty());
    assert!(matches!(store.tree(&sample.piece), Err(ChunkStoreError::Missing { .. })));
    let early = store.write_block(&sample.piece, 0, sample.block(0));
    assert!(matches!(early, Err(ChunkStoreError::NoTree { .. })));

    assert_eq!(sample.write(&store, [2, 0, 2]), Written::Partial);
    assert_eq!(store.held(&sample.piece), BlockMask(0b101));
    assert!(!store.needs_tree(&sample.piece));
    assert_eq!(*store.tree(&sample.piece).unwrap(), sample.tree);
    assert_eq!(store.read_block(&sample.piece, 2).unwrap(), sample.block(2));
    assert!(matches!(store.read_block(&sample.piece, 1), Err(ChunkStoreError::Missing { .. })));
    assert!(matches!(store.read(&sample.piece.id), Err(ChunkStoreError::Missing { .. })));

    assert_eq!(sample.write(&store, [3, 1]), Written::Whole);
    assert_eq!(store.held(&sample.piece), BlockMask::all(4));
    assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes);
    assert_eq!(fs::read_dir(sample.dir.path().join(PARTIAL)).unwrap().count(), 0);
    assert_eq!(sample.write(&store, [1]), Written::Whole, "once more is no harm");
}

#[test]
fn bytes_that_are_not_the_block_are_refused() {
    let sample = Sample::new(2 * B + 9);
    let store = sample.open();
    store.begin(&sample.piece, sample.tree.clone()).unwrap();
    let mut rotten = sample.block(0).to_vec();
    rotten[77] ^= 1;
    let short = sample.block(2).slice(..8);
    for (block, bytes) in
        [(0, rotten.into()), (1, sample.block(0)), (2, short), (3, Bytes::new()), (u32::MAX, Bytes::new())]
    {
        let refused = store.write_block(&sample.piece, block, bytes);
        assert!(matches!(refused, Err(ChunkStoreError::Mismatch { .. })), "block {block}");
    }
    assert!(store.held(&sample.piece).is_empty());
    assert!(matches!(store.read_block(&sample.piece, u32::MAX), Err(ChunkStoreError::Missing { .. })));
}

#[test]
fn a_small_piece_needs_no_tree() {
    for length in [0, 1, B] {
        let sample = Sample::new(length);
        let store = sample.open();
        assert!(!store.needs_tree(&sample.piece));
        let wrong = [vec![1; length + 1], vec![1; length]];
        let refused = wrong
            .into_iter()
            .filter(|bytes| store.write_block(&sample.piece, 0, bytes.clone().into()).is_err())
            .count();
        assert_eq!(refused, if length == 0 { 1 } else { 2 });
        assert_eq!(store.write_block(&sample.piece, 0, sample.bytes.clone()).unwrap(), Written::Whole);
        assert_eq!(sample.open().read_block(&sample.piece, 0).unwrap(), sample.bytes);
        assert!(sample.open().tree(&sample.piece).unwrap().leaves().is_empty());
        assert!(store.read_block(&sample.piece, 1).is_err());
    }
}

#[test]
fn a_restart_goes_on_with_what_is_on_disk() {
    let sample = Sample::new(5 * B);
    sample.write(&sample.open(), [0, 3]);
    let store = sample.open();
    assert_eq!(store.held(&sample.piece), BlockMask(0b1001));
    assert_eq!(*store.tree(&sample.piece).unwrap(), sample.tree);
    assert_eq!(store.read_block(&sample.piece, 3).unwrap(), sample.block(3));
    assert_eq!(sample.write(&store, [1, 2, 4]), Written::Whole);
    // A third process serves it: the tree is made again from the whole file.
    let store = sample.open();
    assert_eq!(*store.tree(&sample.piece).unwrap(), sample.tree);
    assert_eq!(store.read_block(&sample.piece, 4).unwrap(), sample.block(4));
}

#[test]
fn a_kill_between_the_last_block_and_the_name_loses_nothing() {
    let sample = Sample::new(2 * B);
    let store = sample.open();
    sample.write(&store, [0]);
    // The last block reached the file, but not the memory of the process that wrote it.
    let file = fs::File::options().write(true).open(sample.partial_file()).unwrap();
    write_all_at(&file, &sample.block(1), B as u64).unwrap();
    let store = sample.open();
    assert_eq!(store.held(&sample.piece), BlockMask::all(2));
    assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes);
    drop(store);

    // The tree is no longer after its bytes, which have no name yet.
    fs::rename(sample.open().path(&sample.piece.id), sample.partial_file()).unwrap();
    let store = sample.open();
    assert_eq!(store.held(&sample.piece), BlockMask::all(2));
    assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes);
}

#[test]
fn a_piece_that_could_not_get_its_name_gets_it_later() {
    let sample = Sample::new(2 * B);
    let store = sample.open();
    sample.write(&store, [0]);
    // No directory can be made where a file lies.
    let path = store.path(&sample.piece.id);
    let directory = path.parent().unwrap();
    fs::write(directory, b"").unwrap();
    let refused = store.write_block(&sample.piece, 1, sample.block(1));
    assert!(matches!(refused, Err(ChunkStoreError::Io { .. })));
    assert!(matches!(store.put(&sample.bytes), Err(ChunkStoreError::Io { .. })));
    assert_eq!(fs::read_dir(sample.dir.path().join("drafts")).unwrap().count(), 0, "nothing is left");
    fs::remove_file(directory).unwrap();
    assert_eq!(store.write_block(&sample.piece, 1, sample.block(1)).unwrap(), Written::Whole);
    assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes);
}

#[test]
fn damage_that_has_been_mended_in_the_meantime_deletes_nothing() {
    let sample = Sample::new(2 * B);
    let store = sample.open();
    sample.write(&store, 0..2);
    let file = fs::File::options().write(true).open(store.path(&sample.piece.id)).unwrap();
    write_all_at(&file, b"rot", 0).unwrap();
    store.write(&sample.piece.id, &sample.bytes).unwrap();
    // Whoever has read the file before comes now.
    store.index.lock().delete_damaged(&sample.piece.id).unwrap();
    assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes);
}

#[test]
fn what_is_at_hand_is_the_block_or_nothing() {
    let sample = Sample::new(4 * B + 5);
    let store = sample.open();
    assert_eq!(store.at_hand(&sample.piece, 0), None, "nothing of it is here");
    sample.write(&store, [0, 1]);
    assert_eq!(store.at_hand(&sample.piece, 1), Some(sample.block(1)), "it was written a moment ago");

    let store = sample.open();
    assert_eq!(store.at_hand(&sample.piece, 1), None, "the disk has not been looked at");
    assert_eq!(store.held(&sample.piece), BlockMask(0b11));
    let longer = Piece { length: sample.piece.length + 1, ..sample.piece };
    let there_or_none = |block| store.at_hand(&sample.piece, block).is_none_or(|b| b == sample.block(block));
    assert!(there_or_none(0) && there_or_none(1), "not every file system says what it holds in memory");
    assert_eq!([2, 4, 5].map(|block| store.at_hand(&sample.piece, block)), [None, None, None]);
    assert_eq!(store.at_hand(&longer, 1), None);
    let file = fs::File::options().write(true).open(sample.partial_file()).unwrap();
    write_all_at(&file, b"rot", 5).unwrap();
    assert_eq!(store.at_hand(&sample.piece, 0), None);
    assert!(matches!(store.read_block(&sample.piece, 0), Err(ChunkStoreError::Damaged { .. })));
    assert_eq!(store.at_hand(&sample.piece, 1), None, "the piece has been deleted");
}

#[test]
fn rot_in_a_partial_file_is_found_by_a_restart_or_by_reading() {
    let sample = Sample::new(4 * B);
    let rot = || {
        let file = fs::File::options().write(true).open(sample.partial_file()).unwrap();
        write_all_at(&file, b"rot", 5).unwrap();
    };
    sample.write(&sample.open(), [0, 1]);
    rot();
    let store = sample.open();
    assert_eq!(store.held(&sample.piece), BlockMask(0b10));
    sample.write(&store, [0]);
    drop(store);

    let store = sample.open();
    assert_eq!(store.held(&sample.piece), BlockMask(0b11));
    rot();
    assert!(matches!(store.read_block(&sample.piece, 0), Err(ChunkStoreError::Damaged { .. })));
    assert!(store.held(&sample.piece).is_empty() && store.needs_tree(&sample.piece));
    assert_eq!(sample.write(&store, 0..4), Written::Whole, "and it can be fetched again");
}

#[test]
fn rot_in_a_whole_file_is_found_by_reading_a_block() {
    let sample = Sample::new(4 * B);
    sample.write(&sample.open(), 0..4);
    let path = sample.open().path(&sample.piece.id);
    let store = sample.open();
    assert_eq!(store.read_block(&sample.piece, 1).unwrap(), sample.block(1));
    let file = fs::File::options().write(true).open(&path).unwrap();
    write_all_at(&file, b"rot", 2 * B as u64).unwrap();
    assert_eq!(store.read_block(&sample.piece, 1).unwrap(), sample.block(1));
    assert!(matches!(store.read_block(&sample.piece, 2), Err(ChunkStoreError::Damaged { .. })));
    assert!(!path.exists() && store.held(&sample.piece).is_empty());
    // Without a tree in memory the whole file is looked at.
    sample.write(&store, 0..4);
    let file = fs::File::options().write(true).open(&path).unwrap();
    write_all_at(&file, b"rot", 0).unwrap();
    assert!(matches!(sample.open().tree(&sample.piece), Err(ChunkStoreError::Damaged { .. })));
}

#[test]
fn files_of_a_wrong_length_are_not_trusted() {
    let sample = Sample::new(3 * B);
    sample.write(&sample.open(), 0..3);
    let path = sample.open().path(&sample.piece.id);
    fs::File::options().write(true).open(&path).unwrap().set_len(B as u64).unwrap();
    assert!(sample.open().held(&sample.piece).is_empty());
    // Shortened while it is open.
    let store = sample.open();
    assert_eq!(sample.write(&store, 0..3), Written::Whole);
    assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes);
    drop(store);
    let store = sample.open();
    store.read_block(&sample.piece, 0).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(B as u64).unwrap();
    let read = store.read_block(&sample.piece, 2);
    assert!(matches!(read, Err(ChunkStoreError::Missing { .. } | ChunkStoreError::Damaged { .. })));
}

#[test]
fn whoever_asks_with_a_wrong_length_gets_nothing_and_deletes_nothing() {
    let (whole, partial) = (Sample::new(3 * B), Sample::new(3 * B));
    whole.write(&whole.open(), 0..3);
    let store = whole.open();
    let longer = Piece { length: whole.piece.length + 1, ..whole.piece };
    assert!(store.held(&longer).is_empty() && store.read_block(&longer, 0).is_err());
    assert_eq!(store.read(&whole.piece.id).unwrap(), whole.bytes);

    let store = partial.open();
    partial.write(&store, [0]);
    assert!(store.held(&longer).is_empty() && store.read_block(&longer, 1).is_err());
    assert_eq!(store.held(&partial.piece), BlockMask(1));
}

#[test]
fn another_pieces_tree_begins_nothing() {
    let (sample, other) = (Sample::new(3 * B), Sample::new(3 * B + 1));
    let store = sample.open();
    let longer = Piece { length: MAX_PIECE_BYTES + 1, ..sample.piece };
    for piece in [sample.piece, longer] {
        assert!(matches!(store.begin(&piece, other.tree.clone()), Err(ChunkStoreError::Mismatch { .. })));
    }
    let huge = BlockTree::of(&vec![0; MAX_PIECE_BYTES as usize + 1]);
    let piece = Piece { id: huge.0, length: MAX_PIECE_BYTES + 1 };
    assert!(matches!(store.begin(&piece, huge.1), Err(ChunkStoreError::Mismatch { .. })));
    assert_eq!(fs::read_dir(sample.dir.path().join(PARTIAL)).unwrap().count(), 0);
}

#[test]
fn threads_that_write_and_read_one_piece_end_with_a_whole_one() {
    let sample = Sample::new(40 * B);
    let store = sample.open();
    store.begin(&sample.piece, sample.tree.clone()).unwrap();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (store, sample) = (&store, &sample);
            scope.spawn(move || {
                for block in (0..40).map(|i| (i * 7 + first * 10) % 40) {
                    store.write_block(&sample.piece, block, sample.block(block)).unwrap();
                    assert_eq!(store.read_block(&sample.piece, block).unwrap(), sample.block(block));
                }
            });
        }
    });
    assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes);
}

#[test]
fn more_pieces_than_open_files_and_memory_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(dir.path()).unwrap();
    let pieces: Vec<(Piece, Vec<u8>)> = (0..150u32)
        .map(|salt| {
            let bytes: Vec<u8> = (0..2 * B as u32).map(|i| (i.wrapping_mul(salt + 3) >> 5) as u8).collect();
            let (id, tree) = BlockTree::of(&bytes);
            let piece = Piece { id, length: bytes.len() as u64 };
            store.begin(&piece, tree).unwrap();
            (piece, bytes)
        })
        .collect();
    for block in [1, 0] {
        for (piece, bytes) in &pieces {
            let range = block_range(piece.length, block);
            let bytes = bytes[range.start as usize..range.end as usize].to_vec();
            store.write_block(piece, block, bytes.into()).unwrap();
        }
    }
    for (piece, bytes) in &pieces {
        assert_eq!(store.read_block(piece, 0).unwrap(), bytes[..B]);
        assert_eq!(store.read(&piece.id).unwrap(), *bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a crash, another program or a disk has made of a partial file: what is said to be
    /// held reads back right, and the piece can be completed.
    #[test]
    fn any_damage_to_a_partial_file_is_survived(
        written in proptest::collection::btree_set(0u32..4, 1..4),
        cut in proptest::option::of(0u64..300_000),
        flips in proptest::collection::vec((0u64..263_000, any::<u8>()), 0..4),
    ) {
        let sample = Sample::new(3 * B + 1000);
        sample.write(&sample.open(), written.clone());
        let file = fs::File::options().write(true).open(sample.partial_file());
        if let Ok(file) = file {
            if let Some(cut) = cut { file.set_len(cut).unwrap(); }
            for (at, byte) in flips { write_all_at(&file, &[byte], at).unwrap(); }
        }
        let store = sample.open();
        let held = store.held(&sample.piece);
        prop_assert!(held.iter().all(|block| written.contains(&block)));
        for block in held.iter() {
            prop_assert_eq!(store.read_block(&sample.piece, block).unwrap(), sample.block(block));
        }
        if held != BlockMask::all(4) {
            prop_assert_eq!(sample.write(&store, 0..4), Written::Whole);
        }
        prop_assert_eq!(store.read(&sample.piece.id).unwrap(), sample.bytes.clone());
        prop_assert_eq!(ContentId::of(&sample.bytes), sample.piece.id);
    }
}

#[test]
fn a_tree_is_made_once_for_all_who_ask_at_the_same_time() {
    let sample = Sample::new(16 * B);
    sample.write(&sample.open(), 0..16);
    let store = sample.open();
    let start = std::sync::Barrier::new(4);
    let ask = || {
        start.wait();
        store.tree(&sample.piece).unwrap()
    };
    let trees: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(trees.iter().all(|tree| Arc::ptr_eq(tree, &trees[0])));
    assert!(store.rebuilding.lock().is_empty());
}

#[test]
fn a_piece_that_somebody_could_not_use_comes_anew() {
    let sample = Sample::new(2 * B);
    let store = sample.open();
    sample.write(&store, 0..2);
    store.delete(&sample.piece.id).unwrap();
    assert!(store.held(&sample.piece).is_empty() && store.needs_tree(&sample.piece));
    assert_eq!(sample.write(&store, 0..2), Written::Whole);
}
