//! The product with several tokens: weights are widened once for all of them.
//!
//! A block of rows is widened to where the second cache holds it; then panels of a few tokens, of which the first cache
//! holds a stretch of the inputs, are multiplied with tiles of a few rows, all of a tile's sums being in registers.

use super::super::lanes::{Lanes, Line};
use super::weight::{Element, Typed};
use super::{Activations, Output, Product, Scratch, Update, packed_lines};

/// Lines of a block of widened weights: 256 KiB.
const WEIGHT_LINES: usize = 4096;
/// Lines of each row that are multiplied in one pass.
const PASS_LINES: usize = 64;

/// Tiles have R rows and at most C tokens.
#[inline(always)]
pub(super) fn product<L: Lanes, E: Element, const R: usize, const C: usize>(lanes: L, call: Product<'_, E>) {
    let Product { weight, x, y, update, scratch } = call;
    let steps = packed_lines(x.inputs());
    let tokens = x.tokens();
    let block_tiles = if tokens <= C { 1 } else { (WEIGHT_LINES / (R * steps)).max(1) };
    let tiles = weight.len().div_ceil(R);
    scratch.weights.resize(block_tiles.min(tiles) * R * steps, Line::default());
    scratch.sums.resize(block_tiles.min(tiles) * R * C, Line::default());
    let Scratch { weights, sums } = scratch;
    for first in (0..tiles).step_by(block_tiles) {
        let count = block_tiles.min(tiles - first);
        let weights = &mut weights.as_chunks_mut::<R>().0[..count * steps];
        for (tile, widened) in weights.chunks_exact_mut(steps).enumerate() {
            widen(lanes, weight, (first + tile) * R, widened);
        }
        let block = Block { lanes, weights, steps, first: first * R, rows: weight.len(), x, y, update };
        for token in (0..tokens).step_by(C) {
            match C.min(tokens - token) {
                1 => block.panel::<1>(token, sums),
                2 => block.panel::<2>(token, sums),
                3 => block.panel::<3>(token, sums),
                4 if C > 3 => block.panel::<4>(token, sums),
                5 if C > 3 => block.panel::<5>(token, sums),
                _ if C > 3 => block.panel::<6>(token, sums),
                _ => unreachable!("panels have at most C tokens"),
            }
        }
    }
}

/// Widens the rows of a tile, step by step; rows beyond the last are zeros.
#[inline(always)]
fn widen<L: Lanes, E: Element, const R: usize>(
    lanes: L,
    weight: Typed<'_, E>,
    first: usize,
    widened: &mut [[Line; R]],
) {
    let steps = widened.as_chunks_mut::<2>().0;
    for r in 0..R {
        if first + r >= weight.len() {
            steps.iter_mut().flatten().for_each(|lines| lines[r] = Line::default());
            continue;
        }
        let (blocks, rest) = weight.row(first + r);
        for (step, block) in steps.iter_mut().zip(blocks.iter().chain(&rest)) {
            let [even, odd] = E::widen(lanes, block);
            lanes.store(&mut step[0][r], even);
            lanes.store(&mut step[1][r], odd);
        }
    }
}

/// A block of widened rows and what they are multiplied with.
struct Block<'a, L, const R: usize> {
    lanes: L,
    /// Tile by tile, of each its steps.
    weights: &'a [[Line; R]],
    steps: usize,
    /// The first tile's first row.
    first: usize,
    /// Rows there are in all.
    rows: usize,
    x: Activations<'a>,
    y: Output<'a>,
    update: Update,
}

impl<L: Lanes, const R: usize> Block<'_, L, R> {
    /// Multiplies tokens `token..token + C` with the block.
    #[inline(always)]
    fn panel<const C: usize>(&self, token: usize, sums: &mut [Line]) {
        let x: [&[Line]; C] = std::array::from_fn(|c| self.x.row(token + c));
        let sums = sums.as_chunks_mut::<R>().0.as_chunks_mut::<C>().0;
        for start in (0..self.steps).step_by(PASS_LINES) {
            let end = self.steps.min(start + PASS_LINES);
            let x = x.map(|row| &row[start..end]);
            for (tile, (weights, kept)) in self.weights.chunks_exact(self.steps).zip(&mut *sums).enumerate() {
                let mut sums = [[self.lanes.zero(); R]; C];
                if start > 0 {
                    sums = kept.each_ref().map(|row| row.each_ref().map(|line| self.lanes.load(line)));
                }
                let sums = multiply(self.lanes, &weights[start..end], x, sums);
                if end == self.steps {
                    self.finish(token, self.first + tile * R, sums);
                } else {
                    for (lines, vectors) in kept.iter_mut().zip(sums) {
                        for (line, vector) in lines.iter_mut().zip(vectors) {
                            self.lanes.store(line, vector);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn finish<const C: usize>(&self, token: usize, row: usize, sums: [[L::Vector; R]; C]) {
        for (c, sums) in sums.into_iter().enumerate() {
            let vectors = std::array::from_fn(|r| if r < R { sums[r.min(R - 1)] } else { self.lanes.zero() });
            self.y.put(token + c, row, self.lanes.sums(vectors), R.min(self.rows - row), self.update);
        }
    }
}

/// Adds a tile's products, step by step.
#[inline(always)]
fn multiply<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    weights: &[[Line; R]],
    x: [&[Line]; C],
    mut sums: [[L::Vector; R]; C],
) -> [[L::Vector; R]; C] {
    let x = x.map(|row| &row[..weights.len()]);
    for (step, weights) in weights.iter().enumerate() {
        let weights = weights.each_ref().map(|line| lanes.load(line));
        for c in 0..C {
            let x = lanes.load(&x[c][step]);
            for r in 0..R {
                sums[c][r] = lanes.mul_add(weights[r], x, sums[c][r]);
            }
        }
    }
    sums
}
