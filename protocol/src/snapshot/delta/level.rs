//! Positive numbers in one byte, the nearest at most 6 % off: rates and densities are estimates,
//! and need no more.

/// The largest code that an encoder uses.
pub(super) const TOP: u8 = 1 + 8 * 24;

/// What a code stands for: 0 for 0, then 8, 9 ... 15, 16, 18 ... 30, 32, 36 and so on, up to 2^35.
pub(super) fn level(code: u8) -> u64 {
    match code.checked_sub(1) {
        None => 0,
        Some(code) => u64::from(8 | code & 7) << (code >> 3),
    }
}

/// The code whose level is nearest to `value`, between that of 8 and [`TOP`].
pub(super) fn code(value: f64) -> u8 {
    let above = (1..=TOP).find(|code| level(*code) as f64 >= value).unwrap_or(TOP);
    let below = above.saturating_sub(1).max(1);
    if level(above) as f64 - value <= value - level(below) as f64 { above } else { below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_nearest_of_their_levels() {
        assert_eq!([0, 1, 8, 9, 16, 17].map(level), [0, 8, 15, 16, 30, 32]);
        assert_eq!(level(TOP), 1 << 27);
        assert!((1..=TOP).all(|own| code(level(own) as f64) == own));
        assert_eq!((code(0.0), code(31.2), code(30.9), code(1e30)), (1, 17, 16, TOP));
    }
}
