//! Activations in the order in which the products read them, and in the numbers of the precision.

use half::bf16;

use super::super::simd::amx::{Amx, INPUTS, TILE};
use super::super::simd::{LANES, Line, Processor, halves_mut, levels_mut};
use super::STEP_LINES;
use super::quantise::{self, BLOCK as QUANTISED_BLOCK};
use crate::model::precision::Precision;

/// What becomes of a row of activations on its way into products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// They stay as they are. A step is 32 numbers, the odd ones, then the even ones.
    F32,
    /// As [`Packing::F32`], rounded to bf16.
    Bf16,
    /// Rounded to bf16 as well, and stored so, in the order of the row, for processors that
    /// multiply such numbers two by two. A step is 64 numbers.
    Pairs,
    /// As [`Packing::Pairs`]. When all rows are there, a matrix unit wants them
    /// [transposed](PackedActivations::transposed) in tiles of sixteen tokens.
    Tiles(Amx),
    /// Rounded to 8 bits with a scale for each block of 32. A step is 64 numbers, then sixteen
    /// scales: that of the first block in the first eight lanes, that of the second in the others.
    Int8,
}

impl Packing {
    /// What the kernels of a processor want in a precision.
    pub(crate) fn of(precision: Precision, processor: Processor) -> Self {
        match precision {
            Precision::F32 => Self::F32,
            Precision::Bf16 => match processor.amx() {
                Some(amx) => Self::Tiles(amx),
                None if processor.adds_pairs() => Self::Pairs,
                None => Self::Bf16,
            },
            Precision::Int8 | Precision::Int4 => Self::Int8,
        }
    }

    /// The matrix unit that wants rows transposed.
    pub(crate) fn amx(self) -> Option<Amx> {
        if let Self::Tiles(amx) = self { Some(amx) } else { None }
    }

    /// Numbers of a step.
    pub(crate) const fn step(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 => 2 * LANES,
            Self::Pairs | Self::Tiles(_) | Self::Int8 => 4 * LANES,
        }
    }

    /// Lines that a row of `inputs` activations takes when packed.
    pub(crate) const fn lines(self, inputs: usize) -> usize {
        inputs.div_ceil(self.step()) * STEP_LINES
    }

    /// Packs one row of activations; the last step is filled up with zeros. Part of whoever calls
    /// it, to be compiled for the same instructions.
    ///
    /// Panics when `packed` is not [`Packing::lines`] long.
    #[inline(always)]
    pub(crate) fn pack(self, row: &[f32], packed: &mut [Line]) {
        assert_eq!(packed.len(), self.lines(row.len()), "a packed row has the length of its inputs");
        let (steps, _) = packed.as_chunks_mut();
        match self {
            Self::F32 => split(row, steps, |value| value),
            Self::Bf16 => split(row, steps, |value| bf16::from_f32(value).to_f32()),
            Self::Pairs | Self::Tiles(_) => pairs(row, steps),
            Self::Int8 => quantised(row, steps),
        }
    }
}

/// Lines that the activations of so many tokens take when transposed.
pub(crate) const fn transposed_lines(tokens: usize, inputs: usize) -> usize {
    tokens.div_ceil(TILE) * inputs.div_ceil(INPUTS) * TILE
}

/// Where number `index` of a row lies in the row that [`Packing::F32`] makes of it.
#[inline(always)]
pub(crate) const fn packed_index(index: usize) -> usize {
    let within = index % Packing::F32.step();
    index - within + (1 - within % 2) * LANES + within / 2
}

/// The row that [`Packing::F32`] made this of.
#[inline(always)]
pub(crate) fn unpack(packed: &[Line], row: &mut [f32]) {
    let (steps, _) = packed.as_chunks::<STEP_LINES>();
    for (values, lines) in row.chunks_mut(Packing::F32.step()).zip(steps) {
        for (i, value) in values.iter_mut().enumerate() {
            *value = lines[1 - i % 2].0[i / 2];
        }
    }
}

