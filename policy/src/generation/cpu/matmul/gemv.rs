//! The product with a single token: as fast as the weights can be read.
//!
//! Rows are read one after the other, so a thread reads one stretch of memory from its beginning to
//! its end, which processors are best at looking ahead in. (Four rows side by side came to half of
//! the bandwidth on a Zen 4, with and without asking ahead.)

use super::super::simd::{Abreast, Lanes, Line};
use super::weight::{Typed, WeightElement};
use super::{OutputMatrix, OutputUpdate, Product, STEP_LINES};

/// Rows whose lanes are added up at a time.
const ROWS: usize = 4;

#[inline(always)]
pub(super) fn product<L: Lanes, E: WeightElement>(lanes: L, call: Product<'_, E>) {
    let Product { weight, x, y, update, .. } = call;
    let x = x.row(0).as_chunks::<STEP_LINES>().0;
    for first in (0..weight.len()).step_by(ROWS) {
        rows::<L, E>(lanes, weight, first, x, y, update);
    }
}

/// The outputs of four rows from the first on, as far as there are so many.
#[inline(always)]
fn rows<L: Lanes, E: WeightElement>(
    lanes: L,
    weight: Typed<'_, E>,
    first: usize,
    x: &[[Line; STEP_LINES]],
    y: OutputMatrix<'_>,
    update: OutputUpdate,
) {
    let count = ROWS.min(weight.len() - first);
    let mut vectors = [lanes.zero(); ROWS];
    for (row, vector) in (first..first + count).zip(&mut vectors) {
        let blocks = weight.blocks(row);
        let whole = Abreast::new([blocks], blocks.len());
        let mut sums = [[lanes.zero()]];
        for (block, x) in x[..blocks.len()].iter().enumerate() {
            E::step::<L, 1, 1>(lanes, whole.at(block), [x], &mut sums);
        }
        // Where there is no step after the blocks, nothing comes after them.
        if let Some((x, rest)) = x.get(blocks.len()).and_then(|x| Some((x, weight.rests([row])?))) {
            E::step::<L, 1, 1>(lanes, rest.each_ref(), [x], &mut sums);
        }
        *vector = sums[0][0];
    }
    y.put(0, first, lanes.sums(vectors), count, update);
}
