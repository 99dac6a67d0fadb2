//! Sixteen lanes in four NEON registers.

use std::arch::aarch64::*;

use half::slice::HalfFloatSliceExt;

use super::{Lanes, Line, Task, levels};

/// The processor has NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

// Each operation below is safe to use: a value of `Neon` exists only where NEON was found.
impl Lanes for Neon {
    type Vector = [float32x4_t; 4];
    type Pairs = [Self::Vector; 2];
    type Weights = [int8x16_t; 4];
    type Activations = [int8x16_t; 4];
    const MANY_REGISTERS: bool = false;

    #[inline(always)]
    fn zero(self) -> Self::Vector {
        // SAFETY: the processor has NEON.
        unsafe { [vdupq_n_f32(0.0); 4] }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Vector {
        // SAFETY: the processor has NEON.
        unsafe { [vdupq_n_f32(value); 4] }
    }

    #[inline(always)]
    fn load(self, line: &Line) -> Self::Vector {
        let start = line.0.as_ptr();
        // SAFETY: the processor has NEON; a line is sixteen f32.
        unsafe {
            [vld1q_f32(start), vld1q_f32(start.add(4)), vld1q_f32(start.add(8)), vld1q_f32(start.add(12))]
        }
    }

    #[inline(always)]
    fn store(self, line: &mut Line, vector: Self::Vector) {
        for (quarter, values) in vector.into_iter().zip(line.0.as_chunks_mut::<4>().0) {
            // SAFETY: the processor has NEON; a quarter is four f32.
            unsafe { vst1q_f32(values.as_mut_ptr(), quarter) }
        }
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        unsafe {
            [
                vfmaq_f32(c[0], a[0], b[0]),
                vfmaq_f32(c[1], a[1], b[1]),
                vfmaq_f32(c[2], a[2], b[2]),
                vfmaq_f32(c[3], a[3], b[3]),
            ]
        }
    }

    #[inline(always)]
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has NEON.
        unsafe {
            [vmulq_f32(a[0], b[0]), vmulq_f32(a[1], b[1]), vmulq_f32(a[2], b[2]), vmulq_f32(a[3], b[3])]
        }
    }

    #[inline(always)]
    fn widen_bf16(self, block: &[u8; 64]) -> [Self::Vector; 2] {
        // SAFETY: the processor has NEON; the block is 64 bytes, and the loads are by bytes.
        unsafe {
            let mask = vdupq_n_u32(0xffff_0000);
            let pairs = [0, 16, 32, 48].map(|at| vreinterpretq_u32_u8(vld1q_u8(block.as_ptr().add(at))));
            [
                pairs.map(|pairs| vreinterpretq_f32_u32(vshlq_n_u32::<16>(pairs))),
                pairs.map(|pairs| vreinterpretq_f32_u32(vandq_u32(pairs, mask))),
            ]
        }
    }

    #[inline(always)]
    fn pairs(self, block: &[u8; 64]) -> Self::Pairs {
        self.widen_bf16(block)
    }

    #[inline(always)]
    fn add_pairs(self, a: Self::Pairs, b: Self::Pairs, c: Self::Vector) -> Self::Vector {
        self.mul_add(a[0], b[0], self.mul_add(a[1], b[1], c))
    }

    #[inline(always)]
    fn widen_f16(self, block: &[u8; 64]) -> [Self::Vector; 2] {
        let halves = block.as_chunks::<2>().0;
        let halves: [half::f16; 32] = std::array::from_fn(|i| half::f16::from_le_bytes(halves[i]));
        let mut values = [0.0f32; 32];
        halves.convert_to_f32_slice(&mut values);
        let mut lines = [Line::default(); 2];
        for (i, value) in values.into_iter().enumerate() {
            lines[i % 2].0[i / 2] = value;
        }
        [self.load(&lines[0]), self.load(&lines[1])]
    }

    #[inline(always)]
    fn split_f32(self, block: &[u8; 128]) -> [Self::Vector; 2] {
        // SAFETY: the processor has NEON; the block is 128 bytes, and the loads are by bytes.
        unsafe {
            let four = |at: usize| vreinterpretq_f32_u8(vld1q_u8(block.as_ptr().add(at)));
            let pairs = [0, 32, 64, 96].map(|at| (four(at), four(at + 16)));
            [pairs.map(|(a, b)| vuzp1q_f32(a, b)), pairs.map(|(a, b)| vuzp2q_f32(a, b))]
        }
    }

    #[inline(always)]
    fn widen_pair(self, pair: &[u8; 4]) -> Self::Vector {
        let pair = u32::from_le_bytes(*pair);
        // SAFETY: the processor has NEON.
        unsafe {
            let first = vreinterpretq_f32_u32(vdupq_n_u32(pair << 16));
            let second = vreinterpretq_f32_u32(vdupq_n_u32(pair & 0xffff_0000));
            [first, first, second, second]
        }
    }

    #[inline(always)]
    fn weights_i8(self, weights: &[u8; 64]) -> Self::Weights {
        // SAFETY: the processor has NEON; there are 64 bytes.
        unsafe { [0, 16, 32, 48].map(|at| vld1q_s8(weights.as_ptr().add(at).cast())) }
    }

    #[inline(always)]
    fn weights_i4(self, weights: &[u8; 32]) -> Self::Weights {
        // SAFETY: the processor has NEON; there are 32 bytes.
        unsafe {
            let pairs = [0, 16].map(|at| vld1q_u8(weights.as_ptr().add(at)));
            let lower = pairs.map(|pairs| vandq_u8(pairs, vdupq_n_u8(15)));
            let upper = pairs.map(|pairs| vshrq_n_u8::<4>(pairs));
            let eight = vdupq_n_s8(8);
            [lower[0], lower[1], upper[0], upper[1]].map(|four| vsubq_s8(vreinterpretq_s8_u8(four), eight))
        }
    }

    #[inline(always)]
    fn activations(self, line: &Line) -> Self::Activations {
        // SAFETY: the processor has NEON; a line is 64 bytes.
        unsafe { [0, 16, 32, 48].map(|at| vld1q_s8(levels(line).as_ptr().add(at))) }
    }

    #[inline(always)]
    fn dots(self, weights: Self::Weights, activations: Self::Activations) -> Self::Vector {
        [0, 1, 2, 3].map(|quarter| {
            let (w, x) = (weights[quarter], activations[quarter]);
            // SAFETY: the processor has NEON.
            unsafe {
                // Two products of numbers above -128 fit into 16 bits.
                let products = [vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x)];
                vcvtq_f32_s32(vpaddlq_s16(vpaddq_s16(products[0], products[1])))
            }
        })
    }

    #[inline(always)]
    fn sums(self, vectors: [Self::Vector; 4]) -> [f32; 4] {
        vectors.map(|[a, b, c, d]| {
            // SAFETY: the processor has NEON.
            unsafe {
                let folded = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
                let folded = vadd_f32(vget_low_f32(folded), vget_high_f32(folded));
                vget_lane_f32::<0>(folded) + vget_lane_f32::<1>(folded)
            }
        })
    }

    // There is no prefetch among the stable intrinsics of this processor.
    #[inline(always)]
    fn prefetch(self, _: &[u8], _: usize) {}

    // NEON is part of every aarch64 target, so nothing has to be compiled apart.
    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        task.run(self)
    }
}
