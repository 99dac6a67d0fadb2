//! The product with many tokens: weights are widened once for all of them.
//!
//! The second cache holds a block of widened rows. Panels of a few tokens are multiplied with its
//! tiles of a few rows, all of a tile's sums being in registers, over stretches of the inputs of
//! which the first cache holds a panel's. The first panel widens the rows on their way into its
//! sums and leaves them for the others: to store them costs nothing where units that multiply are
//! what is short. Tokens come anew for each block, from whichever cache has room for them: a few
//! bytes for a microsecond of sums. Meanwhile the next block of rows is asked for, line by line, so
//! that memory works while the sums do.

use super::super::simd::{Abreast, Lanes, Line, Task};
use super::accumulators;
use super::accumulators::{TilePlace, add};
use super::prefetch::Prefetch;
use super::weight::{Typed, Widen};
use super::{OutputMatrix, OutputUpdate, PackedActivations, Product, STEP_LINES, Scratch, skinny};

/// Lines of a block of widened weights: 256 KiB.
const WEIGHT_LINES: usize = 4096;
/// Steps of each row that are multiplied in one pass.
const PASS: usize = 32;
/// Tiles of the first block. Nobody asked for it ahead, so it is small, and each block is twice the last.
const FIRST_TILES: usize = 2;

/// A step of the rows of a tile, widened.
type Widened<const R: usize> = [[Line; R]; STEP_LINES];

/// Tiles have R rows and C tokens, or one less: C is 3 or 6.
#[inline(always)]
pub(super) fn product<L: Lanes, E: Widen, const R: usize, const C: usize>(lanes: L, call: Product<'_, E>) {
    let Product { weight, x, y, update, scratch } = call;
    let steps = x.row_lines() / STEP_LINES;
    let (rows, panels) = (weight.len(), x.tokens().div_ceil(C));
    let most_tiles = (WEIGHT_LINES / (R * STEP_LINES * steps)).clamp(1, rows.div_ceil(R));
    let Scratch { weights, sums } = scratch;
    // Only ever longer: products of other shapes come in between.
    weights.resize(weights.len().max(most_tiles * R * STEP_LINES * steps), Line::default());
    sums.resize(sums.len().max(most_tiles * R * C), Line::default());
    let widened = weights.as_chunks_mut::<R>().0.as_chunks_mut::<STEP_LINES>().0;
    let (mut first, mut count) = (0, FIRST_TILES);
    while first < rows {
        count = count.min(most_tiles).min((rows - first).div_ceil(R));
        let next = first + count * R;
        let ahead = weight.between(next, next + (2 * count).min(most_tiles) * R);
        let ahead = Prefetch::new(ahead, panels * count * steps);
        let widened = &mut widened[..count * steps];
        let mut block = Block { lanes, weight, widened, steps, first, x, y, update, ahead };
        for panel in 0..panels {
            // Panels of like size: with one token a tile would be loading more than anything else.
            let tokens = x.tokens() * panel / panels..x.tokens() * (panel + 1) / panels;
            match tokens.len() {
                2 if C == 3 => block.panel::<2>(tokens.start, sums),
                3 if C == 3 => block.panel::<3>(tokens.start, sums),
                5 if C == 6 => block.panel::<5>(tokens.start, sums),
                6 if C == 6 => block.panel::<6>(tokens.start, sums),
                _ => unreachable!("more than {} tokens make panels of C or one less", skinny::MOST_TOKENS),
            }
        }
        (first, count) = (next, 2 * count);
    }
}

/// A block of rows and what they are multiplied with.
struct Block<'a, L, E, const R: usize> {
    lanes: L,
    weight: Typed<'a, E>,
    /// Tile by tile, of each its steps.
    widened: &'a mut [Widened<R>],
    steps: usize,
    /// The first tile's first row.
    first: usize,
    x: PackedActivations<'a>,
    y: OutputMatrix<'a>,
    update: OutputUpdate,
    ahead: Prefetch<'a>,
}

impl<L: Lanes, E: Widen, const R: usize> Block<'_, L, E, R> {
    /// Multiplies tokens `token..token + C` with the block.
    #[inline(always)]
    fn panel<const C: usize>(&mut self, token: usize, sums: &mut [Line]) {
        let x: [&[[Line; STEP_LINES]]; C] = std::array::from_fn(|c| self.x.row(token + c).as_chunks().0);
        let sums = sums.as_chunks_mut::<R>().0.as_chunks_mut::<C>().0;
        for start in (0..self.steps).step_by(PASS) {
            let end = self.steps.min(start + PASS);
            let x = Abreast::new(x.map(|row| &row[start..end]), end - start);
            for (tile, (widened, sums)) in
                self.widened.chunks_exact_mut(self.steps).zip(&mut *sums).enumerate()
            {
                let widened = &mut widened[start..end];
                let Self { lanes, weight, y, update, .. } = *self;
                let row = self.first + tile * R;
                let rows = weight.len() - row;
                let place = (end == self.steps).then_some(TilePlace { y, update, token, row, rows });
                let ahead = self.ahead.take(end - start);
                let (x, first) = (&x, start == 0);
                if token > 0 {
                    lanes.run(Tile { weights: Kept(widened), x, sums, first, place, ahead });
                    continue;
                }
                // Beyond the last row is the last once more, whose sums nobody takes.
                let rows: [usize; R] = std::array::from_fn(|r| row + r.min(rows - 1));
                let blocks = rows.map(|row| &weight.blocks(row)[start..]);
                let whole = blocks[0].len().min(end - start);
                let rest = if whole < end - start { weight.rests(rows) } else { None };
                let weights = Fresh::<E, R> {
                    blocks: Abreast::new(blocks, whole),
                    whole,
                    rest: rest.as_ref(),
                    widened,
                };
                lanes.run(Tile { weights, x, sums, first, place, ahead });
            }
        }
    }
}

