//! Weights that were published in bf16, with activations in bf16: an instruction multiplies both
//! two by two, as they are stored.

use super::super::simd::{Lanes, Line, bytes};
use super::weight::{self, Format, WeightElement};
use super::{CACHE_LINE, Product, STEP_LINES, gemv, skinny};
use crate::model::weights::DType;

/// bfloat16 as published, multiplied two by two.
pub(super) struct Pairs;

impl WeightElement for Pairs {
    type Block = [u8; STEP_LINES * CACHE_LINE];
    const FORMAT: Format = Format::Published(DType::BF16);

    #[inline(always)]
    fn blocks(row: &[u8]) -> &[Self::Block] {
        row.as_chunks().0
    }

    #[inline(always)]
    fn rest(row: &[u8]) -> Option<Self::Block> {
        weight::filled(row)
    }

    #[inline(always)]
    fn step<L: Lanes, const R: usize, const C: usize>(
        lanes: L,
        weights: [&Self::Block; R],
        x: [&[Line; STEP_LINES]; C],
        sums: &mut [[L::Vector; R]; C],
    ) {
        for half in 0..STEP_LINES {
            let mut tile = [lanes.pairs(&[0; CACHE_LINE]); R];
            for (weight, block) in tile.iter_mut().zip(weights) {
                *weight = lanes.pairs(&block.as_chunks().0[half]);
            }
            for (sums, x) in sums.iter_mut().zip(x) {
                let x = lanes.pairs(bytes(&x[half]));
                for (sum, weight) in sums.iter_mut().zip(tile) {
                    *sum = lanes.add_pairs(weight, x, *sum);
                }
            }
        }
    }

    #[inline(always)]
    fn product<L: Lanes>(lanes: L, call: Product<'_, Self>) {
        // A prompt's many tokens would gain nothing by another way: there is nothing to widen.
        match (call.x.tokens(), L::MANY_REGISTERS) {
            (1, _) => gemv::product(lanes, call),
            (_, true) => skinny::product::<L, Self, 4, 6>(lanes, call),
            (_, false) => skinny::product::<L, Self, 2, 2>(lanes, call),
        }
    }
}
