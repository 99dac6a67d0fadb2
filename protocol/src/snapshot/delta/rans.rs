//! An entropy coder: rANS (Duda, arXiv 1311.2540) with 64 bits of state, renormalised 32 bits at a time.
//!
//! An interval of width w costs log2([`TOTAL`] / w) bits. What is put last comes out first.

use super::DeltaError;
use super::distributions::{RansInterval, TOTAL, TOTAL_BITS};

/// Between two intervals the state is at least this, and less than 2^32 times this.
const LOWEST: u64 = 1 << 31;

/// Encodes intervals, which the decoder takes in reverse order.
pub(super) struct RansEncoder {
    state: u64,
    /// The words that were put, and room for further ones.
    words: Vec<u32>,
    put: usize,
}

/// Takes them again in reverse order.
pub(super) struct RansDecoder<'a> {
    state: u64,
    words: &'a [[u8; 4]],
    /// Words taken; more than there are when the bytes are not what an encoder made.
    taken: usize,
}

impl RansEncoder {
    pub(super) fn new() -> Self {
        Self { state: LOWEST, words: Vec::new(), put: 0 }
    }

    /// `interval` must not be empty.
    pub(super) fn put(&mut self, interval: RansInterval) {
        if self.put == self.words.len() {
            self.make_room();
        }
        let width = u64::from(interval.width);
        // Whether a word leaves is hard to predict, so there is no branch: it is always
        // written, and mostly overwritten.
        let leaves = self.state >= width << (63 - TOTAL_BITS);
        self.words[self.put] = self.state as u32;
        self.put += usize::from(leaves);
        let state = self.state >> (32 * u32::from(leaves));
        self.state = ((state / width) << TOTAL_BITS) + state % width + u64::from(interval.start);
    }

    #[cold]
    fn make_room(&mut self) {
        self.words.resize(2 * self.words.len() + 1024, 0);
    }

    /// How many bytes [`RansEncoder::finish`] appends.
    pub(super) fn bytes(&self) -> usize {
        size_of::<u64>() + size_of_val(&self.words[..self.put])
    }

    /// Appends everything to `out`, in the order in which it is taken.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        out.reserve(self.bytes());
        out.extend_from_slice(&self.state.to_le_bytes());
        self.words[..self.put].iter().rev().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

impl<'a> RansDecoder<'a> {
    /// Takes from all of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, DeltaError> {
        let (state, words) = bytes.split_first_chunk().ok_or(DeltaError::Truncated)?;
        let state = u64::from_le_bytes(*state);
        match words.as_chunks() {
            (words, []) if (LOWEST..LOWEST << 32).contains(&state) => Ok(Self { state, words, taken: 0 }),
            _ => Err(DeltaError::Damaged("its entropy code")),
        }
    }

    /// The point that lies in the next interval.
    pub(super) fn point(&self) -> u32 {
        self.state as u32 & (TOTAL - 1)
    }

    /// Takes the interval in which [`RansDecoder::point`] lies. Behind the last word come zeros:
    /// whether all was well, the end tells.
    pub(super) fn take(&mut self, interval: RansInterval) {
        let within = u64::from(self.point() - interval.start);
        let state = u64::from(interval.width) * (self.state >> TOTAL_BITS) + within;
        let word = self.words.get(self.taken).map_or(0, |word| u32::from_le_bytes(*word));
        let comes = state < LOWEST;
        self.taken += usize::from(comes);
        self.state = if comes { state << 32 | u64::from(word) } else { state };
    }

    /// Whether exactly what was put has been taken.
    pub(super) fn is_finished(&self) -> bool {
        self.state == LOWEST && self.taken == self.words.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_come_back_in_reverse_and_cost_their_information() {
        let likely = RansInterval { start: 5, width: TOTAL / 2 };
        let rare = RansInterval { start: TOTAL - 1, width: 1 };
        let all = RansInterval { start: 0, width: TOTAL };
        let put: Vec<_> =
            (0..1000).map(|at| if at % 100 == 0 { rare } else { likely }).chain([all]).collect();
        let mut encoder = RansEncoder::new();
        put.iter().for_each(|interval| encoder.put(*interval));
        let mut bytes = Vec::new();
        encoder.finish(&mut bytes);
        let bits = 990 + 10 * TOTAL_BITS as usize;
        assert!((bits / 8..bits / 8 + 12).contains(&bytes.len()), "{} bytes", bytes.len());
        let mut decoder = RansDecoder::new(&bytes).unwrap();
        for interval in put.iter().rev() {
            assert!((interval.start..interval.start + interval.width).contains(&decoder.point()));
            assert!(!decoder.is_finished());
            decoder.take(*interval);
        }
        assert!(decoder.is_finished());
        decoder.take(RansInterval { start: 0, width: 1 });
        assert!(!decoder.is_finished(), "more was taken than put");
    }
}
