//! Rows of a weight in bytes at any alignment: as they lie in a file, or quantised.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::simd::{Lanes, Line};
use super::{Product, STEP_LINES, quantise};
use crate::model::weights::DType;

/// How the numbers of a weight are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One after the other, as they were published.
    Published(DType),
    /// In 8 bits, with scales.
    Int8,
    /// In 4 bits, with scales.
    Int4,
}

impl Format {
    /// Bytes of a row of `inputs` numbers.
    pub(crate) fn row_bytes(self, inputs: usize) -> usize {
        match self {
            Self::Published(dtype) => inputs * dtype.size(),
            Self::Int8 => inputs.div_ceil(quantise::STEP) * quantise::INT8_BYTES,
            Self::Int4 => inputs.div_ceil(quantise::STEP) * quantise::INT4_BYTES,
        }
    }
}

/// A row-major weight matrix, one row an output.
#[derive(Clone, Copy)]
pub(crate) struct WeightRows<'a> {
    bytes: &'a [u8],
    format: Format,
    inputs: usize,
}

impl<'a> WeightRows<'a> {
    /// Rows of `inputs` numbers each.
    ///
    /// Panics when `bytes` is not a whole number of rows, or rows are empty.
    pub(crate) fn new(bytes: &'a [u8], format: Format, inputs: usize) -> Self {
        assert!(inputs > 0 && bytes.len().is_multiple_of(format.row_bytes(inputs)), "a weight is whole rows");
        Self { bytes, format, inputs }
    }

    /// Number of rows, one an output.
    pub(crate) fn len(self) -> usize {
        self.bytes.len() / self.row_bytes()
    }

    /// Numbers in a row.
    pub(crate) fn inputs(self) -> usize {
        self.inputs
    }

    /// How the numbers are stored.
    pub(crate) fn format(self) -> Format {
        self.format
    }

    /// Some of the rows.
    pub(crate) fn rows(self, rows: Range<usize>) -> Self {
        let bytes = &self.bytes[rows.start * self.row_bytes()..rows.end * self.row_bytes()];
        Self { bytes, ..self }
    }

    pub(super) fn typed<E: WeightElement>(self) -> Typed<'a, E> {
        assert_eq!(self.format, E::FORMAT, "the type fits the numbers");
        Typed { bytes: self.bytes, row_bytes: self.row_bytes(), element: PhantomData }
    }

    fn row_bytes(self) -> usize {
        self.format.row_bytes(self.inputs)
    }
}

/// The same, with the numbers' type known to the compiler.
pub(super) struct Typed<'a, E> {
    bytes: &'a [u8],
    row_bytes: usize,
    element: PhantomData<E>,
}

impl<E> Clone for Typed<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Typed<'_, E> {}

impl<'a, E: WeightElement> Typed<'a, E> {
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.bytes.len() / self.row_bytes
    }

    #[inline(always)]
    pub(super) fn row_bytes(self) -> usize {
        self.row_bytes
    }

    /// The whole blocks of a row, one a step.
    #[inline(always)]
    pub(super) fn blocks(self, index: usize) -> &'a [E::Block] {
        E::blocks(self.row(index))
    }

    /// What each of these rows has after its whole blocks, filled up with zeros, if there is
    /// anything. Copies it: not for every step.
    #[inline(always)]
    pub(super) fn rests<const R: usize>(self, rows: [usize; R]) -> Option<[E::Block; R]> {
        let mut rests = [E::rest(self.row(rows[0]))?; R];
        for (rest, row) in rests.iter_mut().zip(rows).skip(1) {
            *rest = E::rest(self.row(row))?;
        }
        Some(rests)
    }

    #[inline(always)]
    fn row(self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.row_bytes..][..self.row_bytes]
    }

    /// The bytes of rows `first..end`, as far as there are so many.
    #[inline(always)]
    pub(super) fn between(self, first: usize, end: usize) -> &'a [u8] {
        let end = end.min(self.len());
        &self.bytes[first.min(end) * self.row_bytes..end * self.row_bytes]
    }
}

/// A format, with what it is multiplied by.
pub(super) trait WeightElement: Sized + 'static {
    /// Bytes of a step.
    type Block: Copy;
    /// Its name among the formats.
    const FORMAT: Format;

    /// The whole blocks of a row.
    fn blocks(row: &[u8]) -> &[Self::Block];
    /// What comes after them, filled up with zeros, if anything is.
    fn rest(row: &[u8]) -> Option<Self::Block>;
    /// Adds the products of a step of R rows with those of C tokens.
    fn step<L: Lanes, const R: usize, const C: usize>(
        lanes: L,
        weights: [&Self::Block; R],
        x: [&[Line; STEP_LINES]; C],
        sums: &mut [[L::Vector; R]; C],
    );
    /// The whole product, in the way that is the quickest for so many tokens.
    fn product<L: Lanes>(lanes: L, call: Product<'_, Self>);
}

/// Numbers that are widened.
pub(super) trait Widen: WeightElement {
    /// The block's odd and even numbers.
    fn widen<L: Lanes>(lanes: L, block: &Self::Block) -> [L::Vector; 2];
}

/// What a row has after its whole blocks of N bytes, filled up with zeros.
#[inline(always)]
pub(super) fn filled<const N: usize>(row: &[u8]) -> Option<[u8; N]> {
    let rest = row.as_chunks::<N>().1;
    let filled = || {
        let mut block = [0; N];
        block[..rest.len()].copy_from_slice(rest);
        block
    };
    (!rest.is_empty()).then(filled)
}
