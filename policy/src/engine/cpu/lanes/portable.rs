//! Sixteen lanes in plain Rust: what the others must agree with, and what runs where there are no others.

use half::{bf16, f16};

use super::{LANES, Lanes, Line, Task};

/// No instructions that not every processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// The even and the odd ones of 32 numbers of `N` bytes.
#[inline(always)]
fn split<const N: usize>(block: &[u8], widen: impl Fn([u8; N]) -> f32) -> [[f32; LANES]; 2] {
    let (numbers, _) = block.as_chunks::<N>();
    [0, 1].map(|odd| std::array::from_fn(|lane| widen(numbers[2 * lane + odd])))
}

impl Lanes for Portable {
    type Vector = [f32; LANES];
    const MANY_REGISTERS: bool = false;

    #[inline(always)]
    fn zero(self) -> Self::Vector {
        [0.0; LANES]
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Vector {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, line: &Line) -> Self::Vector {
        line.0
    }

    #[inline(always)]
    fn store(self, line: &mut Line, vector: Self::Vector) {
        line.0 = vector;
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        std::array::from_fn(|lane| a[lane].mul_add(b[lane], c[lane]))
    }

    #[inline(always)]
    fn widen_bf16(self, block: &[u8; 64]) -> [Self::Vector; 2] {
        split(block, |bytes| bf16::from_le_bytes(bytes).to_f32())
    }

    #[inline(always)]
    fn widen_f16(self, block: &[u8; 64]) -> [Self::Vector; 2] {
        split(block, |bytes| f16::from_le_bytes(bytes).to_f32())
    }

    #[inline(always)]
    fn split_f32(self, block: &[u8; 128]) -> [Self::Vector; 2] {
        split(block, f32::from_le_bytes)
    }

    #[inline(always)]
    fn sums(self, vectors: [Self::Vector; 4]) -> [f32; 4] {
        vectors.map(|mut lanes| {
            for width in [8, 4, 2, 1] {
                for lane in 0..width {
                    lanes[lane] += lanes[lane + width];
                }
            }
            lanes[0]
        })
    }

    #[inline(always)]
    fn prefetch(self, _: &[u8], _: usize) {}

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        task.run(self)
    }
}
