//! Products of activations with weights as they were published: y = x · Wᵀ.
//!
//! **What holds about numbers.** Each output is a dot product in sixteen lanes: lane i takes in the inputs 2i and 2i + 1 of
//! each block of 32, one after the other, each fused with its addition, block after block; then the lanes are added in one
//! fixed tree. Neither tiles, tokens, threads, the element type nor the processor change that order, so a result's bits
//! depend on its row of W and its row of x alone.

mod activations;
mod ahead;
mod few;
mod many;
mod one;
mod output;
mod sums;
mod weight;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use activations::{Activations, pack, packed_index, packed_lines};
pub(crate) use output::{Output, Update};
pub(crate) use weight::WeightRows;

use super::lanes::{Lanes, Line, Processor, Task};
use crate::weights::DType;
use weight::{Bf16, Element, F16, F32};

/// Inputs in a block: two vectors' worth, the even ones and the odd ones.
const BLOCK: usize = 32;
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
    /// A block of widened weights.
    weights: Vec<Line>,
    /// Sums of a block of weights with a few tokens, when there are too many inputs for one pass.
    sums: Vec<Line>,
}

impl Multiplier {
    /// One that computes with the instructions of `processor`.
    pub(crate) fn new(processor: Processor) -> Self {
        Self { processor, scratch: Scratch::default() }
    }

    /// Sets or adds to column j of `y` the product of `x` with row `rows.start + j` of the weight, for all `rows`.
    ///
    /// Threads may share `y` if their columns do not overlap.
    ///
    /// # Panics
    /// When the shapes do not fit together.
    pub(crate) fn product(
        &mut self,
        weight: WeightRows<'_>,
        rows: Range<usize>,
        x: Activations<'_>,
        y: Output<'_>,
        update: Update,
    ) {
        assert_eq!(weight.inputs(), x.inputs(), "rows of the weight and of x are equally long");
        let weight = weight.rows(rows);
        assert!(y.holds(x.tokens(), weight.len()), "y holds every output");
        if weight.len() == 0 || x.tokens() == 0 {
            return;
        }
        let scratch = &mut self.scratch;
        match weight.dtype() {
            DType::BF16 => {
                self.processor.run(Product::<Bf16> { weight: weight.typed(), x, y, update, scratch })
            }
            DType::F16 => {
                self.processor.run(Product::<F16> { weight: weight.typed(), x, y, update, scratch })
            }
            DType::F32 => {
                self.processor.run(Product::<F32> { weight: weight.typed(), x, y, update, scratch })
            }
        }
    }
}

/// One call of [`Multiplier::product`].
struct Product<'a, E: Element> {
    weight: weight::Typed<'a, E>,
    x: Activations<'a>,
    y: Output<'a>,
    update: Update,
    scratch: &'a mut Scratch,
}

impl<E: Element> Task for Product<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // Sums that registers hold, beside what is multiplied: in few tokens' products also weights that are being widened.
        match (self.x.tokens(), L::MANY_REGISTERS) {
            (1, _) => one::product(lanes, self),
            (..=few::MOST_TOKENS, true) => few::product::<L, E, 4, 5>(lanes, self),
            (..=few::MOST_TOKENS, false) => few::product::<L, E, 2, 2>(lanes, self),
            (_, true) => many::product::<L, E, 4, 6>(lanes, self),
            (_, false) => many::product::<L, E, 2, 3>(lanes, self),
        }
    }
}
