//! Activations in the order in which the products read them.

use super::super::lanes::{LANES, Line};
use super::BLOCK;

/// Lines that a row of `inputs` activations takes when packed.
pub(crate) const fn packed_lines(inputs: usize) -> usize {
    inputs.div_ceil(BLOCK) * (BLOCK / LANES)
}

/// Where number `index` of a row lies in the packed row.
#[inline(always)]
pub(crate) const fn packed_index(index: usize) -> usize {
    let within = index % BLOCK;
    index - within + within % 2 * LANES + within / 2
}

/// Packs one row of activations: of each 32 the even ones, then the odd ones; the last block is filled up with zeros.
///
/// # Panics
/// When `packed` is not [`packed_lines`] long.
pub(crate) fn pack(row: &[f32], packed: &mut [Line]) {
    assert_eq!(packed.len(), packed_lines(row.len()), "a packed row has the length of its inputs");
    let (blocks, rest) = row.as_chunks::<BLOCK>();
    let (lines, _) = packed.as_chunks_mut::<2>();
    for (block, lines) in blocks.iter().zip(&mut *lines) {
        for lane in 0..LANES {
            lines[0].0[lane] = block[2 * lane];
            lines[1].0[lane] = block[2 * lane + 1];
        }
    }
    if let (false, Some(lines)) = (rest.is_empty(), lines.last_mut()) {
        *lines = [Line::default(); 2];
        for (i, value) in rest.iter().enumerate() {
            lines[i % 2].0[i / 2] = *value;
        }
    }
}

/// Packed rows of activations, one a token.
#[derive(Clone, Copy)]
pub(crate) struct Activations<'a> {
    lines: &'a [Line],
    inputs: usize,
}

impl<'a> Activations<'a> {
    /// Rows of `inputs` numbers each, packed by [`pack`] and without gaps.
    ///
    /// # Panics
    /// When `lines` is not a whole number of rows, or rows are empty.
    pub(crate) fn new(lines: &'a [Line], inputs: usize) -> Self {
        assert!(inputs > 0 && lines.len().is_multiple_of(packed_lines(inputs)), "x is whole rows");
        Self { lines, inputs }
    }

    /// Number of rows.
    pub(crate) fn tokens(self) -> usize {
        self.lines.len() / packed_lines(self.inputs)
    }

    /// Numbers in a row, without the zeros behind them.
    pub(crate) fn inputs(self) -> usize {
        self.inputs
    }

    /// One packed row.
    #[inline(always)]
    pub(super) fn row(self, token: usize) -> &'a [Line] {
        let length = packed_lines(self.inputs);
        &self.lines[token * length..][..length]
    }
}
