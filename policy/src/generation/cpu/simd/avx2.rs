//! Sixteen lanes in two AVX2 registers.

use std::arch::x86_64::*;

use super::{Lanes, Line, Task, levels};

/// The processor has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        let found = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c");
        found.then_some(Self(()))
    }
}

// Each operation below is safe to use: a value of `Avx2` exists only where its instructions were found.
impl Lanes for Avx2 {
    type Vector = [__m256; 2];
    type Pairs = [Self::Vector; 2];
    type Weights = [__m256i; 2];
    type Activations = [__m256i; 2];
    const MANY_REGISTERS: bool = false;

    #[inline(always)]
    fn zero(self) -> Self::Vector {
        // SAFETY: the processor has AVX2.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Vector {
        // SAFETY: the processor has AVX2.
        unsafe { [_mm256_set1_ps(value); 2] }
    }

    #[inline(always)]
    fn load(self, line: &Line) -> Self::Vector {
        let half = line.0.as_ptr();
        // SAFETY: the processor has AVX2; a line is 64 bytes at a multiple of 64.
        unsafe { [_mm256_load_ps(half), _mm256_load_ps(half.add(8))] }
    }

    #[inline(always)]
    fn store(self, line: &mut Line, [low, high]: Self::Vector) {
        let half = line.0.as_mut_ptr();
        // SAFETY: the processor has AVX2; a line is 64 bytes at a multiple of 64.
        unsafe {
            _mm256_store_ps(half, low);
            _mm256_store_ps(half.add(8), high);
        }
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has FMA.
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }

    #[inline(always)]
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the processor has AVX2.
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn widen_bf16(self, block: &[u8; 64]) -> [Self::Vector; 2] {
        // SAFETY: the processor has AVX2; the block is 64 bytes, and the loads ask for no alignment.
        unsafe {
            let mask = _mm256_castsi256_ps(_mm256_set1_epi32(0xffff_0000_u32.cast_signed()));
            let first = _mm256_loadu_si256(block.as_ptr().cast());
            let second = _mm256_loadu_si256(block.as_ptr().add(32).cast());
            let even = [_mm256_slli_epi32::<16>(first), _mm256_slli_epi32::<16>(second)];
            [
                [_mm256_castsi256_ps(even[0]), _mm256_castsi256_ps(even[1])],
                [
                    _mm256_and_ps(_mm256_castsi256_ps(first), mask),
                    _mm256_and_ps(_mm256_castsi256_ps(second), mask),
                ],
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
        // SAFETY: the processor has F16C; the block is 64 bytes, and the loads ask for no alignment.
        unsafe {
            let eights = block.as_ptr().cast::<__m128i>();
            split([
                _mm256_cvtph_ps(_mm_loadu_si128(eights)),
                _mm256_cvtph_ps(_mm_loadu_si128(eights.add(1))),
                _mm256_cvtph_ps(_mm_loadu_si128(eights.add(2))),
                _mm256_cvtph_ps(_mm_loadu_si128(eights.add(3))),
            ])
        }
    }

    #[inline(always)]
    fn split_f32(self, block: &[u8; 128]) -> [Self::Vector; 2] {
        // SAFETY: the processor has AVX2; the block is 128 bytes, and the loads ask for no alignment.
        unsafe {
            let start = block.as_ptr().cast::<f32>();
            split([
                _mm256_loadu_ps(start),
                _mm256_loadu_ps(start.add(8)),
                _mm256_loadu_ps(start.add(16)),
                _mm256_loadu_ps(start.add(24)),
            ])
        }
    }

    #[inline(always)]
    fn widen_pair(self, pair: &[u8; 4]) -> Self::Vector {
        // SAFETY: the processor has AVX2.
        unsafe {
            let pair = _mm256_set1_epi32(i32::from_le_bytes(*pair));
            let second = _mm256_and_si256(pair, _mm256_set1_epi32(0xffff_0000_u32.cast_signed()));
            [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(pair)), _mm256_castsi256_ps(second)]
        }
    }

    #[inline(always)]
    fn weights_i8(self, weights: &[u8; 64]) -> Self::Weights {
        let half = weights.as_ptr().cast::<__m256i>();
        // SAFETY: the processor has AVX2; there are 64 bytes, and the loads ask for no alignment.
        unsafe { [_mm256_loadu_si256(half), _mm256_loadu_si256(half.add(1))] }
    }

    #[inline(always)]
    fn weights_i4(self, weights: &[u8; 32]) -> Self::Weights {
        // SAFETY: the processor has AVX2; there are 32 bytes, and the load asks for no alignment.
        unsafe {
            let pairs = _mm256_loadu_si256(weights.as_ptr().cast());
            let (mask, eight) = (_mm256_set1_epi8(15), _mm256_set1_epi8(8));
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(pairs), mask);
            [_mm256_sub_epi8(_mm256_and_si256(pairs, mask), eight), _mm256_sub_epi8(upper, eight)]
        }
    }

