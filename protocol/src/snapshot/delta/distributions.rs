//! Distributions over numbers from 0 on: uniform within buckets of half an octave, 0 | 1 | 2 | 3 |
//! 4-5 | 6-7 | 8-11 | 12-15 ...
//!
//! What the entropy coder sees is an interval of [`TOTAL`]: every number gets one that is as wide
//! as its probability. Intervals of consecutive numbers are adjacent, so a run of numbers is an
//! interval as well. A number at or beyond the limit is an *escape*.

use super::DeltaError;
use super::encoding::DeltaReader;
use super::level::{TOP, code, level};

/// The logarithm of [`TOTAL`].
pub(super) const TOTAL_BITS: u32 = 28;
/// What the widths of all intervals add up to.
pub(super) const TOTAL: u32 = 1 << TOTAL_BITS;
/// Bits of the table that finds buckets.
const TABLE_BITS: u32 = 8;

/// A part of [`TOTAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RansInterval {
    pub(super) start: u32,
    pub(super) width: u32,
}

/// How often numbers were seen, bucket by bucket.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    escapes: u32,
    buckets: Vec<u32>,
}

/// A probability distribution over numbers, for coding and decoding.
#[derive(Clone, Debug)]
pub(super) struct Density {
    buckets: Vec<Bucket>,
    /// All numbers from the limit on.
    escape: RansInterval,
    /// For the upper bits of a point of [`TOTAL`]: the bucket in which the first such point lies.
    table: Vec<u8>,
}

/// Numbers of equal probability.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The smallest number of the bucket.
    first: u32,
    /// Where its interval starts.
    start: u32,
    /// How wide each number's interval is; at least 1.
    each: u32,
}

/// The first number of a bucket.
fn edge(bucket: usize) -> u32 {
    if bucket < 2 { bucket as u32 } else { (2 | bucket as u32 & 1) << (bucket / 2 - 1) }
}

/// The exponent and the first bit after it of a float near `number`: whether a difference is 1 or
/// 2 is as good as random, so there is no branch, and processors convert faster than some find the
/// highest bit. Exact below 2^23, and beyond every limit from there on.
fn bucket_of(number: u32) -> usize {
    let half_octaves = |float: f32| float.to_bits() >> (f32::MANTISSA_DIGITS - 2);
    half_octaves((2 * i64::from(number) + 1) as f32).saturating_sub(half_octaves(2.0)) as usize
}

impl Counts {
    /// No numbers yet, all below 2^`bits`.
    pub(super) fn new(bits: u32) -> Self {
        Self { escapes: 0, buckets: vec![0; 2 * bits as usize] }
    }

    pub(super) fn add(&mut self, number: u32) {
        self.buckets[bucket_of(number)] += 1;
    }

    pub(super) fn add_escape(&mut self) {
        self.escapes += 1;
    }

    /// Writes the distribution: how many codes, that of the escape, and those of the buckets
    /// without the last zeros.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let width = |bucket| f64::from(edge(bucket + 1) - edge(bucket));
        let densities = self.buckets.iter().enumerate().map(|(at, count)| f64::from(*count) / width(at));
        let densities: Vec<f64> = std::iter::once(f64::from(self.escapes)).chain(densities).collect();
        let highest = densities.iter().copied().fold(0.0, f64::max);
        let used = densities.iter().rposition(|density| *density > 0.0).map_or(0, |last| last + 1);
        let code_of = |density: &f64| {
            if *density > 0.0 { code(density / highest * level(TOP) as f64) } else { 0 }
        };
        out.push(used as u8);
        out.extend(densities[..used].iter().map(code_of));
    }
}

impl Density {
    /// Reads what [`Counts::write`] wrote, for numbers below 2^`bits`.
    pub(super) fn read(bits: u32, reader: &mut DeltaReader<'_>) -> Result<Self, DeltaError> {
        let used = usize::from(reader.byte()?);
        let codes = reader.take(used)?;
        let count = 2 * bits as usize;
        if used > count + 1 {
            return Err(DeltaError::Damaged("a distribution"));
        }
        let code = |at: usize| level(codes.get(at).copied().unwrap_or(0));
        let numbers = |at: usize| u64::from(edge(at + 1) - edge(at));
        let sum = code(0) + (0..count).map(|at| code(at + 1) * numbers(at)).sum::<u64>();
        // Every number keeps at least 1, so that every number can be coded whatever the estimates say.
        let room = u64::from(TOTAL - (1 << bits) - 1);
        let mut start = 0;
        let buckets = (0..count).map(|at| {
            let each = 1 + (code(at + 1) * room).checked_div(sum).unwrap_or(0);
            let bucket = Bucket { first: edge(at), start: start as u32, each: each as u32 };
            start += each * numbers(at);
            bucket
        });
        let buckets: Vec<Bucket> = buckets.collect();
        let escape = RansInterval { start: start as u32, width: TOTAL - start as u32 };
        let mut at = 0;
        let table = (0..1u32 << TABLE_BITS).map(|upper| {
            let point = upper << (TOTAL_BITS - TABLE_BITS);
            while at + 1 < buckets.len() && buckets[at + 1].start <= point {
                at += 1;
            }
            at as u8
        });
        let table = table.collect();
        Ok(Self { buckets, escape, table })
    }

