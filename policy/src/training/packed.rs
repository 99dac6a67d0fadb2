//! Token sequences laid end to end: what the training pass works on.
//!
//! No padding stands between the sequences, and none of them sees another: positions restart at
//! each, and attention stays within it.

use std::ops::Range;

/// Sequences that cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackedError {
    /// There is no sequence.
    #[error("no sequence to pack; give at least one")]
    Empty,
    /// A sequence without tokens.
    #[error("sequence {sequence} is empty; leave it out")]
    EmptySequence {
        /// Index of the sequence without tokens.
        sequence: usize,
    },
    /// The lengths are not those of the ids.
    #[error("the lengths add up to {sum}, there are {ids} ids; give the length of every sequence")]
    Lengths {
        /// Sum of the lengths, or the largest number there is.
        sum: usize,
        /// Number of ids that were given.
        ids: usize,
    },
    /// More sequences than a pack may have.
    #[error("{found} sequences in one pack, the limit is {limit}; make several packs")]
    TooManySequences {
        /// Sequences that were given.
        found: usize,
        /// Most of a pack: [`MAX_PACKED_SEQUENCES`].
        limit: usize,
    },
    /// More tokens than a pack may have.
    #[error("{found} tokens in one pack, the limit is {limit}; make several packs")]
    TooManyTokens {
        /// Tokens that were given.
        found: usize,
        /// Most of a pack: [`MAX_PACKED_TOKENS`].
        limit: usize,
    },
}

/// Most sequences of one pack.
pub const MAX_PACKED_SEQUENCES: usize = 1 << 16;
/// Most tokens of one pack, all sequences together.
pub const MAX_PACKED_TOKENS: usize = 1 << 24;

/// Sequences laid end to end. Each has at least one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    ids: Vec<u32>,
    /// Where each sequence ends; the next one begins there.
    ends: Vec<usize>,
}

/// A token whose log-probability is asked for: `token` following row `row` of the pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The row that predicts: an index into [`Packed::ids`].
    pub row: usize,
    /// The token that is predicted.
    pub token: u32,
}

impl Packed {
    /// Packs `ids`, of which the first `lengths[0]` are the first sequence, and so on.
    ///
    /// # Errors
    /// [`PackedError`] when there is no sequence or an empty one, when the lengths do not add up to
    /// the ids, or when a limit is exceeded.
    pub fn new(ids: Vec<u32>, lengths: &[usize]) -> Result<Self, PackedError> {
        if lengths.is_empty() {
            return Err(PackedError::Empty);
        }
        if lengths.len() > MAX_PACKED_SEQUENCES {
            let (found, limit) = (lengths.len(), MAX_PACKED_SEQUENCES);
            return Err(PackedError::TooManySequences { found, limit });
        }
        if ids.len() > MAX_PACKED_TOKENS {
            return Err(PackedError::TooManyTokens { found: ids.len(), limit: MAX_PACKED_TOKENS });
        }
        let mut ends = Vec::with_capacity(lengths.len());
        let mut end = 0usize;
        for (sequence, length) in lengths.iter().enumerate() {
            if *length == 0 {
                return Err(PackedError::EmptySequence { sequence });
            }
            // Saturating: a hostile length ends above every possible number of ids.
            end = end.saturating_add(*length);
            ends.push(end);
        }
        if end != ids.len() {
            return Err(PackedError::Lengths { sum: end, ids: ids.len() });
        }
        Ok(Self { ids, ends })
    }

    /// Packs sequences in their order.
    ///
    /// # Errors
    /// Those that [`Packed::new`] fails with.
    pub fn of<S: AsRef<[u32]>>(sequences: &[S]) -> Result<Self, PackedError> {
        let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.as_ref().len()).collect();
        let found = lengths.iter().fold(0usize, |sum, length| sum.saturating_add(*length));
        if found > MAX_PACKED_TOKENS {
            return Err(PackedError::TooManyTokens { found, limit: MAX_PACKED_TOKENS });
        }
        let ids = sequences.iter().flat_map(|sequence| sequence.as_ref()).copied().collect();
        Self::new(ids, &lengths)
    }

    /// The tokens of all sequences.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The rows of each sequence, in order.
    pub fn sequences(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        let start = |index: usize| if index == 0 { 0 } else { self.ends[index - 1] };
        self.ends.iter().enumerate().map(move |(index, end)| start(index)..*end)
    }

    /// Tokens of the longest sequence.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.sequences().map(|rows| rows.len()).max().unwrap_or(0)
    }

    /// Every token that follows another one in its sequence, as a target.
    #[must_use]
    pub fn next_tokens(&self) -> Vec<Target> {
        let pairs = |rows: Range<usize>| rows.start..rows.end - 1;
        self.sequences().flat_map(pairs).map(|row| Target { row, token: self.ids[row + 1] }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_keep_their_rows() {
        let packed = Packed::of(&[&[1u32, 2, 3][..], &[4], &[5, 6]]).unwrap();
        assert_eq!(packed.sequences().collect::<Vec<_>>(), [0..3, 3..4, 4..6]);
        assert_eq!((packed.ids(), packed.longest()), (&[1, 2, 3, 4, 5, 6][..], 3));
        let targets: Vec<(usize, u32)> = packed.next_tokens().iter().map(|t| (t.row, t.token)).collect();
        assert_eq!(targets, [(0, 2), (1, 3), (4, 6)]);
        assert_eq!(Packed::new(vec![1, 2, 3, 4, 5, 6], &[3, 1, 2]).unwrap(), packed);
    }

    #[test]
    fn hostile_lengths_are_errors() {
        let pack = |lengths: &[usize]| Packed::new(vec![7; 4], lengths);
        assert!(matches!(pack(&[]), Err(PackedError::Empty)));
        assert!(matches!(pack(&[4, 0]), Err(PackedError::EmptySequence { sequence: 1 })));
        assert!(matches!(pack(&[3]), Err(PackedError::Lengths { sum: 3, ids: 4 })));
        assert!(matches!(pack(&[5]), Err(PackedError::Lengths { .. })));
        assert!(matches!(pack(&[usize::MAX, 5]), Err(PackedError::Lengths { .. })));
        assert!(matches!(
            pack(&vec![1; MAX_PACKED_SEQUENCES + 1]),
            Err(PackedError::TooManySequences { .. })
        ));
        let long = vec![0u32; MAX_PACKED_TOKENS + 1];
        assert!(matches!(Packed::of(&[&long]), Err(PackedError::TooManyTokens { .. })));
        assert!(matches!(Packed::new(long, &[1]), Err(PackedError::TooManyTokens { .. })));
        assert!(matches!(Packed::of::<Vec<u32>>(&[]), Err(PackedError::Empty)));
    }
}
