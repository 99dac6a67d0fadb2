//! Weights of few bits with scales, multiplied with activations of 8 bits.
//!
//! A step is 64 inputs, two blocks that have a scale each: the two scales in bf16, then the
//! numbers. Rows are filled up with zeros to whole steps. Lane i of a sum takes in the inputs
//! 4i to 4i + 3 of each step: the sum of their four products, which is exact, times the
//! product of the two scales of their block, fused with the addition, step after step.
//! [`super`] says what holds beside.

use rayon::prelude::*;

use super::super::simd::{Lanes, Line};
use super::quantise::{INT4_BYTES, INT8_BYTES, SCALES, STEP};
use super::weight::{Format, WeightElement};
use super::{Product, STEP_LINES, gemv, quantise, skinny};
use crate::math;
use crate::model::weights::WeightTensor;

/// Rows that a thread quantises at a time.
const GRAIN: usize = 16;

/// The rows of a matrix `[outputs, inputs]` in 8 bits, made on all threads of rayon's pool.
pub(crate) fn int8(weight: &WeightTensor) -> Vec<u8> {
    rows(weight, quantise::int8)
}

/// As [`int8`], in 4 bits.
pub(crate) fn int4(weight: &WeightTensor) -> Vec<u8> {
    rows(weight, quantise::int4)
}

fn rows<const N: usize>(weight: &WeightTensor, quantise: impl Fn(&[f32], &mut [u8; N]) + Sync) -> Vec<u8> {
    let inputs = weight.shape().last().copied().unwrap_or_default();
    let row_bytes = inputs.div_ceil(STEP) * N;
    let mut all = vec![0; weight.elements() / inputs.max(1) * row_bytes];
    all.par_chunks_mut((GRAIN * row_bytes).max(1)).enumerate().for_each_init(
        || vec![0.0; inputs],
        |row, (chunk, rows)| {
            for (index, to) in rows.chunks_exact_mut(row_bytes).enumerate() {
                weight.row_to_f32(chunk * GRAIN + index, row);
                math::wide(
                    #[inline(always)]
                    || {
                        for (weights, step) in row.chunks(STEP).zip(to.as_chunks_mut().0) {
                            quantise(weights, step);
                        }
                    },
                );
            }
        },
    );
    all
}

macro_rules! quantised {
    ($name:ident, $bytes:ident, $weights:ident, $what:literal) => {
        #[doc = $what]
        pub(super) struct $name;

        impl WeightElement for $name {
            type Block = [u8; $bytes];
            const FORMAT: Format = Format::$name;

            #[inline(always)]
            fn blocks(row: &[u8]) -> &[Self::Block] {
                row.as_chunks().0
            }

            #[inline(always)]
            fn rest(_: &[u8]) -> Option<Self::Block> {
                // Rows are filled up to whole steps.
                None
            }

            #[inline(always)]
            fn step<L: Lanes, const R: usize, const C: usize>(
                lanes: L,
                weights: [&Self::Block; R],
                x: [&[Line; STEP_LINES]; C],
                sums: &mut [[L::Vector; R]; C],
            ) {
                let mut tile = [(lanes.zero(), lanes.$weights(&[0; $bytes - SCALES])); R];
                for (tile, block) in tile.iter_mut().zip(weights) {
                    if let (Some(scales), Some(numbers)) = (block.first_chunk(), block.last_chunk()) {
                        *tile = (lanes.widen_pair(scales), lanes.$weights(numbers));
                    }
                }
                for (sums, [numbers, scales]) in sums.iter_mut().zip(x) {
                    let (numbers, scales) = (lanes.activations(numbers), lanes.load(scales));
                    for (sum, (scale, weights)) in sums.iter_mut().zip(tile) {
                        *sum = lanes.mul_add(lanes.dots(weights, numbers), lanes.mul(scale, scales), *sum);
                    }
                }
            }

            #[inline(always)]
            fn product<L: Lanes>(lanes: L, call: Product<'_, Self>) {
                // A prompt's many tokens would gain nothing by another way: there is next
                // to nothing to widen.
                match (call.x.tokens(), L::MANY_REGISTERS) {
                    (1, _) => gemv::product(lanes, call),
                    (_, true) => skinny::product::<L, Self, 4, 4>(lanes, call),
                    (_, false) => skinny::product::<L, Self, 4, 1>(lanes, call),
                }
            }
        }
    };
}

quantised!(Int8, INT8_BYTES, weights_i8, "8 bits.");
quantised!(Int4, INT4_BYTES, weights_i4, "4 bits.");

#[cfg(test)]
mod tests;
