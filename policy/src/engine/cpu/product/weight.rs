//! Rows of a weight in bytes at any alignment: as they lie in a file, or quantised.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::lanes::{Lanes, Line};
use super::activations::STEP_LINES;
use super::{Product, quantised};
use crate::weights::DType;

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
            Self::Int8 => inputs.div_ceil(quantised::STEP) * quantised::INT8_BYTES,
            Self::Int4 => inputs.div_ceil(quantised::STEP) * quantised::INT4_BYTES,
        }
    }

    /// Numbers of a step.
    pub(super) fn step(self) -> usize {
        match self {
            Self::Published(_) => super::BLOCK,
            Self::Int8 | Self::Int4 => quantised::STEP,
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
    /// # Panics
    /// When `bytes` is not a whole number of rows, or rows are empty.
    pub(crate) fn new(bytes: &'a [u8], format: Format, inputs: usize) -> Self {
        assert!(inputs > 0 && bytes.len().is_multiple_of(format.row_bytes(inputs)), "a weight is whole rows");
        Self { bytes, format, inputs }
    }

    /// Number of rows.
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

    pub(super) fn typed<E: Element>(self) -> Typed<'a, E> {
        assert_eq!(self.format, E::FORMAT, "the type fits the numbers");
        Typed { bytes: self.bytes, row_bytes: self.row_bytes(), element: PhantomData }
    }

    fn row_bytes(self) -> usize {
        self.format.row_bytes(self.inputs)
    }
}

/// The whole blocks of a row, one a step, and what is left filled up with zeros, if anything is.
pub(super) type Row<'a, E> = (&'a [<E as Element>::Block], Option<<E as Element>::Block>);

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

impl<'a, E: Element> Typed<'a, E> {
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.bytes.len() / self.row_bytes
    }

    #[inline(always)]
    pub(super) fn row_bytes(self) -> usize {
        self.row_bytes
    }

    /// A row.
    #[inline(always)]
    pub(super) fn row(self, index: usize) -> Row<'a, E> {
        E::blocks(&self.bytes[index * self.row_bytes..][..self.row_bytes])
    }

    /// The bytes of rows `first..end`, as far as there are so many.
    #[inline(always)]
    pub(super) fn between(self, first: usize, end: usize) -> &'a [u8] {
        let end = end.min(self.len());
        &self.bytes[first.min(end) * self.row_bytes..end * self.row_bytes]
    }
}

/// A format, with what it is multiplied by.
pub(super) trait Element: Sized + 'static {
    /// Bytes of a step.
    type Block;
    /// Its name among the formats.
    const FORMAT: Format;

    /// Cuts a row into blocks.
    fn blocks(row: &[u8]) -> Row<'_, Self>;
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

/// What rows have behind their whole blocks.
#[inline(always)]
pub(super) fn rests<'a, E: Element, const R: usize>(rows: &'a [Row<'_, E>; R]) -> Option<[&'a E::Block; R]> {
    let mut rests = [rows[0].1.as_ref()?; R];
    for (rest, row) in rests.iter_mut().zip(rows) {
        *rest = row.1.as_ref()?;
    }
    Some(rests)
}
