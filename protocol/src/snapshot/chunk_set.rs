//! Which chunks of a snapshot somebody has.

use crate::snapshot::manifest::MAX_CHUNKS;
use crate::wire::content_id::ChunkIndex;
use serde::{Deserialize, Serialize};

/// A set of chunk indices: one bit each, lowest index in the lowest bit of the first byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChunkSet(#[serde(with = "serde_bytes")] Vec<u8>);

impl ChunkSet {
    /// Every index below `chunks`.
    pub fn all(chunks: u32) -> Self {
        let mut set = Self::default();
        (0..chunks).for_each(|i| set.insert(ChunkIndex(i)));
        set
    }

    /// Adds an index; those beyond the largest snapshot are ignored.
    pub fn insert(&mut self, index: ChunkIndex) {
        let byte = index.0 as usize / 8;
        if index.0 as usize >= MAX_CHUNKS {
            return;
        }
        if byte >= self.0.len() {
            self.0.resize(byte + 1, 0);
        }
        self.0[byte] |= 1 << (index.0 % 8);
    }

    /// Removes an index; nothing happens if it is not in the set.
    pub fn remove(&mut self, index: ChunkIndex) {
        if let Some(byte) = self.0.get_mut(index.0 as usize / 8) {
            *byte &= !(1 << (index.0 % 8));
        }
    }

    /// Whether `index` is in the set.
    pub fn contains(&self, index: ChunkIndex) -> bool {
        self.0.get(index.0 as usize / 8).is_some_and(|byte| byte >> (index.0 % 8) & 1 == 1)
    }

    /// How many indices the set holds.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|byte| byte.count_ones()).sum()
    }

    /// Whether the set holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(ops in proptest::collection::vec((0u32..200, any::<bool>()), 0..100)) {
            let (mut set, mut model) = (ChunkSet::default(), BTreeSet::new());
            for (index, add) in ops {
                if add { set.insert(ChunkIndex(index)); model.insert(index); } else { set.remove(ChunkIndex(index)); model.remove(&index); }
            }
            prop_assert_eq!(set.len() as usize, model.len());
            for i in 0..210 { prop_assert_eq!(set.contains(ChunkIndex(i)), model.contains(&i)); }
        }
    }

    #[test]
    fn stays_within_the_largest_snapshot() {
        let mut set = ChunkSet::all(9);
        set.insert(ChunkIndex(u32::MAX));
        set.remove(ChunkIndex(u32::MAX));
        assert_eq!(set.len(), 9);
        (0..MAX_CHUNKS as u32 + 9).for_each(|index| set.insert(ChunkIndex(index)));
        assert_eq!((set.len() as usize, set.0.len()), (MAX_CHUNKS, MAX_CHUNKS.div_ceil(8)));
    }
}
