//! Sixteen lanes in plain Rust: what the others must agree with, and what runs where there are no others.

use half::{bf16, f16};

use super::{BYTES, LANES, Lanes, Line, Task, levels};

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
    type Pairs = [Self::Vector; 2];
    type Weights = [i8; BYTES];
    type Activations = [i8; BYTES];
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
        // Not the system's `fmaf`: Windows rounds twice on processors without the instruction.
        std::array::from_fn(|lane| libm::fmaf(a[lane], b[lane], c[lane]))
    }

    #[inline(always)]
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        std::array::from_fn(|lane| a[lane] * b[lane])
    }

    #[inline(always)]
    fn widen_bf16(self, block: &[u8; 64]) -> [Self::Vector; 2] {
        split(block, |bytes| bf16::from_le_bytes(bytes).to_f32())
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
        split(block, |bytes| f16::from_le_bytes(bytes).to_f32())
    }

    #[inline(always)]
    fn split_f32(self, block: &[u8; 128]) -> [Self::Vector; 2] {
        split(block, f32::from_le_bytes)
    }

    #[inline(always)]
    fn widen_pair(self, [a, b, c, d]: &[u8; 4]) -> Self::Vector {
        let pair = [[*a, *b], [*c, *d]].map(|bytes| bf16::from_le_bytes(bytes).to_f32());
        std::array::from_fn(|lane| pair[lane / (LANES / 2)])
    }

    #[inline(always)]
    fn weights_i8(self, weights: &[u8; 64]) -> Self::Weights {
        weights.map(u8::cast_signed)
    }

    #[inline(always)]
    fn weights_i4(self, weights: &[u8; 32]) -> Self::Weights {
        let half = |at: usize| if at < 32 { weights[at] & 15 } else { weights[at - 32] >> 4 };
        std::array::from_fn(|at| half(at).cast_signed() - 8)
    }

    #[inline(always)]
    fn activations(self, line: &Line) -> Self::Activations {
        *levels(line)
    }

    #[inline(always)]
    fn dots(self, weights: Self::Weights, activations: Self::Activations) -> Self::Vector {
        let product = |at: usize| i32::from(weights[at]) * i32::from(activations[at]);
        std::array::from_fn(|lane| (4 * lane..4 * lane + 4).map(product).sum::<i32>() as f32)
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
