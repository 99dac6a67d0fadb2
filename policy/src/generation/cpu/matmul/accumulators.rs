//! A tile's sums in memory: R rows of a weight with C tokens, sixteen lanes of each, between two
//! stretches of the inputs.

use super::super::simd::{Lanes, Line};
use super::output::{OutputMatrix, OutputUpdate};

/// The sums in registers: as they are, or zeros where the stretch is the first.
#[inline(always)]
pub(super) fn load<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    lines: &[[Line; R]; C],
    first: bool,
) -> [[L::Vector; R]; C] {
    let mut sums = [[lanes.zero(); R]; C];
    if !first {
        for (sums, lines) in sums.iter_mut().zip(lines) {
            for (sum, line) in sums.iter_mut().zip(lines) {
                *sum = lanes.load(line);
            }
        }
    }
    sums
}

/// Adds the products of a vector of R rows with those of C tokens.
#[inline(always)]
pub(super) fn add<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    weights: [L::Vector; R],
    x: [&Line; C],
    sums: &mut [[L::Vector; R]; C],
) {
    for (sums, x) in sums.iter_mut().zip(x) {
        let x = lanes.load(x);
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum = lanes.mul_add(weight, x, *sum);
        }
    }
}

/// Where a tile's outputs are.
#[derive(Clone, Copy)]
pub(super) struct TilePlace<'a> {
    pub(super) y: OutputMatrix<'a>,
    pub(super) update: OutputUpdate,
    /// Index of the tile's first token.
    pub(super) token: usize,
    /// Index of the tile's first row of the weight.
    pub(super) row: usize,
    /// How many rows there are; a tile may have more, which count nothing.
    pub(super) rows: usize,
}

/// Adds the lanes up, and puts what they come to into the output; or puts the sums back, where they
/// have no place yet. R is at most 4.
#[inline(always)]
pub(super) fn leave<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    sums: [[L::Vector; R]; C],
    lines: &mut [[Line; R]; C],
    place: Option<TilePlace<'_>>,
) {
    let Some(TilePlace { y, update, token, row, rows }) = place else {
        for (lines, sums) in lines.iter_mut().zip(sums) {
            for (line, sum) in lines.iter_mut().zip(sums) {
                lanes.store(line, sum);
            }
        }
        return;
    };
    let mut vectors = [[lanes.zero(); 4]; C];
    for (vectors, sums) in vectors.iter_mut().zip(&sums) {
        vectors[..R].copy_from_slice(sums);
    }
    for (c, totals) in lanes.all_sums(vectors).iter().enumerate() {
        y.put(token + c, row, *totals, rows.min(R), update);
    }
}
