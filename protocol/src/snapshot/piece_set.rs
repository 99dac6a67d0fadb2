//! Which pieces of a snapshot, and which blocks of them, somebody has or wants.

use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::{MAX_CHUNKS, PieceIndex};

/// Most pieces of a manifest: a chunk and a delta for each chunk.
pub const MAX_PIECES: usize = 2 * MAX_CHUNKS;

/// A set of pieces: one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PieceSet {
    words: Vec<u64>,
    len: u32,
}

impl PieceSet {
    /// Adds a piece; false when it was there, or lies beyond [`MAX_PIECES`].
    pub fn insert(&mut self, piece: PieceIndex) -> bool {
        if piece.0 as usize >= MAX_PIECES || self.contains(piece) {
            return false;
        }
        let word = piece.0 as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (piece.0 % 64);
        self.len += 1;
        true
    }

    /// Removes a piece; false when it was not there.
    pub fn remove(&mut self, piece: PieceIndex) -> bool {
        let there = self.contains(piece);
        if there {
            self.words[piece.0 as usize / 64] &= !(1 << (piece.0 % 64));
            self.len -= 1;
        }
        there
    }

    /// Whether the piece is in the set.
    pub fn contains(&self, piece: PieceIndex) -> bool {
        self.words.get(piece.0 as usize / 64).is_some_and(|word| word >> (piece.0 % 64) & 1 == 1)
    }

    /// How many pieces the set holds.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the set holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The lowest piece of the set that is not below `from`.
    pub fn next_from(&self, from: PieceIndex) -> Option<PieceIndex> {
        let first = from.0 as usize / 64;
        let masked = self.words.get(first)? & (u64::MAX << (from.0 % 64));
        let rest = self.words.iter().skip(first + 1).copied();
        std::iter::once(masked)
            .chain(rest)
            .zip(first as u32..)
            .find_map(|(word, at)| (word != 0).then(|| PieceIndex(at * 64 + word.trailing_zeros())))
    }

    /// The pieces, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = PieceIndex> {
        std::iter::successors(self.next_from(PieceIndex(0)), |at| self.next_from(PieceIndex(at.0 + 1)))
    }
}

impl FromIterator<PieceIndex> for PieceSet {
    fn from_iter<I: IntoIterator<Item = PieceIndex>>(pieces: I) -> Self {
        let mut set = Self::default();
        pieces.into_iter().for_each(|piece| {
            set.insert(piece);
        });
        set
    }
}

/// Sets of blocks, one for each piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings(Vec<BlockMask>);

impl Holdings {
    /// The blocks of `piece`.
    pub fn get(&self, piece: PieceIndex) -> BlockMask {
        self.0.get(piece.0 as usize).copied().unwrap_or_default()
    }

    /// Replaces the blocks of `piece`; pieces beyond [`MAX_PIECES`] are ignored.
    pub fn set(&mut self, piece: PieceIndex, blocks: BlockMask) {
        let at = piece.0 as usize;
        if at >= self.0.len() {
            if at >= MAX_PIECES || blocks.is_empty() {
                return;
            }
            self.0.resize(at + 1, BlockMask::default());
        }
        self.0[at] = blocks;
    }

    /// Adds blocks of `piece` and says which of them are new.
    pub fn insert(&mut self, piece: PieceIndex, blocks: BlockMask) -> BlockMask {
        let before = self.get(piece);
        self.set(piece, before.union(blocks));
        self.get(piece).minus(before)
    }

    /// Removes blocks of `piece` and says which of them were there.
    pub fn remove(&mut self, piece: PieceIndex, blocks: BlockMask) -> BlockMask {
        let before = self.get(piece);
        self.set(piece, before.minus(blocks));
        before.intersect(blocks)
    }

    /// The pieces of which there are blocks, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (PieceIndex, BlockMask)> {
        (0..).map(PieceIndex).zip(self.0.iter().copied()).filter(|(_, blocks)| !blocks.is_empty())
    }

    /// How many blocks there are in all.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|blocks| u64::from(blocks.len())).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|blocks| blocks.is_empty())
    }
}

impl FromIterator<(PieceIndex, BlockMask)> for Holdings {
    fn from_iter<I: IntoIterator<Item = (PieceIndex, BlockMask)>>(entries: I) -> Self {
        let mut holdings = Self::default();
        entries.into_iter().for_each(|(piece, blocks)| {
            holdings.insert(piece, blocks);
        });
        holdings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_piece_set_behaves_like_a_set(
            ops in proptest::collection::vec((0u32..300, any::<bool>()), 0..120),
            from in 0u32..310,
        ) {
            let (mut set, mut model) = (PieceSet::default(), BTreeSet::new());
            for (piece, add) in ops {
                let changed = if add { model.insert(piece) } else { model.remove(&piece) };
                let said = if add { set.insert(PieceIndex(piece)) } else { set.remove(PieceIndex(piece)) };
                prop_assert_eq!(said, changed);
            }
            prop_assert_eq!(set.len() as usize, model.len());
            prop_assert_eq!(set.next_from(PieceIndex(from)).map(|p| p.0), model.range(from..).next().copied());
            prop_assert_eq!(set.iter().map(|p| p.0).collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn both_stay_within_the_largest_manifest() {
        let beyond = PieceIndex(MAX_PIECES as u32);
        let mut set = PieceSet::default();
        assert!(!set.insert(beyond) && !set.remove(beyond) && set.is_empty());
        assert_eq!(set.next_from(PieceIndex(u32::MAX)), None);
        let mut holdings = Holdings::default();
        assert!(holdings.insert(beyond, BlockMask(1)).is_empty() && holdings.is_empty());
    }

    #[test]
    fn holdings_say_what_changed() {
        let mut holdings: Holdings = [(PieceIndex(3), BlockMask(0b110))].into_iter().collect();
        assert_eq!(holdings.insert(PieceIndex(3), BlockMask(0b011)), BlockMask(0b001));
        assert_eq!(holdings.remove(PieceIndex(3), BlockMask(0b1010)), BlockMask(0b010));
        assert_eq!(holdings.iter().collect::<Vec<_>>(), [(PieceIndex(3), BlockMask(0b101))]);
        assert_eq!((holdings.len(), holdings.get(PieceIndex(9))), (2, BlockMask(0)));
    }
}
