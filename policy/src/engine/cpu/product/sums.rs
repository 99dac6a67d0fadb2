//! A tile's sums in memory: R rows of a weight with C tokens, sixteen lanes of each, between two stretches of the inputs.

use super::super::lanes::{Lanes, Line};
use super::output::{Output, Update};

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

/// Puts the sums back.
#[inline(always)]
pub(super) fn store<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    lines: &mut [[Line; R]; C],
    sums: [[L::Vector; R]; C],
) {
    for (lines, sums) in lines.iter_mut().zip(sums) {
        for (line, sum) in lines.iter_mut().zip(sums) {
            lanes.store(line, sum);
        }
    }
}

/// Where a tile's outputs are.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) y: Output<'a>,
    pub(super) update: Update,
    /// The first token.
    pub(super) token: usize,
    /// The first row.
    pub(super) row: usize,
    /// How many rows there are; a tile may have more, which count nothing.
    pub(super) rows: usize,
}

/// Adds the lanes up, and puts what they come to into the output. R is at most 4.
#[inline(always)]
pub(super) fn finish<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    lines: &[[Line; R]; C],
    place: Place<'_>,
) {
    let Place { y, update, token, row, rows } = place;
    for (c, lines) in lines.iter().enumerate() {
        let mut vectors = [lanes.zero(); 4];
        for (vector, line) in vectors.iter_mut().zip(lines) {
            *vector = lanes.load(line);
        }
        y.put(token + c, row, lanes.sums(vectors), rows.min(R), update);
    }
}
