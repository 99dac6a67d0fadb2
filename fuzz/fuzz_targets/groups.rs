//! Blocks from a neighbour: only a piece's own bytes are kept, whoever sends others is to blame,
//! and a restart keeps what was kept.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use echo_fuzz::{Edit, edited, tiled};
use echo_protocol::net::fuzzing::{Blame, keep_block};
use echo_protocol::snapshot::blocks::{BLOCK_BYTES, BlockMask, BlockTree, block_range};
use echo_protocol::snapshot::manifest::Piece;
use echo_protocol::store::{ChunkStore, Written};
use libfuzzer_sys::fuzz_target;

/// Longest piece, in bytes.
const MAX_PIECE: usize = 4 * BLOCK_BYTES;
/// Most steps of an input.
const MAX_STEPS: usize = 12;
/// Bytes of a leaf.
const LEAF_BYTES: usize = 32;

/// What happens: which of [`step`]'s kinds, a block, how many leaves more than are right, and
/// changes of what is sent or on disk.
type Step = (u8, u8, u8, Vec<Edit>);

fuzz_target!(|input: (u32, &[u8], Vec<Step>)| {
    let (length, pattern, steps) = input;
    let bytes = tiled(pattern, length as usize % (MAX_PIECE + 1));
    let (id, tree) = BlockTree::of(&bytes);
    let piece = Piece { id, length: bytes.len() as u64 };
    let mut node = Node { store: open(), piece, tree, bytes, began: false, have: BlockMask::EMPTY };
    node.store.delete(&id).expect("memory takes it");
    for (kind, block, leaves, edits) in steps.into_iter().take(MAX_STEPS) {
        match kind % 8 {
            0 => node.restart(&edits),
            kind => node.arrive(u32::from(block) % (node.piece.blocks() + 1), kind % 2 == 1, leaves, &edits),
        }
        node.check();
    }
    node.store.delete(&id).expect("memory takes it");
});

/// A store, the piece that is fetched into it, and what has to be there.
struct Node {
    store: ChunkStore,
    piece: Piece,
    tree: BlockTree,
    bytes: Vec<u8>,
    /// Whether the tree has come.
    began: bool,
    have: BlockMask,
}

impl Node {
    /// A neighbour sends a block: with or without leaves, and perhaps changed.
    fn arrive(&mut self, block: u32, with_tree: bool, more: u8, edits: &[Edit]) {
        let leaves = if with_tree { self.tree.leaves() } else { &[] };
        let payload = edited(&[leaves.as_flattened(), self.block(block)].concat(), edits);
        // Mostly as many as there are.
        let leaves = if more < 224 { leaves.len() } else { usize::from(more - 224) };
        let expected = self.expected(block, leaves, &payload);
        let kept = keep_block(&self.store, self.piece, block, leaves, Bytes::from(payload));
        assert_eq!(kept, expected);
    }

    fn expected(&mut self, block: u32, leaves: usize, payload: &[u8]) -> Result<Written, Blame> {
        let (tree, bytes) = payload.split_at_checked(leaves * LEAF_BYTES).ok_or(Blame::Neighbour)?;
        if leaves > 0 && tree != self.tree.leaves().as_flattened() {
            return Err(Blame::Neighbour);
        }
        self.began |= leaves > 0;
        let all = BlockMask::all(self.piece.blocks());
        let only = self.piece.blocks() == 1;
        if self.have == all && !only {
            return Ok(Written::Whole);
        }
        if !self.began && !only {
            return Err(Blame::Nobody);
        }
        if block >= self.piece.blocks() || bytes != self.block(block) {
            return Err(Blame::Neighbour);
        }
        self.have.insert(block);
        Ok(if self.have == all { Written::Whole } else { Written::Partial })
    }

    /// The process ends, the disk changes what is unfinished, and the next process takes it up: no
    /// block that is not the piece's own.
    fn restart(&mut self, edits: &[Edit]) {
        let path = dir().join("partial").join(self.piece.id.to_string());
        let damaged = !edits.is_empty()
            && fs::read(&path).is_ok_and(|held| fs::write(&path, edited(&held, edits)).is_ok());
        self.store = open();
        let held = self.store.held(&self.piece);
        // Blocks that are alike or zeros may be there before they come.
        assert!(damaged || self.have.minus(held).is_empty());
        self.have = held;
        self.began = !self.store.needs_tree(&self.piece);
    }

    /// What is here is the piece's own, and takes no more room than that and its tree.
    fn check(&self) {
        let held = self.store.held(&self.piece);
        assert_eq!(held, self.have);
        for block in held.iter() {
            let read = self.store.read_block(&self.piece, block).expect("what is held is read");
            assert_eq!(&read[..], self.block(block));
        }
        if held == BlockMask::all(self.piece.blocks()) {
            assert!(self.store.read(&self.piece.id).is_ok_and(|whole| whole == self.bytes));
        }
        let partial = dir().join("partial").join(self.piece.id.to_string());
        let length = fs::metadata(partial).map_or(0, |about| about.len());
        assert!(length <= self.piece.length + BlockTree::MAX_BYTES as u64);
    }

    /// The bytes of a block; none of one beyond the last.
    fn block(&self, block: u32) -> &[u8] {
        let range = block_range(self.piece.length, block);
        &self.bytes[range.start as usize..range.end as usize]
    }
}

fn open() -> ChunkStore {
    ChunkStore::open(dir()).expect("memory takes it")
}

/// A folder in memory, of this process.
fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| Path::new("/dev/shm").join(format!("echo-fuzz-groups-{}", std::process::id())))
}
