//! Natural numbers of a given length, and how they are written.

use std::ops::RangeInclusive;

/// How many digits a task may ask its numbers to have. Sums of
/// [`MAX_TERMS`](super::chain_sum::MAX_TERMS) such numbers fit an `i64` with room to spare.
pub(crate) const DIGITS: RangeInclusive<i64> = 1..=9;

/// The smallest and the largest number with exactly `digits` digits, `digits` within [`DIGITS`]; never 0.
pub(crate) fn bounds(digits: i64) -> (i64, i64) {
    debug_assert!(DIGITS.contains(&digits));
    let low = (1..digits).fold(1, |low, _| low * 10);
    (low, low * 10 - 1)
}

/// How many digits `number` is written with.
pub(crate) fn width(number: i64) -> usize {
    number.to_string().len()
}

/// Numbers separated by commas without spaces: `3,8,1`.
pub(crate) fn list(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_as_many_digits_as_asked() {
        assert_eq!(bounds(1), (1, 9));
        assert_eq!(bounds(2), (10, 99));
        assert_eq!(bounds(*DIGITS.end()), (100_000_000, 999_999_999));
    }
}
