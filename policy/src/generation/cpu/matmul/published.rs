//! Weights as they were published, widened to f32 on their way into products.

use super::super::simd::{Lanes, Line};
use super::accumulators::add;
use super::weight::{self, Format, WeightElement, Widen};
use super::{BLOCK, Product, STEP_LINES, gemm, gemv, skinny};
use crate::model::weights::DType;

macro_rules! published {
    ($name:ident, $dtype:ident, $bytes:literal, $widen:ident, $what:literal) => {
        #[doc = $what]
        pub(super) struct $name;

        impl Widen for $name {
            #[inline(always)]
            fn widen<L: Lanes>(lanes: L, block: &Self::Block) -> [L::Vector; 2] {
                let [even, odd] = lanes.$widen(block);
                [odd, even]
            }
        }

        impl WeightElement for $name {
            type Block = [u8; $bytes * BLOCK];
            const FORMAT: Format = Format::Published(DType::$dtype);

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
                step::<L, Self, R, C>(lanes, weights, x, sums);
            }

            #[inline(always)]
            fn product<L: Lanes>(lanes: L, call: Product<'_, Self>) {
                product(lanes, call);
            }
        }
    };
}

published!(Bf16, BF16, 2, widen_bf16, "bfloat16.");
published!(F16, F16, 2, widen_f16, "IEEE 754 half precision.");
published!(F32, F32, 4, split_f32, "IEEE 754 single precision.");

#[inline(always)]
fn product<L: Lanes, E: Widen>(lanes: L, call: Product<'_, E>) {
    // Sums that registers hold, beside what is multiplied: in few tokens' products also weights
    // that are being widened. With many tokens only the first panel of each block widens.
    match (call.x.tokens(), L::MANY_REGISTERS) {
        (1, _) => gemv::product(lanes, call),
        (..=skinny::MOST_TOKENS, true) => skinny::product::<L, E, 4, 5>(lanes, call),
        (..=skinny::MOST_TOKENS, false) => skinny::product::<L, E, 2, 2>(lanes, call),
        (_, true) => gemm::product::<L, E, 4, 6>(lanes, call),
        (_, false) => gemm::product::<L, E, 2, 3>(lanes, call),
    }
}

/// The odd numbers first, then the even ones: so half as many widened weights are in registers.
#[inline(always)]
fn step<L: Lanes, E: Widen, const R: usize, const C: usize>(
    lanes: L,
    weights: [&E::Block; R],
    x: [&[Line; STEP_LINES]; C],
    sums: &mut [[L::Vector; R]; C],
) {
    for half in 0..STEP_LINES {
        let mut tile = [lanes.zero(); R];
        for (weight, block) in tile.iter_mut().zip(weights) {
            *weight = E::widen(lanes, block)[half];
        }
        add(lanes, tile, x.map(|x| &x[half]), sums);
    }
}
