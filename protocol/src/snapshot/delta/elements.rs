//! A chunk as little-endian numbers.
//!
//! A chunk need not begin with an element (companion files of any length come first), so its
//! first bytes may belong to one that began in the chunk before. These and an incomplete last
//! element are *loose* bytes.

use super::encoding::DeltaReader;
use super::{DeltaError, Width};
use std::ops::Range;

/// Bytes that are compared at once to find where elements begin.
const WORD: usize = 8;
/// How many differing words are looked at for that.
const LOOKED_AT: usize = 4096;

/// Where the elements of a chunk lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ElementLayout {
    /// Bytes of an element.
    pub(super) width: Width,
    /// Bytes before the first element, fewer than an element has.
    phase: usize,
}

/// An unsigned number in whose order the values lie that the floats of the same bits have.
pub(super) trait Element: Copy + Eq {
    /// Bytes of one element: 1, 2 or 4.
    const BYTES: usize;

    /// The elements of `bytes`, without an incomplete last one.
    fn all(bytes: &[u8]) -> impl Iterator<Item = Self>;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    /// How far `new` lies from `self` in the order of floats, as 0, -1, 1, -2, 2 ... → 0, 1, 2, 3, 4 ...
    fn difference(self, new: Self) -> u32;
    /// The inverse of [`Element::difference`], for any number.
    fn moved(self, difference: u32) -> Self;
    /// Moves the elements of `bytes`, each by its difference.
    fn move_all(bytes: &mut [u8], differences: &[u32]);
    /// What the element's probability to change depends on: the upper bits of its magnitude. The
    /// exponent of a bf16 or f32, the exponent and a part of the mantissa of an f16.
    fn key(self) -> u8;
}

/// Floats are sign and magnitude: with the magnitude of negative ones inverted, their bits are in
/// their order. Its own inverse.
macro_rules! ordered {
    ($bits:expr, $unsigned:ty, $signed:ty) => {
        $bits ^ ((($bits as $signed) >> (<$unsigned>::BITS - 1)) as $unsigned >> 1)
    };
}

macro_rules! element {
    ($unsigned:ty, $signed:ty) => {
        impl Element for $unsigned {
            const BYTES: usize = size_of::<$unsigned>();

            fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
                bytes.as_chunks().0.iter().map(|bytes| Self::from_le_bytes(*bytes))
            }

            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; Self::BYTES];
                own.copy_from_slice(bytes);
                Self::from_le_bytes(own)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn difference(self, new: Self) -> u32 {
                let difference = ordered!(new, $unsigned, $signed)
                    .wrapping_sub(ordered!(self, $unsigned, $signed)) as $signed;
                u32::from(((difference << 1) ^ (difference >> (Self::BITS - 1))) as $unsigned)
            }

            fn moved(self, difference: u32) -> Self {
                let zigzag = difference as $unsigned;
                let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
                let moved = ordered!(self, $unsigned, $signed).wrapping_add(difference);
                ordered!(moved, $unsigned, $signed)
            }

            fn move_all(bytes: &mut [u8], differences: &[u32]) {
                for (bytes, difference) in bytes.as_chunks_mut().0.iter_mut().zip(differences) {
                    *bytes = Self::from_le_bytes(*bytes).moved(*difference).to_le_bytes();
                }
            }

            fn key(self) -> u8 {
                ((self << 1) >> (Self::BITS - 8)) as u8
            }
        }
    };
}

element!(u8, i8);
element!(u16, i16);
element!(u32, i32);

impl ElementLayout {
    /// The bytes that changed most often are the lowest of their elements: numbers move little.
    pub(super) fn detect(old: &[u8], new: &[u8], width: Width) -> Self {
        let mut changed = [0usize; WORD];
        for difference in differing_words(old, new).take(LOOKED_AT) {
            for (count, byte) in changed.iter_mut().zip(difference.to_le_bytes()) {
                *count += usize::from(byte != 0);
            }
        }
        let count_at = |phase: &usize| changed.iter().skip(*phase).step_by(width.bytes()).sum::<usize>();
        // The last of equals is taken, and that should be 0, so that nothing is loose without a reason.
        let phase = (0..width.bytes()).rev().max_by_key(count_at).unwrap_or(0);
        Self { width, phase }
    }

    pub(super) fn to_byte(self) -> u8 {
        (self.phase as u8) << 4 | self.width.bytes() as u8
    }

    pub(super) fn from_byte(byte: u8) -> Result<Self, DeltaError> {
        let width = [Width::One, Width::Two, Width::Four]
            .into_iter()
            .find(|width| width.bytes() == usize::from(byte & 0x0f))
            .ok_or(DeltaError::Damaged("its element width"))?;
        let phase = usize::from(byte >> 4);
        if phase < width.bytes() { Ok(Self { width, phase }) } else { Err(DeltaError::Damaged("its phase")) }
    }

    /// The bytes of whole elements in a chunk of `length` bytes. What lies before and after is loose.
    pub(super) fn elements(self, length: usize) -> Range<usize> {
        let start = self.phase.min(length);
        let whole = (length - start) / self.width.bytes() * self.width.bytes();
        start..start + whole
    }

    /// Appends the loose bytes of a chunk to its delta, and says where its elements are.
    pub(super) fn write_loose(self, new: &[u8], out: &mut Vec<u8>) -> Range<usize> {
        let elements = self.elements(new.len());
        out.extend_from_slice(&new[..elements.start]);
        out.extend_from_slice(&new[elements.end..]);
        elements
    }

    /// Replaces the loose bytes of a chunk by those of its delta, and returns its elements.
    pub(super) fn read_loose<'c>(
        self,
        chunk: &'c mut [u8],
        reader: &mut DeltaReader<'_>,
    ) -> Result<&'c mut [u8], DeltaError> {
        let elements = self.elements(chunk.len());
        let (before, behind) = (elements.start, chunk.len() - elements.end);
        chunk[..before].copy_from_slice(reader.take(before)?);
        chunk[elements.end..].copy_from_slice(reader.take(behind)?);
        Ok(&mut chunk[elements])
    }
}

/// In which bits the words of two equally long chunks differ, if they do. An incomplete last word counts too.
fn differing_words(old: &[u8], new: &[u8]) -> impl Iterator<Item = u64> {
    let (old, old_rest) = old.as_chunks::<WORD>();
    let (new, new_rest) = new.as_chunks::<WORD>();
    let last = word(old_rest) ^ word(new_rest);
    let words = old.iter().zip(new).map(|(old, new)| u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new));
    words.chain([last]).filter(|difference| *difference != 0)
}

/// Fewer bytes than a word has, continued by zeros.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
