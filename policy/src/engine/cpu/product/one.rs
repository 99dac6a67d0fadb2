//! The product with a single token: as fast as the weights can be read.

use super::super::lanes::{Abreast, Lanes, Line};
use super::activations::STEP_LINES;
use super::weight::{Element, Typed};
use super::{CACHE_LINE, Output, Product, Update};

/// Rows that are read at a time.
const ROWS: usize = 4;

#[inline(always)]
pub(super) fn product<L: Lanes, E: Element>(lanes: L, call: Product<'_, E>) {
    let Product { weight, x, y, update, .. } = call;
    let x = x.row(0).as_chunks::<STEP_LINES>().0;
    let whole = weight.len() / ROWS * ROWS;
    for row in (0..whole).step_by(ROWS) {
        rows::<L, E, ROWS>(lanes, weight, row, x, y, update);
    }
    for row in whole..weight.len() {
        rows::<L, E, 1>(lanes, weight, row, x, y, update);
    }
}

/// The outputs of rows `first..first + R`; R is at most 4.
#[inline(always)]
fn rows<L: Lanes, E: Element, const R: usize>(
    lanes: L,
    weight: Typed<'_, E>,
    first: usize,
    x: &[[Line; STEP_LINES]],
    y: Output<'_>,
    update: Update,
) {
    let rows: [_; R] = std::array::from_fn(|r| first + r);
    let blocks = weight.blocks(first).len();
    let whole = Abreast::new(rows.map(|row| weight.blocks(row)), blocks);
    let next = weight.between(first + R, first + 2 * R);
    let mut sums = [[lanes.zero(); R]];
    for (block, x) in x[..blocks].iter().enumerate() {
        for row in 0..R {
            // The next rows' bytes are likely in other pages, and the processor itself does not look beyond its page.
            let ahead = row * weight.row_bytes() + block * size_of::<E::Block>();
            for line in (0..size_of::<E::Block>()).step_by(CACHE_LINE) {
                lanes.prefetch(next, ahead + line);
            }
        }
        E::step::<L, R, 1>(lanes, whole.at(block), [x], &mut sums);
    }
    // Where there is no step behind the blocks, nothing is behind them.
    if let Some((x, rests)) = x.get(blocks).and_then(|x| Some((x, weight.rests(rows)?))) {
        E::step::<L, R, 1>(lanes, rests.each_ref(), [x], &mut sums);
    }
    let mut vectors = [lanes.zero(); ROWS];
    vectors[..R].copy_from_slice(&sums[0]);
    y.put(0, first, lanes.sums(vectors), R, update);
}
