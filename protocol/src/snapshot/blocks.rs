//! Blocks: the parts of a piece that are verified and forwarded one by one.
//!
//! BLAKE3 is a tree. Cutting a piece at multiples of [`BLOCK_BYTES`] cuts that tree at one
//! level, so the chaining values of the blocks merge to the piece's content id: whoever has
//! them can verify any block alone, and needs to trust nobody for them. This is the bao
//! construction with the inner nodes left out; a piece has at most [`MAX_BLOCKS`] blocks, so
//! its leaves are at most 2 KiB.

pub use block_set::BlockMask;

use crate::wire::content_id::ContentId;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use std::ops::Range;

/// Length of every block but a piece's last, in bytes. A power of two, as the cuts must be cuts
/// of BLAKE3's own tree.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Most blocks of a piece: a set of them fits a machine word.
pub const MAX_BLOCKS: usize = 64;
/// Longest piece, in bytes.
pub const MAX_PIECE_BYTES: u64 = (BLOCK_BYTES * MAX_BLOCKS) as u64;

/// Bytes of one leaf.
const LEAF_BYTES: usize = 32;
/// Bytes of an encoded tree before its leaves: the content id and the length.
const HEADER_BYTES: usize = 32 + 8;

/// The chaining values of a piece's blocks. They have been found to merge to the piece's content id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTree {
    id: ContentId,
    length: u64,
    /// Empty when the piece has one block: then the content id itself verifies it.
    leaves: Vec<ChainingValue>,
}

/// Why leaves are not the block tree of a piece.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The piece is longer than any piece may be.
    #[error("a piece of {0} bytes; the longest has {MAX_PIECE_BYTES}")]
    Length(u64),
    /// Not as many leaves as the length asks for.
    #[error("{found} leaves for a piece that needs {needed}")]
    Leaves {
        /// Leaves that were given for the piece.
        found: usize,
        /// Leaves that a piece of this length has.
        needed: usize,
    },
    /// The leaves belong to something else.
    #[error("the leaves do not merge to {0}")]
    Root(ContentId),
    /// The encoded tree is torn.
    #[error("an encoded block tree of {0} bytes is cut off")]
    Torn(usize),
}

/// How many blocks a piece of `length` bytes has. An empty piece has one, empty block.
pub fn block_count(length: u64) -> u32 {
    u32::try_from(length.div_ceil(BLOCK_BYTES as u64).max(1)).unwrap_or(u32::MAX)
}

/// The bytes of a piece of `length` bytes that a block holds; empty for a block beyond the last.
pub fn block_range(length: u64, block: u32) -> Range<u64> {
    let start = (u64::from(block) * BLOCK_BYTES as u64).min(length);
    start..(start + BLOCK_BYTES as u64).min(length)
}

impl BlockTree {
    /// The content id and the tree of a piece's bytes, from one pass over them.
    pub fn of(bytes: &[u8]) -> (ContentId, Self) {
        let length = bytes.len() as u64;
        if bytes.len() <= BLOCK_BYTES {
            let id = ContentId::of(bytes);
            return (id, Self { id, length, leaves: Vec::new() });
        }
        let leaves: Vec<_> = bytes.chunks(BLOCK_BYTES).zip(0..).map(|(bytes, at)| leaf(at, bytes)).collect();
        let id = root(&leaves);
        (id, Self { id, length, leaves })
    }

    /// The tree of the piece `id` of `length` bytes, from leaves that somebody else names.
    ///
    /// # Errors
    /// [`TreeError`] when they are not that piece's leaves.
    pub fn checked(id: ContentId, length: u64, leaves: Vec<[u8; LEAF_BYTES]>) -> Result<Self, TreeError> {
        if length > MAX_PIECE_BYTES {
            return Err(TreeError::Length(length));
        }
        let needed = leaf_count(length);
        if leaves.len() != needed {
            return Err(TreeError::Leaves { found: leaves.len(), needed });
        }
        if needed > 0 && root(&leaves) != id {
            return Err(TreeError::Root(id));
        }
        Ok(Self { id, length, leaves })
    }

    /// Whether `bytes` are the block `block` of this piece, in length and content.
    pub fn verifies(&self, block: u32, bytes: &[u8]) -> bool {
        let range = block_range(self.length, block);
        if block >= block_count(self.length) || bytes.len() as u64 != range.end - range.start {
            return false;
        }
        match self.leaves.get(block as usize) {
            Some(expected) => leaf(block, bytes) == *expected,
            None => self.id.matches(bytes),
        }
    }

    /// The piece's content id.
    pub fn id(&self) -> ContentId {
        self.id
    }

    /// The piece's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The chaining values of the blocks, in order; none when the piece has one block.
    pub fn leaves(&self) -> &[[u8; LEAF_BYTES]] {
        &self.leaves
    }

    /// For disk and wire: content id, length (8 bytes, big-endian), leaves.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.id.as_bytes().as_slice(), &self.length.to_be_bytes(), self.leaves.as_flattened()].concat()
    }

    /// Reads and checks what [`BlockTree::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`TreeError`] when the bytes are torn or not a tree of the piece that they name.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TreeError> {
        let torn = || TreeError::Torn(bytes.len());
        let (id, rest) = bytes.split_first_chunk::<32>().ok_or_else(torn)?;
        let (length, leaves) = rest.split_first_chunk::<8>().ok_or_else(torn)?;
        let (leaves, tail) = leaves.as_chunks::<LEAF_BYTES>();
        if !tail.is_empty() || leaves.len() > MAX_BLOCKS {
            return Err(torn());
        }
        Self::checked(ContentId::from_bytes(*id), u64::from_be_bytes(*length), leaves.to_vec())
    }

    /// Longest encoding of a tree, in bytes.
    pub const MAX_BYTES: usize = HEADER_BYTES + MAX_BLOCKS * LEAF_BYTES;
}

/// Leaves of a piece of `length` bytes.
fn leaf_count(length: u64) -> usize {
    match block_count(length) as usize {
        1 => 0,
        blocks => blocks,
    }
}

/// The chaining value of one block of a piece that has several.
fn leaf(block: u32, bytes: &[u8]) -> ChainingValue {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(u64::from(block) * BLOCK_BYTES as u64);
    hasher.update(bytes).finalize_non_root()
}

/// The content id of the piece that has these leaves: two or more.
fn root(leaves: &[ChainingValue]) -> ContentId {
    let (left, right) = leaves.split_at(left_leaves(leaves.len()));
    let hash = merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash);
    ContentId::from_bytes(*hash.as_bytes())
}

fn subtree(leaves: &[ChainingValue]) -> ChainingValue {
    match leaves {
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(left_leaves(leaves.len()));
            merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
        }
    }
}

/// BLAKE3's shape: the left subtree has the largest power of two that leaves something to the right one.
fn left_leaves(leaves: usize) -> usize {
    leaves.div_ceil(2).next_power_of_two()
}

mod block_set;
#[cfg(test)]
mod tests;
