//! The empirical entropy of an update: what coding it must cost.
//!
//! An element's symbol is its difference, new minus old in the order of floats (of the bits, for
//! one-byte elements), 0 when it did not change. With n_s elements of symbol s among N, the
//! **order-0 entropy** is Σ n_s log2(N / n_s) bits. It treats all elements alike. The entropy
//! **given the exponent** is the sum of the order-0 entropies of the classes of equal old exponent
//! (for f16 exponent and upper mantissa): both sides know the old weights, so a coder may go below
//! the order-0 entropy, but hardly below this one.

use echo_protocol::snapshot::delta::Width;
use std::collections::HashMap;

/// Most distinct symbols that are counted; a dense update in f32 has more, and then there is no figure.
const MAX_SYMBOLS: usize = 1 << 22;

/// How often every difference occurred.
#[derive(Default)]
pub(super) struct Symbols {
    /// By width and exponent: elements that did not change.
    unchanged: HashMap<(Width, u8), u64>,
    /// By width, exponent and difference: elements that did.
    changed: HashMap<(Width, u8, i64), u64>,
}

impl Symbols {
    /// Counts the elements of a chunk; `old` counts as continued by zeros. Elements begin with the
    /// chunk, an incomplete last one is left out.
    pub(super) fn add(&mut self, old: &[u8], new: &[u8], width: Width) {
        let bytes = width.bytes();
        let mut unchanged = [0u64; 256];
        for (at, new) in new.chunks_exact(bytes).enumerate() {
            let old = element(old.get(at * bytes..(at + 1) * bytes).unwrap_or_default());
            let new = element(new);
            let exponent = ((old << 1 >> (8 * bytes - 8)) & 0xff) as u8;
            if old == new {
                unchanged[usize::from(exponent)] += 1;
            } else if self.changed.len() <= MAX_SYMBOLS {
                let difference = ordered(new, width) - ordered(old, width);
                *self.changed.entry((width, exponent, difference)).or_default() += 1;
            }
        }
        for (exponent, count) in unchanged.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            *self.unchanged.entry((width, exponent as u8)).or_default() += count;
        }
    }

    /// The share of elements that changed.
    pub(super) fn changed_share(&self) -> Option<f64> {
        let (changed, unchanged) = (self.changed.values().sum::<u64>(), self.unchanged.values().sum::<u64>());
        self.is_complete().then(|| changed as f64 / (changed + unchanged).max(1) as f64)
    }

    /// The order-0 entropy, in bytes.
    pub(super) fn order_0(&self) -> Option<f64> {
        self.entropy(|width, _| (width, 0))
    }

    /// The entropy given the exponent, in bytes.
    pub(super) fn given_exponent(&self) -> Option<f64> {
        self.entropy(|width, exponent| (width, exponent))
    }

    fn is_complete(&self) -> bool {
        self.changed.len() <= MAX_SYMBOLS
    }

    fn entropy(&self, class: impl Fn(Width, u8) -> (Width, u8)) -> Option<f64> {
        let mut classes: HashMap<(Width, u8), HashMap<i64, u64>> = HashMap::new();
        for ((width, exponent), count) in &self.unchanged {
            *classes.entry(class(*width, *exponent)).or_default().entry(0).or_default() += count;
        }
        for ((width, exponent, difference), count) in &self.changed {
            *classes.entry(class(*width, *exponent)).or_default().entry(*difference).or_default() += count;
        }
        let bits = classes.values().map(|counts| {
            let all = counts.values().sum::<u64>() as f64;
            counts.values().map(|&count| count as f64 * (all / count as f64).log2()).sum::<f64>()
        });
        self.is_complete().then(|| bits.sum::<f64>() / 8.0)
    }
}

fn element(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The position of a float of these bits among all floats of its width.
fn ordered(bits: u64, width: Width) -> i64 {
    let sign = 1 << (8 * width.bytes() - 1);
    let magnitude = (bits & (sign - 1)) as i64;
    match width {
        Width::One => bits as i64,
        Width::Two | Width::Four if bits & sign == 0 => magnitude,
        Width::Two | Width::Four => -1 - magnitude,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropies_are_those_of_the_textbook() {
        let of = |values: &[u16]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let mut symbols = Symbols::default();
        // Two exponents; half of the elements of the first change by one, none of the second.
        let (old, new) = (of(&[0x3c00, 0x3c00, 0x4000, 0x4000]), of(&[0x3c01, 0x3c00, 0x4000, 0x4000]));
        symbols.add(&old, &new, Width::Two);
        assert_eq!(symbols.changed_share(), Some(0.25));
        let order_0 = 4f64.log2() + 3.0 * (4f64 / 3.0).log2();
        assert!((symbols.order_0().unwrap() * 8.0 - order_0).abs() < 1e-12);
        assert!((symbols.given_exponent().unwrap() * 8.0 - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_order_of_floats_crosses_zero_without_a_jump() {
        let steps = [0x8001u64, 0x8000, 0x0000, 0x0001].map(|bits| ordered(bits, Width::Two));
        assert_eq!(steps, [-2, -1, 0, 1]);
    }
}