    #[inline(always)]
    fn activations(self, line: &Line) -> Self::Activations {
        let half = levels(line).as_ptr().cast::<__m256i>();
        // SAFETY: the processor has AVX2; a line is 64 bytes at a multiple of 64.
        unsafe { [_mm256_load_si256(half), _mm256_load_si256(half.add(1))] }
    }

    #[inline(always)]
    fn dots(self, weights: Self::Weights, activations: Self::Activations) -> Self::Vector {
        // SAFETY: the processor has AVX2.
        unsafe {
            [
                _mm256_cvtepi32_ps(dots(weights[0], activations[0])),
                _mm256_cvtepi32_ps(dots(weights[1], activations[1])),
            ]
        }
    }

    #[inline(always)]
    fn sums(self, [a, b, c, d]: [Self::Vector; 4]) -> [f32; 4] {
        // SAFETY: the processor has AVX2.
        unsafe {
            let (a, b, c, d) = (quarter(a), quarter(b), quarter(c), quarter(d));
            // Lanes i and i + 2 of two vectors at once, then the two that are left of each of the four.
            let ab = _mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));
            let cd = _mm_add_ps(_mm_movelh_ps(c, d), _mm_movehl_ps(d, c));
            let folded = _mm_add_ps(_mm_shuffle_ps::<0x88>(ab, cd), _mm_shuffle_ps::<0xdd>(ab, cd));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), folded);
            sums
        }
    }

    #[inline(always)]
    fn prefetch(self, bytes: &[u8], ahead: usize) {
        // SAFETY: a prefetch reads nothing: an address without memory behind it is passed over.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(ahead).cast()) }
    }

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<T: Task>(task: T, lanes: Avx2) -> T::Output {
            task.run(lanes)
        }
        // SAFETY: the processor has AVX2, FMA and F16C.
        unsafe { compiled(task, self) }
    }
}

/// The sums of the products of four neighbours each, of 32 weights and activations of 8 bits.
///
/// The instruction multiplies unsigned numbers with signed ones and adds two products in 16 bits.
/// With the weight's sign moved to the activation, and neither of them -128, that is at most 2 ·
/// 127² and no sum saturates; a weight of -8 and an activation are far below.
///
/// Safe only on a processor with AVX2.
#[inline(always)]
pub(super) unsafe fn dots(weights: __m256i, activations: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let signed = _mm256_sign_epi8(activations, weights);
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), signed);
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }
}

/// The even and the odd ones of 32 numbers.
///
/// Safe only on a processor with AVX2.
#[inline(always)]
unsafe fn split([a, b, c, d]: [__m256; 4]) -> [[__m256; 2]; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let even = [_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0x88>(c, d)];
        let odd = [_mm256_shuffle_ps::<0xdd>(a, b), _mm256_shuffle_ps::<0xdd>(c, d)];
        [[ordered(even[0]), ordered(even[1])], [ordered(odd[0]), ordered(odd[1])]]
    }
}

/// A shuffle works within halves, [a0 a2 b0 b2 | a4 a6 b4 b6]: exchanges the two quarters in the middle.
///
/// Safe only on a processor with AVX2.
#[inline(always)]
unsafe fn ordered(mixed: __m256) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe { _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(mixed))) }
}

/// Lanes i, i + 4, i + 8 and i + 12 added up.
///
/// Safe only on a processor with AVX2.
#[inline(always)]
unsafe fn quarter([low, high]: [__m256; 2]) -> __m128 {
    // SAFETY: the caller's promise.
    unsafe {
        let folded = _mm256_add_ps(low, high);
        _mm_add_ps(_mm256_castps256_ps128(folded), _mm256_extractf128_ps::<1>(folded))
    }
}
