//! Which elements of a chunk changed: a bit each, in blocks of 64.
//!
//! Where the next change lies cannot be predicted, and a wrong guess costs a processor more than
//! comparing some elements. So whole blocks are compared without a branch, and only how many
//! changes a block has is guessed.

use super::elements::Element;

/// Elements of a block.
pub(super) const BLOCK: usize = 64;

/// The changes between two chunks that are equally long.
pub(super) struct Changed {
    /// Of each block the elements that changed, the first one in the lowest bit.
    bits: Vec<u64>,
    count: usize,
}

impl Changed {
    /// `None` when more than `most` elements changed.
    pub(super) fn find<E: Element>(old: &[u8], new: &[u8], most: usize) -> Option<Self> {
        let mut bits = Vec::with_capacity(old.len().div_ceil(BLOCK * E::BYTES));
        let mut count = 0;
        for (old, new) in blocks::<E>(old).zip(blocks::<E>(new)) {
            let changed = differing::<E>(old, new);
            count += changed.count_ones() as usize;
            if count > most {
                return None;
            }
            bits.push(changed);
        }
        Some(Self { bits, count })
    }

    /// How many elements changed.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The places of the changed elements in each block.
    pub(super) fn places(&self) -> impl Iterator<Item = impl Iterator<Item = usize>> {
        self.bits.iter().map(|bits| bits_of(*bits))
    }
}

/// The bytes of each block; the last one may have fewer.
pub(super) fn blocks<E: Element>(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(BLOCK * E::BYTES)
}

/// A bit for each element that differs.
fn differing<E: Element>(old: &[u8], new: &[u8]) -> u64 {
    let mut differs = [0; BLOCK];
    for (differs, (old, new)) in differs.iter_mut().zip(E::all(old).zip(E::all(new))) {
        *differs = u8::from(old != new);
    }
    // Eight bytes that are 0 or 1 become eight bits: each is moved into the top byte, and
    // no two products meet.
    let bits = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let eights = differs.as_chunks::<8>().0.iter().enumerate();
    eights.fold(0, |all, (at, eight)| all | bits(eight) << (8 * at))
}

/// The places of the bits that are set.
fn bits_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize % BLOCK);
        bits &= bits.wrapping_sub(1);
        place
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_bit() {
        let old = vec![0x55; 3 * BLOCK * 2 + 14];
        let changed = [0, 1, 7, 8, 63, 64, 100, 190, 192, 198];
        let mut new = old.clone();
        changed.iter().for_each(|at| new[2 * at + at % 2] ^= 0x80);
        let found = Changed::find::<u16>(&old, &new, changed.len()).unwrap();
        let places: Vec<usize> = found
            .places()
            .enumerate()
            .flat_map(|(block, places)| places.map(move |place| block * BLOCK + place))
            .collect();
        assert_eq!((places.as_slice(), found.count()), (changed.as_slice(), changed.len()));
        assert!(Changed::find::<u16>(&old, &new, changed.len() - 1).is_none());
    }
}