    /// Where the interval of `number` starts, which is below the limit or the limit itself.
    fn start(&self, number: u32) -> u32 {
        match self.buckets.get(bucket_of(number)) {
            Some(bucket) => bucket.start + (number - bucket.first) * bucket.each,
            None => self.escape.start,
        }
    }

    /// The interval of the numbers from `first` up to `end`, which is at most the limit.
    pub(super) fn interval(&self, first: u32, end: u32) -> RansInterval {
        let start = self.start(first);
        RansInterval { start, width: self.start(end) - start }
    }

    /// The interval of `number`, or that of all escapes.
    pub(super) fn interval_of(&self, number: u32) -> RansInterval {
        match self.buckets.get(bucket_of(number)) {
            Some(bucket) => bucket.interval_of(number - bucket.first),
            None => self.escape,
        }
    }

    /// The number in whose interval `point` lies, with the interval; `None` for an escape.
    pub(super) fn number_at(&self, point: u32) -> Option<(u32, RansInterval)> {
        if point >= self.escape.start {
            return None;
        }
        let mut at = usize::from(self.table[(point >> (TOTAL_BITS - TABLE_BITS)) as usize]);
        while self.buckets.get(at + 1).is_some_and(|next| next.start <= point) {
            at += 1;
        }
        let bucket = &self.buckets[at];
        let nth = (point - bucket.start) / bucket.each;
        Some((bucket.first + nth, bucket.interval_of(nth)))
    }

    /// The interval of every escape.
    pub(super) fn escape(&self) -> RansInterval {
        self.escape
    }
}

impl Bucket {
    fn interval_of(&self, nth: u32) -> RansInterval {
        RansInterval { start: self.start + nth * self.each, width: self.each }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_numbers() {
        assert_eq!((0..10).map(edge).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 6, 8, 12, 16, 24]);
        assert!((0..40_000).all(|n| (edge(bucket_of(n))..edge(bucket_of(n) + 1)).contains(&n)));
        // Of a number beyond every limit the bucket has only to be so too, even where a float is not exact.
        let limit = bucket_of(1 << 18);
        assert_eq!((limit, bucket_of((1 << 18) - 1)), (36, 35));
        assert!([1 << 20, 1 << 24, u32::MAX - 1, u32::MAX].iter().all(|n| bucket_of(*n) > limit));
    }

    #[test]
    fn intervals_tile_the_total_and_are_found_again() {
        for codes in [vec![], vec![255], vec![0, 1, 255, 3], vec![9; 17]] {
            let bytes = [vec![codes.len() as u8], codes].concat();
            let density = Density::read(8, &mut DeltaReader::new(&bytes)).unwrap();
            let mut end = 0;
            for number in 0..256 {
                let own = density.interval_of(number);
                assert!(own.start == end && own.width > 0, "{number}: {own:?}");
                assert_eq!(density.interval(number, number + 1), own);
                end += own.width;
                assert_eq!(density.number_at(own.start), Some((number, own)));
                assert_eq!(density.number_at(end - 1), Some((number, own)));
            }
            assert_eq!(density.escape(), RansInterval { start: end, width: TOTAL - end });
            assert!(end < TOTAL);
            assert_eq!([density.number_at(end), density.number_at(TOTAL - 1)], [None, None]);
            assert_eq!(density.interval_of(256), density.escape());
        }
    }

    #[test]
    fn frequent_numbers_get_wide_intervals() {
        let mut counts = Counts::new(8);
        (0..300).for_each(|_| counts.add(1));
        (0..100).for_each(|at| counts.add(128 + at));
        let mut bytes = Vec::new();
        counts.write(&mut bytes);
        let density = Density::read(8, &mut DeltaReader::new(&bytes)).unwrap();
        let share = |from, to| f64::from(density.interval(from, to).width) / f64::from(TOTAL);
        assert!((share(1, 2) - 0.75).abs() < 0.03, "{}", share(1, 2));
        assert!((share(128, 256) - 0.25).abs() < 0.03, "{}", share(128, 256));
    }
}
