//! The product with a few tokens, and with any number where weights are quantised: weights are
//! widened on their way into the sums.
//!
//! The second cache holds a block of rows as they are stored. Panels of tokens are multiplied with
//! it one after the other, with tiles of a few rows, all of a tile's sums being in registers, over
//! stretches of the inputs of which the first cache holds a panel's. Meanwhile the next block of
//! rows is asked for, line by line: with few tokens memory is as busy as the sums are, and neither
//! must wait for the other.

use std::ops::Range;

use super::super::simd::{Abreast, Lanes, Line, Task};
use super::accumulators;
use super::accumulators::TilePlace;
use super::prefetch::Prefetch;
use super::weight::{Typed, WeightElement};
use super::{OutputMatrix, OutputUpdate, PackedActivations, Product, STEP_LINES};

/// Tokens up to which it is the quicker way with published weights.
pub(super) const MOST_TOKENS: usize = 32;

/// Bytes of a block of rows.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks of inputs that are multiplied in one pass.
const PASS: usize = 32;

/// Tiles have R rows and at most C tokens.
#[inline(always)]
pub(super) fn product<L: Lanes, E: WeightElement, const R: usize, const C: usize>(
    lanes: L,
    call: Product<'_, E>,
) {
    let Product { weight, x, y, update, scratch } = call;
    let block = (BLOCK_BYTES / weight.row_bytes() / R).max(1) * R;
    let sums = &mut scratch.sums;
    // Only ever longer: products of other shapes come in between.
    sums.resize(sums.len().max(block * C), Line::default());
    let panels = x.tokens().div_ceil(C);
    for first in (0..weight.len()).step_by(block) {
        let rows = first..weight.len().min(first + block);
        let mut ahead = weight.between(rows.end, rows.end + block);
        for panel in 0..panels {
            // Panels of like size: with one token a tile would be widening more than anything else.
            let tokens = x.tokens() * panel / panels..x.tokens() * (panel + 1) / panels;
            let now;
            (now, ahead) = ahead.split_at(ahead.len() / (panels - panel));
            let (rows, token) = (rows.clone(), tokens.start);
            let panel = Panel { lanes, weight, rows, token, x, y, update, ahead: now };
            match tokens.len() {
                1 => panel.multiply::<R, 1>(sums),
                2 => panel.multiply::<R, 2>(sums),
                3 if C > 2 => panel.multiply::<R, 3>(sums),
                4 if C > 2 => panel.multiply::<R, 4>(sums),
                5 if C > 2 => panel.multiply::<R, 5>(sums),
                6 if C > 5 => panel.multiply::<R, 6>(sums),
                _ => unreachable!("panels have at most C tokens"),
            }
        }
    }
}

/// Some tokens and a block of rows.
struct Panel<'a, L, E> {
    lanes: L,
    weight: Typed<'a, E>,
    rows: Range<usize>,
    /// Index of its first token.
    token: usize,
    x: PackedActivations<'a>,
    y: OutputMatrix<'a>,
    update: OutputUpdate,
    /// The panel's share of the next block.
    ahead: &'a [u8],
}

impl<L: Lanes, E: WeightElement> Panel<'_, L, E> {
    #[inline(always)]
    fn multiply<const R: usize, const C: usize>(&self, sums: &mut [Line]) {
        let x: [&[[Line; STEP_LINES]]; C] = std::array::from_fn(|c| self.x.row(self.token + c).as_chunks().0);
        let sums = sums.as_chunks_mut::<R>().0.as_chunks_mut::<C>().0;
        let (blocks, whole) = (x[0].len(), self.weight.blocks(self.rows.start).len());
        let tiles = self.rows.len().div_ceil(R);
        let mut ahead = Prefetch::new(self.ahead, tiles * blocks);
        for start in (0..blocks).step_by(PASS) {
            let end = blocks.min(start + PASS);
            let (is_last, whole) = (end == blocks, end.min(whole));
            let x = Abreast::new(x.map(|row| &row[start..]), end - start);
            for (tile, sums) in sums.iter_mut().take(tiles).enumerate() {
                let row = self.rows.start + tile * R;
                // Beyond the last row is the last once more, whose sums nobody takes.
                let rows: [usize; R] = std::array::from_fn(|r| (row + r).min(self.rows.end - 1));
                let Self { y, update, token, .. } = *self;
                let rest;
                let tile = Tile::<E, R, C> {
                    weights: Abreast::new(rows.map(|row| &self.weight.blocks(row)[start..]), whole - start),
                    rest: if whole < end {
                        rest = self.weight.rests(rows);
                        rest.as_ref()
                    } else {
                        None
                    },
                    x: &x,
                    whole: whole - start,
                    sums,
                    first: start == 0,
                    place: is_last.then_some(TilePlace { y, update, token, row, rows: self.rows.end - row }),
                    ahead: ahead.take(end - start),
                };
                self.lanes.run(tile);
            }
        }
    }
}

/// Adds to a tile's sums the products of a stretch of the inputs.
///
/// A task of its own, as within the loops around it the compiler would not keep all of the sums in registers.
struct Tile<'a, E: WeightElement, const R: usize, const C: usize> {
    weights: Abreast<'a, E::Block, R>,
    /// Whole blocks of the weights.
    whole: usize,
    /// What comes after them, of each row. Elsewhere, as a tile is moved, and most have none.
    rest: Option<&'a [E::Block; R]>,
    x: &'a Abreast<'a, [Line; STEP_LINES], C>,
    sums: &'a mut [[Line; R]; C],
    /// Whether this is the first stretch: sums begin at zero.
    first: bool,
    /// Where the outputs go, if this is the last one.
    place: Option<TilePlace<'a>>,
    ahead: Prefetch<'a>,
}

impl<E: WeightElement, const R: usize, const C: usize> Task for Tile<'_, E, R, C> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let sums = accumulators::load(lanes, self.sums, self.first);
        let sums = match self.ahead.lines() {
            0 => self.multiply::<L, 0>(lanes, sums),
            1 => self.multiply::<L, 1>(lanes, sums),
            _ => self.multiply::<L, 2>(lanes, sums),
        };
        accumulators::leave(lanes, sums, self.sums, self.place);
    }
}

impl<E: WeightElement, const R: usize, const C: usize> Tile<'_, E, R, C> {
    /// Goes through all blocks and asks for A cache lines ahead at each.
    #[inline(always)]
    fn multiply<L: Lanes, const A: usize>(
        &self,
        lanes: L,
        mut sums: [[L::Vector; R]; C],
    ) -> [[L::Vector; R]; C] {
        // In registers: behind the reference every step would read anew where they lie.
        let x = *self.x;
        for block in 0..self.whole {
            self.ahead.ask::<L, A>(lanes, block);
            E::step::<L, R, C>(lanes, self.weights.at(block), x.at(block), &mut sums);
        }
        if let Some(rest) = self.rest {
            E::step::<L, R, C>(lanes, rest.each_ref(), x.at(self.whole), &mut sums);
        }
        sums
    }
}
