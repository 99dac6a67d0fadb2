//! Draws that are the same on every platform and for ever.
//!
//! Prompts, held-out orders and task choices are derived, never sent: the learner and every
//! volunteer must draw the same numbers from the same seed. So the generator is part of the
//! protocol and is specified here: the bytes of `BLAKE3-XOF(key = seed, input = "")`, read as
//! little-endian `u64`s, and rejection sampling for ranges.

/// A stream of deterministic draws from a 32-byte seed.
pub struct Draws {
    bytes: blake3::OutputReader,
}

impl Draws {
    /// Starts the stream of `seed`.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { bytes: blake3::Hasher::new_keyed(&seed).finalize_xof() }
    }

    /// The next 64 bits of the stream.
    pub fn next_u64(&mut self) -> u64 {
        let mut word = [0; 8];
        self.bytes.fill(&mut word);
        u64::from_le_bytes(word)
    }

    /// An unbiased draw from `0..n`; 0 for `n = 0`.
    pub fn below(&mut self, n: u64) -> u64 {
        if n <= 1 {
            return 0;
        }
        // Words in the incomplete last multiple of `n` would favour small results: draw again.
        let limit = u64::MAX - (u64::MAX % n + 1) % n;
        loop {
            let word = self.next_u64();
            if word <= limit {
                return word % n;
            }
        }
    }

    /// An unbiased draw from `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            return low;
        }
        let width = high.wrapping_sub(low) as u64;
        let offset = if width == u64::MAX { self.next_u64() } else { self.below(width + 1) };
        low.wrapping_add(offset as i64)
    }

    /// Shuffles in place (Fisher-Yates from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// One element, each equally likely; `None` from an empty slice.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len() as u64) as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_fixed_for_ever() {
        let mut draws = Draws::new([7; 32]);
        let drawn: Vec<u64> = (0..6).map(|_| draws.below(1000)).collect();
        // If this changes, every derived prompt changes: raise the version in `order::derive`.
        let mut again = Draws::new([7; 32]);
        assert_eq!(drawn, (0..6).map(|_| again.next_u64() % 1000).collect::<Vec<_>>());
        assert_eq!(blake3::Hasher::new_keyed(&[7; 32]).finalize().as_bytes()[..8], {
            Draws::new([7; 32]).next_u64().to_le_bytes()
        });
    }

    #[test]
    fn ranges_are_inclusive_and_covered() {
        let mut draws = Draws::new([1; 32]);
        let seen: std::collections::BTreeSet<i64> = (0..500).map(|_| draws.between(-2, 3)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2, 3]);
        assert_eq!(draws.between(5, 5), 5);
        assert_eq!(draws.between(5, 4), 5);
        let _ = draws.between(i64::MIN, i64::MAX);
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        let mut items: Vec<u32> = (0..50).collect();
        Draws::new([3; 32]).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
