//! Groups from a neighbour: only a piece's own bytes are kept, whoever sends others is to blame,
//! and a restart keeps what was kept.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use echo_fuzz::{Edit, edited, tiled};
use echo_protocol::net::fuzzing::{Blame, keep_group};
use echo_protocol::snapshot::blocks::{GROUP_BYTES, GroupMask, GroupTree, group_range};
use echo_protocol::snapshot::manifest::Piece;
use echo_protocol::store::{ChunkStore, Written};
use libfuzzer_sys::fuzz_target;

/// Longest piece, in bytes.
const MAX_PIECE: usize = 4 * GROUP_BYTES;
/// Most steps of an input.
const MAX_STEPS: usize = 12;
/// Bytes of a leaf.
const LEAF_BYTES: usize = 32;

/// What happens: which of [`step`]'s kinds, a group, how many leaves more than are right, and
/// changes of what is sent or on disk.
type Step = (u8, u8, u8, Vec<Edit>);

fuzz_target!(|input: (u32, &[u8], Vec<Step>)| {
    let (length, pattern, steps) = input;
    let bytes = tiled(pattern, length as usize % (MAX_PIECE + 1));
    let (id, tree) = GroupTree::of(&bytes);
    let piece = Piece { id, length: bytes.len() as u64 };
    let mut node = Node { store: open(), piece, tree, bytes, began: false, have: GroupMask::EMPTY };
    node.store.delete(&id).expect("memory takes it");
    for (kind, group, leaves, edits) in steps.into_iter().take(MAX_STEPS) {
        match kind % 8 {
            0 => node.restart(&edits),
            kind => node.arrive(u32::from(group) % (node.piece.groups() + 1), kind % 2 == 1, leaves, &edits),
        }
        node.check();
    }
    node.store.delete(&id).expect("memory takes it");
});

/// A store, the piece that is fetched into it, and what has to be there.
struct Node {
    store: ChunkStore,
    piece: Piece,
    tree: GroupTree,
    bytes: Vec<u8>,
    /// Whether the tree has come.
    began: bool,
    have: GroupMask,
}

impl Node {
    /// A neighbour sends a group: with or without leaves, and perhaps changed.
    fn arrive(&mut self, group: u32, with_tree: bool, more: u8, edits: &[Edit]) {
        let leaves = if with_tree { self.tree.leaves() } else { &[] };
        let payload = edited(&[leaves.as_flattened(), self.group(group)].concat(), edits);
        // Mostly as many as there are.
        let leaves = if more < 224 { leaves.len() } else { usize::from(more - 224) };
        let expected = self.expected(group, leaves, &payload);
        let kept = keep_group(&self.store, self.piece, group, leaves, Bytes::from(payload));
        assert_eq!(kept, expected);
    }

    fn expected(&mut self, group: u32, leaves: usize, payload: &[u8]) -> Result<Written, Blame> {
        let (tree, bytes) = payload.split_at_checked(leaves * LEAF_BYTES).ok_or(Blame::Neighbour)?;
        if leaves > 0 && tree != self.tree.leaves().as_flattened() {
            return Err(Blame::Neighbour);
        }
        self.began |= leaves > 0;
        let all = GroupMask::all(self.piece.groups());
        let only = self.piece.groups() == 1;
        if self.have == all && !only {
            return Ok(Written::Whole);
        }
        if !self.began && !only {
            return Err(Blame::Nobody);
        }
        if group >= self.piece.groups() || bytes != self.group(group) {
            return Err(Blame::Neighbour);
        }
        self.have.insert(group);
        Ok(if self.have == all { Written::Whole } else { Written::Partial })
    }

    /// The process ends, the disk changes what is unfinished, and the next process takes it up: no
    /// group that is not the piece's own.
    fn restart(&mut self, edits: &[Edit]) {
        let path = dir().join("partial").join(self.piece.id.to_string());
        let damaged = !edits.is_empty()
            && fs::read(&path).is_ok_and(|held| fs::write(&path, edited(&held, edits)).is_ok());
        self.store = open();
        let held = self.store.held(&self.piece);
        // Groups that are alike or zeros may be there before they come.
        assert!(damaged || self.have.minus(held).is_empty());
        self.have = held;
        self.began = !self.store.needs_tree(&self.piece);
    }

    /// What is here is the piece's own, and takes no more room than that and its tree.
    fn check(&self) {
        let held = self.store.held(&self.piece);
        assert_eq!(held, self.have);
        for group in held.iter() {
            let read = self.store.read_group(&self.piece, group).expect("what is held is read");
            assert_eq!(&read[..], self.group(group));
        }
        if held == GroupMask::all(self.piece.groups()) {
            assert!(self.store.read(&self.piece.id).is_ok_and(|whole| whole == self.bytes));
        }
        let partial = dir().join("partial").join(self.piece.id.to_string());
        let length = fs::metadata(partial).map_or(0, |about| about.len());
        assert!(length <= self.piece.length + GroupTree::MAX_BYTES as u64);
    }

    /// The bytes of a group; none of one beyond the last.
    fn group(&self, group: u32) -> &[u8] {
        let range = group_range(self.piece.length, group);
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
