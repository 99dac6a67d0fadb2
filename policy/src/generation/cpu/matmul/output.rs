//! Where products go: a matrix whose columns several threads fill at once.

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::simd::amx::{Put, Unit};
use super::super::simd::{LANES, Line};

/// Bytes of a matrix that caches do not hold until it is read.
const STREAM_BYTES: usize = 2 << 20;

/// What happens to the numbers that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputUpdate {
    /// y = x · Wᵀ.
    Set,
    /// y = y + x · Wᵀ.
    Add,
}

/// A matrix of f32, one row a token, that threads may share.
///
/// Its numbers are written as atomics without order, which costs nothing and makes an overlap a
/// wrong number instead of undefined behaviour. Who reads them needs the end of the phase or a join
/// first, as with any memory.
#[derive(Clone, Copy)]
pub(crate) struct OutputMatrix<'a> {
    cells: &'a [AtomicU32],
    stride: usize,
}

impl<'a> OutputMatrix<'a> {
    /// Row t begins at `t * stride`.
    #[cfg(test)]
    pub(crate) fn new(y: &'a mut [f32], stride: usize) -> Self {
        let (start, len) = (y.as_mut_ptr().cast::<AtomicU32>(), y.len());
        // SAFETY: both types are four bytes of any value with the same alignment, and the exclusive
        // borrow is given up for the shared one.
        Self::shared(unsafe { std::slice::from_raw_parts(start, len) }, stride)
    }

    /// The same over the bits of numbers that are shared already: row t begins at `t * stride`.
    pub(crate) fn shared(cells: &'a [AtomicU32], stride: usize) -> Self {
        Self { cells, stride }
    }

    /// The matrix without its first `columns`.
    pub(crate) fn skip(self, columns: usize) -> Self {
        Self { cells: &self.cells[columns.min(self.cells.len())..], stride: self.stride }
    }

    /// Whether it has so many rows and columns.
    pub(super) fn holds(self, tokens: usize, columns: usize) -> bool {
        tokens == 0 || (columns <= self.stride && (tokens - 1) * self.stride + columns <= self.cells.len())
    }

    /// Updates neighbours in a row; what is beyond `count` is left out.
    #[inline(always)]
    pub(super) fn put<const N: usize>(
        self,
        token: usize,
        column: usize,
        values: [f32; N],
        count: usize,
        update: OutputUpdate,
    ) {
        let cells = &self.cells[token * self.stride + column..];
        let write = |(cell, value): (&AtomicU32, f32)| {
            let value = match update {
                OutputUpdate::Set => value,
                OutputUpdate::Add => f32::from_bits(cell.load(Ordering::Relaxed)) + value,
            };
            cell.store(value.to_bits(), Ordering::Relaxed);
        };
        match cells.first_chunk::<N>() {
            Some(cells) if count >= N => cells.iter().zip(values).for_each(write),
            _ => cells[..count.min(N)].iter().zip(values).for_each(write),
        }
    }

    /// As [`OutputMatrix::put`], with the instructions of a processor that has a matrix unit.
    pub(super) fn put_line(
        self,
        unit: &Unit,
        token: usize,
        column: usize,
        line: &Line,
        count: usize,
        update: OutputUpdate,
    ) {
        let cells = &self.cells[token * self.stride + column..];
        let how = match update {
            OutputUpdate::Add => Put::Add,
            OutputUpdate::Set if size_of_val(self.cells) > STREAM_BYTES => Put::Stream,
            OutputUpdate::Set => Put::Set,
        };
        match cells.first_chunk() {
            Some(cells) if count >= LANES => unit.put(line, cells, how),
            _ => self.put(token, column, line.0, count, update),
        }
    }
}