#[inline(always)]
fn split(row: &[f32], steps: &mut [[Line; STEP_LINES]], round: impl Fn(f32) -> f32) {
    let (whole, rest) = row.as_chunks::<{ Packing::F32.step() }>();
    for (values, lines) in whole.iter().zip(&mut *steps) {
        for lane in 0..LANES {
            lines[0].0[lane] = round(values[2 * lane + 1]);
            lines[1].0[lane] = round(values[2 * lane]);
        }
    }
    if let (false, Some(lines)) = (rest.is_empty(), steps.last_mut()) {
        *lines = [Line::default(); STEP_LINES];
        for (i, value) in rest.iter().enumerate() {
            lines[1 - i % 2].0[i / 2] = round(*value);
        }
    }
}

#[inline(always)]
fn pairs(row: &[f32], steps: &mut [[Line; STEP_LINES]]) {
    for (values, line) in row.chunks(2 * LANES).zip(steps.iter_mut().flatten()) {
        let halves = halves_mut(line);
        for (half, value) in halves.iter_mut().zip(values) {
            *half = bf16::from_f32(*value).to_bits();
        }
        halves[values.len()..].fill(0);
    }
    // Whole lines after a row that ends in the first of a step.
    if let (1..=32, Some([_, last])) = (row.len() % (4 * LANES), steps.last_mut()) {
        *last = Line::default();
    }
}

#[inline(always)]
fn quantised(row: &[f32], steps: &mut [[Line; STEP_LINES]]) {
    for (values, [numbers, scales]) in row.chunks(Packing::Int8.step()).zip(steps) {
        let (numbers, _) = levels_mut(numbers).as_chunks_mut::<QUANTISED_BLOCK>();
        let (scales, _) = scales.0.as_chunks_mut::<{ LANES / 2 }>();
        for (which, (numbers, scales)) in numbers.iter_mut().zip(scales).enumerate() {
            let block = quantise::block(values, which);
            let scale = quantise::usable(quantise::magnitude(&block) / quantise::INT8);
            *numbers = quantise::levels(&block, scale, -quantise::INT8, quantise::INT8);
            *scales = [scale; LANES / 2];
        }
    }
}

/// Packed rows of activations, one a token.
#[derive(Clone, Copy)]
pub(crate) struct PackedActivations<'a> {
    lines: &'a [Line],
    tokens: usize,
    inputs: usize,
    packing: Packing,
}

impl<'a> PackedActivations<'a> {
    /// Rows of `inputs` numbers each, packed by [`Packing::pack`] and without gaps.
    ///
    /// Panics when `lines` is not a whole number of rows, rows are empty, or want to be transposed.
    pub(crate) fn new(lines: &'a [Line], inputs: usize, packing: Packing) -> Self {
        assert!(inputs > 0 && lines.len().is_multiple_of(packing.lines(inputs)), "x is whole rows");
        assert!(packing.amx().is_none(), "x is transposed for such a unit");
        Self { lines, tokens: lines.len() / packing.lines(inputs), inputs, packing }
    }

    /// Rows of `tokens` tokens, packed as [`Packing::Tiles`] and
    /// [transposed](super::transpose_group) group by group.
    ///
    /// Panics when there are not as many lines as that makes, or rows are empty.
    pub(crate) fn transposed(lines: &'a [Line], tokens: usize, inputs: usize, amx: Amx) -> Self {
        assert!(inputs > 0 && lines.len() == transposed_lines(tokens, inputs), "x is whole tiles");
        Self { lines, tokens, inputs, packing: Packing::Tiles(amx) }
    }

    /// Number of rows, one a token.
    pub(crate) fn tokens(self) -> usize {
        self.tokens
    }

    /// Numbers in a row, without the zeros after them.
    pub(crate) fn inputs(self) -> usize {
        self.inputs
    }

    /// What was made of the rows.
    pub(super) fn packing(self) -> Packing {
        self.packing
    }

    /// The lines of all rows.
    pub(super) fn lines(self) -> &'a [Line] {
        self.lines
    }

    /// Lines of a packed row.
    #[inline(always)]
    pub(super) fn row_lines(self) -> usize {
        self.packing.lines(self.inputs)
    }

    /// The packed row of one token.
    #[inline(always)]
    pub(super) fn row(self, token: usize) -> &'a [Line] {
        let length = self.row_lines();
        &self.lines[token * length..][..length]
    }
}
