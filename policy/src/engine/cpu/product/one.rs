//! The product with a single token: as fast as the weights can be read.

use super::super::lanes::Lanes;
use super::weight::{Element, Typed};
use super::{Output, Product, Update};

/// Rows that are read at a time.
const ROWS: usize = 4;
/// How far ahead each row is asked for, in bytes.
const AHEAD: usize = 2048;

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
    x: &[[super::Line; 2]],
    y: Output<'_>,
    update: Update,
) {
    let rows: [_; R] = std::array::from_fn(|r| weight.row(first + r));
    let blocks = rows[0].0.len();
    let whole = rows.each_ref().map(|(whole, _)| &whole[..blocks]);
    let mut sums = [lanes.zero(); R];
    for (block, x) in x[..blocks].iter().enumerate() {
        let [even, odd] = [lanes.load(&x[0]), lanes.load(&x[1])];
        for r in 0..R {
            let w = E::widen(lanes, &whole[r][block]);
            sums[r] = lanes.mul_add(w[0], even, sums[r]);
            sums[r] = lanes.mul_add(w[1], odd, sums[r]);
        }
    }
    for r in 0..R {
        if let (Some(rest), Some(x)) = (&rows[r].1, x.get(blocks)) {
            let w = E::widen(lanes, rest);
            sums[r] = lanes.mul_add(w[0], lanes.load(&x[0]), sums[r]);
            sums[r] = lanes.mul_add(w[1], lanes.load(&x[1]), sums[r]);
        }
    }
    let vectors = std::array::from_fn(|r| if r < R { sums[r.min(R - 1)] } else { lanes.zero() });
    y.put(0, first, lanes.sums(vectors), R, update);
}