/// Adds to a tile's sums the products of a stretch of the inputs.
///
/// A task of its own, as within the loops around it the compiler would not keep all of the sums in registers.
struct Tile<'a, S, const R: usize, const C: usize> {
    weights: S,
    x: &'a Abreast<'a, [Line; STEP_LINES], C>,
    sums: &'a mut [[Line; R]; C],
    /// Whether this is the first stretch: sums begin at zero.
    first: bool,
    /// Where the outputs go, if this is the last one.
    place: Option<TilePlace<'a>>,
    ahead: Prefetch<'a>,
}

impl<S: Stretch<R>, const R: usize, const C: usize> Task for Tile<'_, S, R, C> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { weights, x, ahead, .. } = self;
        // In registers: behind the reference every step would read anew where they lie.
        let x = *x;
        let mut now = accumulators::load(lanes, self.sums, self.first);
        match ahead.lines() {
            0 => weights.multiply::<L, C, 0>(lanes, x, ahead, &mut now),
            1 => weights.multiply::<L, C, 1>(lanes, x, ahead, &mut now),
            _ => weights.multiply::<L, C, 2>(lanes, x, ahead, &mut now),
        }
        accumulators::leave(lanes, now, self.sums, self.place);
    }
}

/// A stretch of the rows of a tile.
trait Stretch<const R: usize> {
    /// Adds its products to the sums, and asks for A cache lines ahead at each step: enough for the pace.
    fn multiply<L: Lanes, const C: usize, const A: usize>(
        self,
        lanes: L,
        x: Abreast<'_, [Line; STEP_LINES], C>,
        ahead: Prefetch<'_>,
        sums: &mut [[L::Vector; R]; C],
    );
}

/// Rows that were widened before.
struct Kept<'a, const R: usize>(&'a [Widened<R>]);

impl<const R: usize> Stretch<R> for Kept<'_, R> {
    #[inline(always)]
    fn multiply<L: Lanes, const C: usize, const A: usize>(
        self,
        lanes: L,
        x: Abreast<'_, [Line; STEP_LINES], C>,
        ahead: Prefetch<'_>,
        sums: &mut [[L::Vector; R]; C],
    ) {
        for (step, weights) in self.0.iter().enumerate() {
            ahead.ask::<L, A>(lanes, step);
            let x = x.at(step);
            for (half, weights) in weights.iter().enumerate() {
                let mut tile = [lanes.zero(); R];
                for (weight, line) in tile.iter_mut().zip(weights) {
                    *weight = lanes.load(line);
                }
                add(lanes, tile, x.map(|x| &x[half]), sums);
            }
        }
    }
}

/// Rows as they are stored, which are kept when they have been widened.
struct Fresh<'a, E: Widen, const R: usize> {
    blocks: Abreast<'a, E::Block, R>,
    /// Blocks of a row that are whole.
    whole: usize,
    /// What comes after them, of each row.
    rest: Option<&'a [E::Block; R]>,
    widened: &'a mut [Widened<R>],
}

impl<E: Widen, const R: usize> Stretch<R> for Fresh<'_, E, R> {
    #[inline(always)]
    fn multiply<L: Lanes, const C: usize, const A: usize>(
        self,
        lanes: L,
        x: Abreast<'_, [Line; STEP_LINES], C>,
        ahead: Prefetch<'_>,
        sums: &mut [[L::Vector; R]; C],
    ) {
        let Self { blocks, whole, rest, widened } = self;
        let (widened, behind) = widened.split_at_mut(whole);
        for (step, widened) in widened.iter_mut().enumerate() {
            ahead.ask::<L, A>(lanes, step);
            widen::<L, E, R, C>(lanes, blocks.at(step), x.at(step), widened, sums);
        }
        if let (Some(rest), Some(widened)) = (rest, behind.first_mut()) {
            widen::<L, E, R, C>(lanes, rest.each_ref(), x.at(whole), widened, sums);
        }
    }
}

/// Widens a step of R rows, keeps it, and adds its products with those of C tokens.
#[inline(always)]
fn widen<L: Lanes, E: Widen, const R: usize, const C: usize>(
    lanes: L,
    blocks: [&E::Block; R],
    x: [&[Line; STEP_LINES]; C],
    widened: &mut Widened<R>,
    sums: &mut [[L::Vector; R]; C],
) {
    for (half, lines) in widened.iter_mut().enumerate() {
        let mut tile = [lanes.zero(); R];
        for ((weight, line), block) in tile.iter_mut().zip(lines).zip(blocks) {
            *weight = E::widen(lanes, block)[half];
            lanes.store(line, *weight);
        }
        add(lanes, tile, x.map(|x| &x[half]), sums);
    }
}
