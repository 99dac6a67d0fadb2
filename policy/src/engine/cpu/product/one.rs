//! The product with a single token: as fast as the weights can be read.

use super::super::lanes::{Abreast, Lanes, Line};
use super::weight::{Element, Typed};
use super::{CACHE_LINE, Output, Product, Update};

/// Rows that are read at a time.
const ROWS: usize = 4;

#[inline(always)]
pub(super) fn product<L: Lanes, E: Element>(lanes: L, call: Product<'_, E>) {
    let Product { weight, x, y, update, .. } = call;
    let x = x.row(0).as_chunks::<2>().0;
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
    x: &[[Line; 2]],
    y: Output<'_>,
    update: Update,
) {
    let rows: [_; R] = std::array::from_fn(|r| weight.row(first + r));
    let blocks = rows[0].0.len();
    let whole = Abreast::new(rows.each_ref().map(|(whole, _)| *whole), blocks);
    let next = weight.between(first + R, first + 2 * R);
    let mut sums = [lanes.zero(); R];
    for (block, x) in x[..blocks].iter().enumerate() {
        let [even, odd] = [lanes.load(&x[0]), lanes.load(&x[1])];
        for row in 0..R {
            // The next rows' bytes are likely in other pages, and the processor itself does not look beyond its page.
            let ahead = row * weight.row_bytes() + block * size_of::<E::Block>();
            for line in (0..size_of::<E::Block>()).step_by(CACHE_LINE) {
                lanes.prefetch(next, ahead + line);
            }
        }
        for (sum, w) in sums.iter_mut().zip(whole.at(block)) {
            let w = E::widen(lanes, w);
            *sum = lanes.mul_add(w[1], odd, lanes.mul_add(w[0], even, *sum));
        }
    }
    for r in 0..R {
        if let (Some(rest), Some(x)) = (&rows[r].1, x.get(blocks)) {
            let w = E::widen(lanes, rest);
            sums[r] = lanes.mul_add(w[0], lanes.load(&x[0]), sums[r]);
            sums[r] = lanes.mul_add(w[1], lanes.load(&x[1]), sums[r]);
        }
    }
    let mut vectors = [lanes.zero(); ROWS];
    vectors[..R].copy_from_slice(&sums);
    y.put(0, first, lanes.sums(vectors), R, update);
}
