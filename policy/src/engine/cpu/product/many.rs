//! The product with many tokens: weights are widened once for all of them.
//!
//! The second cache holds a block of widened rows. Panels of a few tokens are multiplied with its tiles of a few rows, all of a
//! tile's sums being in registers, over stretches of the inputs of which the first cache holds a panel's. Tokens come anew for each
//! block, from whichever cache has room for them: a few bytes for a microsecond of sums. Meanwhile the next block of rows is asked for, line by line, so that
//! memory works while the sums do.

use super::super::lanes::{Abreast, Lanes, Line, Task};
use super::ahead::Ahead;
use super::published::Widen;
use super::sums::{self, Place};
use super::weight::Typed;
use super::{Activations, Output, Product, Scratch, Update};

/// Lines of a block of widened weights: 256 KiB.
const WEIGHT_LINES: usize = 4096;
/// Lines of each row that are multiplied in one pass.
const PASS_LINES: usize = 64;
/// Tiles of the first block. Nobody asked for it ahead, so it is small, and each block is twice the last.
const FIRST_TILES: usize = 2;

/// Tiles have R rows and at most C tokens.
#[inline(always)]
pub(super) fn product<L: Lanes, E: Widen, const R: usize, const C: usize>(lanes: L, call: Product<'_, E>) {
    let Product { weight, x, y, update, scratch } = call;
    let steps = x.row_lines();
    let rows = weight.len();
    let most_tiles = (WEIGHT_LINES / (R * steps)).clamp(1, rows.div_ceil(R));
    let Scratch { weights, sums } = scratch;
    // Only ever longer: products of other shapes come in between.
    weights.resize(weights.len().max(most_tiles * R * steps), Line::default());
    sums.resize(sums.len().max(most_tiles * R * C), Line::default());
    let (mut first, mut count) = (0, FIRST_TILES);
    while first < rows {
        count = count.min(most_tiles).min((rows - first).div_ceil(R));
        let weights = &mut weights.as_chunks_mut::<R>().0[..count * steps];
        for (tile, widened) in weights.chunks_exact_mut(steps).enumerate() {
            widen(lanes, weight, first + tile * R, widened);
        }
        let next = first + count * R;
        let ahead = weight.between(next, next + (2 * count).min(most_tiles) * R);
        let ahead = Ahead::new(ahead, x.tokens().div_ceil(C) * count * steps);
        let mut block = Block { lanes, weights, steps, first, rows, x, y, update, ahead };
        for token in (0..x.tokens()).step_by(C) {
            match C.min(x.tokens() - token) {
                1 => block.panel::<1>(token, sums),
                2 => block.panel::<2>(token, sums),
                3 => block.panel::<3>(token, sums),
                4 if C > 3 => block.panel::<4>(token, sums),
                5 if C > 3 => block.panel::<5>(token, sums),
                _ if C > 3 => block.panel::<6>(token, sums),
                _ => unreachable!("panels have at most C tokens"),
            }
        }
        (first, count) = (next, 2 * count);
    }
}

/// Widens the rows of a tile, step by step; rows beyond the last are zeros.
#[inline(always)]
fn widen<L: Lanes, E: Widen, const R: usize>(
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
        let (blocks, rest) = (weight.blocks(first + r), weight.rests([first + r]));
        let (whole, last) = steps.split_at_mut(blocks.len());
        for (step, block) in whole.iter_mut().zip(blocks) {
            for (lines, numbers) in step.iter_mut().zip(E::widen(lanes, block)) {
                lanes.store(&mut lines[r], numbers);
            }
        }
        if let (Some(step), Some(block)) = (last.first_mut(), rest.as_ref().map(|[rest]| rest)) {
            for (lines, numbers) in step.iter_mut().zip(E::widen(lanes, block)) {
                lanes.store(&mut lines[r], numbers);
            }
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
    ahead: Ahead<'a>,
}

impl<L: Lanes, const R: usize> Block<'_, L, R> {
    /// Multiplies tokens `token..token + C` with the block.
    #[inline(always)]
    fn panel<const C: usize>(&mut self, token: usize, sums: &mut [Line]) {
        let x: [&[Line]; C] = std::array::from_fn(|c| self.x.row(token + c));
        let sums = sums.as_chunks_mut::<R>().0.as_chunks_mut::<C>().0;
        for start in (0..self.steps).step_by(PASS_LINES) {
            let end = self.steps.min(start + PASS_LINES);
            let x = Abreast::new(x.map(|row| &row[start..end]), end - start);
            for (tile, (weights, sums)) in self.weights.chunks_exact(self.steps).zip(&mut *sums).enumerate() {
                let weights = &weights[start..end];
                let ahead = self.ahead.take(weights.len());
                let Self { y, update, first, rows, .. } = *self;
                let row = first + tile * R;
                let place = (end == self.steps).then_some(Place { y, update, token, row, rows: rows - row });
                self.lanes.run(Tile { weights, x, sums, first: start == 0, place, ahead });
            }
        }
    }
}

/// Adds to a tile's sums the products of a stretch of the inputs.
///
/// A task of its own, as within the loops around it the compiler would not keep all of the sums in registers.
struct Tile<'a, const R: usize, const C: usize> {
    weights: &'a [[Line; R]],
    x: Abreast<'a, Line, C>,
    sums: &'a mut [[Line; R]; C],
    /// Whether this is the first stretch: sums begin at zero.
    first: bool,
    /// Where the outputs go, if this is the last one.
    place: Option<Place<'a>>,
    ahead: Ahead<'a>,
}

impl<const R: usize, const C: usize> Task for Tile<'_, R, C> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let sums = sums::load(lanes, self.sums, self.first);
        let sums = match self.ahead.lines() {
            0 => self.multiply::<L, 0>(lanes, sums),
            1 => self.multiply::<L, 1>(lanes, sums),
            _ => self.multiply::<L, 2>(lanes, sums),
        };
        sums::leave(lanes, sums, self.sums, self.place);
    }
}

impl<const R: usize, const C: usize> Tile<'_, R, C> {
    /// Goes through all steps and asks for A cache lines ahead at each: enough for the pace.
    #[inline(always)]
    fn multiply<L: Lanes, const A: usize>(
        &self,
        lanes: L,
        mut sums: [[L::Vector; R]; C],
    ) -> [[L::Vector; R]; C] {
        for (step, weights) in self.weights.iter().enumerate() {
            self.ahead.ask::<L, A>(lanes, step);
            let mut tile = [lanes.zero(); R];
            for (weight, line) in tile.iter_mut().zip(weights) {
                *weight = lanes.load(line);
            }
            for (sums, x) in sums.iter_mut().zip(self.x.at(step)) {
                let x = lanes.load(x);
                for (sum, weight) in sums.iter_mut().zip(tile) {
                    *sum = lanes.mul_add(weight, x, *sum);
                }
            }
        }
        sums
    }
}
