//! Sets of a piece's blocks.

use super::MAX_BLOCKS;
use serde::{Deserialize, Serialize};

/// A set of block numbers below [`MAX_BLOCKS`], one bit each; block 0 is the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockMask(pub u64);

impl BlockMask {
    /// The set without any member.
    pub const EMPTY: Self = Self(0);

    /// The first `blocks` blocks.
    pub fn all(blocks: u32) -> Self {
        Self(u64::MAX.checked_shr((MAX_BLOCKS as u32).saturating_sub(blocks)).unwrap_or(0))
    }

    /// The blocks that `blocks` names; those beyond the largest piece are ignored.
    pub fn of(blocks: impl IntoIterator<Item = u32>) -> Self {
        Self(blocks.into_iter().fold(0, |mask, block| mask | bit(block)))
    }

    /// Whether `block` is in the set.
    pub fn contains(self, block: u32) -> bool {
        self.0 & bit(block) != 0
    }

    /// Adds a block; one beyond the largest piece is ignored.
    pub fn insert(&mut self, block: u32) {
        self.0 |= bit(block);
    }

    /// Removes one member; nothing happens if it is not in the set.
    pub fn remove(&mut self, block: u32) {
        self.0 &= !bit(block);
    }

    /// The blocks in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The blocks in both sets.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The blocks of this set that are not in `other`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// How many blocks the set holds.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set holds nothing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest block of the set.
    pub fn lowest(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros())
    }

    /// The blocks, lowest first.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(self.0), |rest| Some(rest & rest.wrapping_sub(1)))
            .take_while(|rest| *rest != 0)
            .map(u64::trailing_zeros)
    }
}

fn bit(block: u32) -> u64 {
    1u64.checked_shl(block).unwrap_or(0)
}
