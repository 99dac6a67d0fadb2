//! The product of bf16 on the matrix unit, with any number of tokens: weights as they are stored, activations transposed tile by tile.
//!
//! The second cache holds a block of rows. Panels of two groups of sixteen tokens are multiplied with it one after the other, and meanwhile the
//! next block is asked for.
//!
//! Each output is one sum, which takes in 32 inputs a step: those with even indices add up and those with odd ones, each product fused with its
//! addition, then these two are added, then what they come to is added to the sum; whatever is nearer to zero than 2⁻¹²⁶ is zero on the way.
//! This is the unit's order, not that of other processors, but as they do it depends on a row of W and a row of x alone.

use super::super::lanes::Line;
use super::super::lanes::amx::{Amx, INPUTS, ROWS, Rows, Sums, TILE, Tile};
use super::super::lanes::bytes_mut;
use super::activations::Packing;
use super::output::Output;
use super::pairs::Pairs;
use super::{CACHE_LINE, Product, Update};

/// Bytes of a block of rows, at most, unless [`ROWS`] are more.
const BLOCK_BYTES: usize = 64 << 10;
/// Tokens of a panel.
const PANEL: usize = 2 * TILE;

/// Lines that the activations of so many tokens take when transposed.
pub(crate) const fn transposed_lines(tokens: usize, inputs: usize) -> usize {
    tokens.div_ceil(TILE) * inputs.div_ceil(INPUTS) * TILE
}

/// Transposes the activations of up to sixteen tokens, a group, whose rows were packed as [`Packing::Pairs`].
pub(crate) fn transpose(amx: Amx, rows: &[Line], inputs: usize, transposed: &mut [Line]) {
    let length = Packing::Pairs.lines(inputs);
    for (step, tile) in transposed.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
        amx.transpose(|token| rows.get(token * length + step), tile);
    }
}

pub(super) fn product(amx: Amx, call: Product<'_, Pairs>) {
    let Product { weight, x, y, update, scratch } = call;
    let (steps, row_bytes) = (x.inputs().div_ceil(INPUTS), weight.row_bytes());
    let panels = x.lines().as_chunks::<TILE>().0.chunks(PANEL / TILE * steps);
    let most = (BLOCK_BYTES / (ROWS * row_bytes)).max(1);
    let copy = &mut scratch.weights;
    // Only ever longer: products of other shapes come in between.
    copy.resize(copy.len().max(most * ROWS * steps), Line::default());
    let copy = copy.as_chunks_mut::<TILE>().0;
    let (mut one, mut two): (Sums<1>, Sums<2>) =
        ([[[Line::default(); TILE]; 1]; 2], [[[Line::default(); TILE]; 2]; 2]);
    let unit = amx.unit();
    // Nobody asked for the first block, so it is small, and each is twice the last.
    let (mut first, mut count) = (0, 1);
    while first < weight.len() {
        let end = weight.len().min(first + count * ROWS);
        count = most.min(2 * count);
        // With one panel each row is read once, and the processor looks ahead itself.
        let mut ahead = if panels.len() > 1 { weight.between(end, end + count * ROWS) } else { &[] };
        let mut left = panels.len() * (end - first).div_ceil(ROWS);
        let block = Block::new(weight.between(first, end), row_bytes, steps, panels.len() > 1, copy);
        for (panel, x) in panels.clone().enumerate() {
            for (pair, row) in (first..end).step_by(ROWS).enumerate() {
                let (now, later) = ahead.split_at(ahead.len().div_ceil(left));
                (ahead, left) = (later, left - 1);
                let (rows, token) = (block.rows(pair), panel * PANEL);
                let place = Place { amx, y, update, token, tokens: call.x.tokens(), row, rows: weight.len() };
                match x.split_at(steps) {
                    (x, []) => {
                        unit.multiply(rows, [x], now, &mut one);
                        place.put(&one);
                    }
                    (a, b) => {
                        unit.multiply(rows, [a, b], now, &mut two);
                        place.put(&two);
                    }
                }
            }
        }
        first = end;
    }
}

/// Rows that are multiplied with one panel after the other.
enum Block<'a> {
    Stored {
        bytes: &'a [u8],
        stride: usize,
    },
    /// Tile by tile, all of the first sixteen rows, then all of the next.
    Copied {
        tiles: &'a [Tile],
        steps: usize,
    },
}

impl<'a> Block<'a> {
    /// These rows: as they lie in memory, where the unit can read them there, and does so quickly or but once.
    fn new(
        bytes: &'a [u8],
        row_bytes: usize,
        steps: usize,
        is_read_often: bool,
        copy: &'a mut [Tile],
    ) -> Self {
        let is_whole = row_bytes == steps * CACHE_LINE && bytes.len().is_multiple_of(ROWS * row_bytes);
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(CACHE_LINE);
        if is_whole && (is_aligned || !is_read_often) {
            return Self::Stored { bytes, stride: row_bytes };
        }
        let count = bytes.len().div_ceil(ROWS * row_bytes) * ROWS / TILE;
        let tiles = &mut copy[..count * steps];
        if !is_whole {
            tiles.as_flattened_mut().fill(Line::default());
        }
        for (tiles, rows) in tiles.chunks_exact_mut(steps).zip(bytes.chunks(TILE * row_bytes)) {
            for (line, row) in rows.chunks_exact(row_bytes).enumerate() {
                for (tile, part) in tiles.iter_mut().zip(row.chunks(CACHE_LINE)) {
                    bytes_mut(&mut tile[line])[..part.len()].copy_from_slice(part);
                }
            }
        }
        Self::Copied { tiles, steps }
    }

    /// The pair of tiles of rows with this number.
    fn rows(&self, pair: usize) -> Rows<'a> {
        match *self {
            Self::Stored { bytes, stride } => Rows::Stored { bytes: &bytes[pair * ROWS * stride..], stride },
            Self::Copied { tiles, steps } => {
                let (first, behind) = tiles[pair * (ROWS / TILE) * steps..].split_at(steps);
                Rows::Tiles([first, &behind[..steps]])
            }
        }
    }
}

/// Where sums go.
struct Place<'a> {
    amx: Amx,
    y: Output<'a>,
    update: Update,
    /// The first token, of so many.
    token: usize,
    tokens: usize,
    /// The first row, of so many.
    row: usize,
    rows: usize,
}

impl Place<'_> {
    fn put<const B: usize>(&self, sums: &Sums<B>) {
        for (row, sums) in (self.row..self.rows).step_by(TILE).zip(sums) {
            for (token, sums) in (self.token..self.tokens).step_by(TILE).zip(sums) {
                let (tokens, rows) = (TILE.min(self.tokens - token), TILE.min(self.rows - row));
                self.y.put_tile(self.amx, sums, token..token + tokens, row..row + rows, self.update);
            }
        }
    }
}
