//! Products of activations with weights, as these were published or quantised: y = x · Wᵀ.
//!
//! **What holds about numbers.** Each output is a dot product in sixteen lanes, which take in the
//! inputs step after step; then the lanes are added in one fixed tree. With published weights, lane
//! i takes in the inputs 2i + 1 and 2i of each 32, one after the other, each fused with its
//! addition, as the instruction for products of bf16 does it ([`pairs`]); [`quantised`] ones have
//! their own rule, and so has bf16 on a matrix unit ([`tiles`]). Neither blocks, tokens, threads
//! nor the element type change that order, nor does the processor but for that unit, so a result's
//! bits depend on its row of W and its row of x alone.

mod accumulators;
mod activations;
mod gemm;
mod gemv;
mod output;
mod pairs;
mod prefetch;
mod published;
mod quantise;
mod quantised;
mod skinny;
mod tiles;
mod weight;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use activations::{PackedActivations, Packing, packed_index, transposed_lines, unpack};
pub(crate) use output::{OutputMatrix, OutputUpdate};
pub(crate) use quantised::{int4, int8};
pub(crate) use tiles::transpose_group;
pub(crate) use weight::{Format, WeightRows};

use super::simd::{Lanes, Line, Processor, Task};
use crate::model::precision::Precision;
use crate::model::weights::DType;
use pairs::Pairs;
use published::{Bf16, F16, F32};
use quantised::{Int4, Int8};
use weight::WeightElement;

/// Inputs in a block of published weights: two vectors' worth, the even ones and the odd ones.
const BLOCK: usize = 32;
/// Lines of a step: what products read at a time of each row.
const STEP_LINES: usize = 2;
/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Computes products on one thread. Each thread has its own.
pub(crate) struct Multiplier {
    processor: Processor,
    scratch: Scratch,
}

/// Memory that products need while they run; it grows to what the largest one needed.
#[derive(Default)]
struct Scratch {
    /// A block of weights, widened, or in tiles.
    weights: Vec<Line>,
    /// Sums of a block of weights with a few tokens, when there are too many inputs for one pass.
    sums: Vec<Line>,
}

impl Multiplier {
    /// One that computes with the instructions of `processor`.
    pub(crate) fn new(processor: Processor) -> Self {
        Self { processor, scratch: Scratch::default() }
    }

    /// What its kernels want activations to be in a precision.
    pub(crate) fn packing(&self, precision: Precision) -> Packing {
        Packing::of(precision, self.processor)
    }

    /// Sets or adds to column j of `y` the product of `x` with row `rows.start + j` of the
    /// weight, for all `rows`.
    ///
    /// Threads may share `y` if their columns do not overlap.
    ///
    /// Panics when the shapes do not fit together, or the activations are not packed for such weights.
    pub(crate) fn product(
        &mut self,
        weight: WeightRows<'_>,
        rows: Range<usize>,
        x: PackedActivations<'_>,
        y: OutputMatrix<'_>,
        update: OutputUpdate,
    ) {
        assert_eq!(weight.inputs(), x.inputs(), "rows of the weight and of x are equally long");
        let weight = weight.rows(rows);
        assert!(y.holds(x.tokens(), weight.len()), "y holds every output");
        if weight.len() == 0 || x.tokens() == 0 {
            return;
        }
        let run = match (weight.format(), x.packing()) {
            (Format::Published(DType::BF16), Packing::Tiles(amx)) => {
                let scratch = &mut self.scratch;
                let weight = weight.typed();
                return amx.run(|unit| tiles::product(unit, Product { weight, x, y, update, scratch }));
            }
            (Format::Published(DType::BF16), Packing::Pairs) => Self::run::<Pairs>,
            (Format::Published(DType::BF16), Packing::F32 | Packing::Bf16) => Self::run::<Bf16>,
            (Format::Published(DType::F16), Packing::F32) => Self::run::<F16>,
            (Format::Published(DType::F32), Packing::F32) => Self::run::<F32>,
            (Format::Int8, Packing::Int8) => Self::run::<Int8>,
            (Format::Int4, Packing::Int8) => Self::run::<Int4>,
            (format, packing) => unreachable!("x is packed for such weights: {format:?}, {packing:?}"),
        };
        run(self, weight, x, y, update);
    }

    fn run<E: WeightElement>(
        &mut self,
        weight: WeightRows<'_>,
        x: PackedActivations<'_>,
        y: OutputMatrix<'_>,
        update: OutputUpdate,
    ) {
        let scratch = &mut self.scratch;
        self.processor.run(Product::<E> { weight: weight.typed(), x, y, update, scratch });
    }
}

/// One call of [`Multiplier::product`].
struct Product<'a, E: WeightElement> {
    weight: weight::Typed<'a, E>,
    x: PackedActivations<'a>,
    y: OutputMatrix<'a>,
    update: OutputUpdate,
    scratch: &'a mut Scratch,
}

impl<E: WeightElement> Task for Product<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        E::product(lanes, self);
    }
}
