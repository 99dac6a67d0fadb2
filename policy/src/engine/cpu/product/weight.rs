//! Rows of a weight as they lie in a file: bytes of bf16, f16 or f32, at any alignment.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::lanes::Lanes;
use super::BLOCK;
use crate::weights::DType;

/// A row-major weight matrix, one row an output.
#[derive(Clone, Copy)]
pub(crate) struct WeightRows<'a> {
    bytes: &'a [u8],
    dtype: DType,
    inputs: usize,
}

impl<'a> WeightRows<'a> {
    /// Rows of `inputs` little-endian numbers each.
    ///
    /// # Panics
    /// When `bytes` is not a whole number of rows, or rows are empty.
    pub(crate) fn new(bytes: &'a [u8], dtype: DType, inputs: usize) -> Self {
        assert!(inputs > 0 && bytes.len().is_multiple_of(inputs * dtype.size()), "a weight is whole rows");
        Self { bytes, dtype, inputs }
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
    pub(crate) fn dtype(self) -> DType {
        self.dtype
    }

    /// Some of the rows.
    pub(crate) fn rows(self, rows: Range<usize>) -> Self {
        let bytes = &self.bytes[rows.start * self.row_bytes()..rows.end * self.row_bytes()];
        Self { bytes, ..self }
    }

    pub(super) fn typed<E: Element>(self) -> Typed<'a, E> {
        assert_eq!(self.dtype.size(), E::BYTES, "the type fits the numbers");
        Typed { bytes: self.bytes, row_bytes: self.row_bytes(), element: PhantomData }
    }

    fn row_bytes(self) -> usize {
        self.inputs * self.dtype.size()
    }
}

/// The whole blocks of a row, and what is left filled up with zeros, if anything is.
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
        let (blocks, rest) = E::blocks(&self.bytes[index * self.row_bytes..][..self.row_bytes]);
        (blocks, (!rest.is_empty()).then(|| E::filled(rest)))
    }

    /// The bytes of rows `first..end`, as far as there are so many.
    #[inline(always)]
    pub(super) fn between(self, first: usize, end: usize) -> &'a [u8] {
        let end = end.min(self.len());
        &self.bytes[first.min(end) * self.row_bytes..end * self.row_bytes]
    }
}

/// A type of stored numbers.
pub(super) trait Element: 'static {
    /// Bytes of 32 numbers.
    type Block;
    /// Bytes of a number.
    const BYTES: usize;

    /// Cuts a row into blocks.
    fn blocks(row: &[u8]) -> (&[Self::Block], &[u8]);
    /// Less than a block's bytes, with zeros behind them.
    fn filled(rest: &[u8]) -> Self::Block;
    /// The block's even and odd numbers.
    fn widen<L: Lanes>(lanes: L, block: &Self::Block) -> [L::Vector; 2];
}

macro_rules! element {
    ($name:ident, $bytes:literal, $widen:ident, $what:literal) => {
        #[doc = $what]
        pub(super) struct $name;

        impl Element for $name {
            type Block = [u8; $bytes * BLOCK];
            const BYTES: usize = $bytes;

            #[inline(always)]
            fn blocks(row: &[u8]) -> (&[Self::Block], &[u8]) {
                row.as_chunks()
            }

            #[inline(always)]
            fn filled(rest: &[u8]) -> Self::Block {
                let mut block = [0; $bytes * BLOCK];
                block[..rest.len()].copy_from_slice(rest);
                block
            }

            #[inline(always)]
            fn widen<L: Lanes>(lanes: L, block: &Self::Block) -> [L::Vector; 2] {
                lanes.$widen(block)
            }
        }
    };
}

element!(Bf16, 2, widen_bf16, "bfloat16.");
element!(F16, 2, widen_f16, "IEEE 754 half precision.");
element!(F32, 4, split_f32, "IEEE 754 single precision.");
