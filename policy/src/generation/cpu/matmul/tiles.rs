//! The product of bf16 on the matrix unit, with any number of tokens: weights as they are stored,
//! activations transposed tile by tile.
//!
//! The second cache holds a block of rows. Panels of two groups of sixteen tokens are multiplied
//! with it one after the other, and meanwhile the next block is asked for.
//!
//! Each output is one sum, which takes in 32 inputs a step: those with even indices add up and
//! those with odd ones, each product fused with its addition, then these two are added, then what
//! they come to is added to the sum; whatever is nearer to zero than 2⁻¹²⁶ is zero on the way. This
//! is the unit's order, not that of other processors, but as they do it depends on a row of W and a
//! row of x alone.

use super::super::simd::amx::{Amx, AmxRows, INPUTS, PAIR, Sums, TILE, Tile, Unit};
use super::super::simd::{Line, bytes_mut};
use super::activations::Packing;
use super::output::OutputMatrix;
use super::pairs::Pairs;
use super::{CACHE_LINE, OutputUpdate, Product};

/// Bytes of a block of rows, at most, unless [`PAIR`] are more.
const BLOCK_BYTES: usize = 64 << 10;

/// Transposes the packed rows of a group of up to sixteen tokens.
pub(crate) fn transpose_group(amx: Amx, rows: &[Line], inputs: usize, transposed: &mut [Line]) {
    let length = Packing::Tiles(amx).lines(inputs);
    for (step, tile) in transposed.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
        amx.transpose(|token| rows.get(token * length + step), tile);
    }
}

pub(super) fn product(unit: &Unit, call: Product<'_, Pairs>) {
    let Product { weight, x, y, update, scratch } = call;
    let (steps, row_bytes) = (x.inputs().div_ceil(INPUTS), weight.row_bytes());
    let panels = x.lines().as_chunks::<TILE>().0.chunks(PAIR / TILE * steps);
    let block_rows = (BLOCK_BYTES / (PAIR * row_bytes)).max(1) * PAIR;
    let copy = &mut scratch.weights;
    // Only ever longer: products of other shapes come in between.
    copy.resize(copy.len().max(block_rows * steps), Line::default());
    let copy = copy.as_chunks_mut::<TILE>().0;
    let mut sums: Sums = [[[Line::default(); TILE]; 2]; 2];
    let is_read_often = panels.len() > 1;
    for first in (0..weight.len()).step_by(block_rows) {
        let end = weight.len().min(first + block_rows);
        // With one panel each row is read once, and the processor looks ahead itself.
        let mut ahead = if is_read_often { weight.between(end, end + block_rows) } else { &[] };
        let block = Block::new(weight.between(first, end), row_bytes, steps, is_read_often, copy);
        let pairs = (end - first).div_ceil(PAIR);
        for (panel, x) in panels.clone().enumerate() {
            let (group, other) = x.split_at(steps);
            let x = [group, if other.is_empty() { group } else { other }];
            for pair in 0..pairs {
                let left = (panels.len() - panel) * pairs - pair;
                let (now, later) = ahead.split_at(ahead.len().div_ceil(left));
                ahead = later;
                unit.multiply(block.rows(pair), x, now, &mut sums);
                let (token, row) = (panel * PAIR, first + pair * PAIR);
                let place = Place { y, update, token, tokens: call.x.tokens(), row, rows: weight.len() };
                place.put(unit, &sums);
            }
        }
    }
}

/// Rows that are multiplied with one panel after the other.
enum Block<'a> {
    /// As they lie in memory.
    Stored { bytes: &'a [u8], stride: usize, is_read_often: bool },
    /// Tile by tile, all of the first sixteen rows, then all of the next.
    Copied { tiles: &'a [Tile], steps: usize },
}

impl<'a> Block<'a> {
    /// These rows: as they lie in memory, where the unit can read them there, and does so
    /// quickly or but once.
    fn new(bytes: &'a [u8], stride: usize, steps: usize, is_read_often: bool, copy: &'a mut [Tile]) -> Self {
        let is_whole = stride == steps * CACHE_LINE && bytes.len().is_multiple_of(PAIR * stride);
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(CACHE_LINE);
        if is_whole && (is_aligned || !is_read_often) {
            return Self::Stored { bytes, stride, is_read_often };
        }
        let count = bytes.len().div_ceil(PAIR * stride) * PAIR / TILE;
        let tiles = &mut copy[..count * steps];
        if !is_whole {
            tiles.as_flattened_mut().fill(Line::default());
        }
        for (tiles, rows) in tiles.chunks_exact_mut(steps).zip(bytes.chunks(TILE * stride)) {
            for (line, row) in rows.chunks_exact(stride).enumerate() {
                for (tile, part) in tiles.iter_mut().zip(row.chunks(CACHE_LINE)) {
                    bytes_mut(&mut tile[line])[..part.len()].copy_from_slice(part);
                }
            }
        }
        Self::Copied { tiles, steps }
    }

    /// The pair of tiles of rows with this number.
    fn rows(&self, pair: usize) -> AmxRows<'a> {
        match *self {
            Self::Stored { bytes, stride, is_read_often } => {
                let bytes = &bytes[pair * PAIR * stride..];
                if is_read_often { AmxRows::Near { bytes, stride } } else { AmxRows::Far { bytes, stride } }
            }
            Self::Copied { tiles, steps } => {
                let (first, behind) = tiles[pair * (PAIR / TILE) * steps..].split_at(steps);
                AmxRows::Tiles([first, &behind[..steps]])
            }
        }
    }
}

/// Where in the output the sums of a pair of tiles go.
struct Place<'a> {
    y: OutputMatrix<'a>,
    update: OutputUpdate,
    /// The first token, of so many.
    token: usize,
    tokens: usize,
    /// The first row, of so many.
    row: usize,
    rows: usize,
}

impl Place<'_> {
    fn put(&self, unit: &Unit, sums: &Sums) {
        for (at, row) in (self.row..self.rows).step_by(TILE).take(PAIR / TILE).enumerate() {
            let rows = TILE.min(self.rows - row);
            for (first, sums) in (self.token..self.tokens).step_by(TILE).zip(sums) {
                for (token, line) in (first..self.tokens).zip(&unit.transposed(&sums[at])) {
                    self.y.put_line(unit, token, row, line, rows, self.update);
                }
            }
        }
    }
}
