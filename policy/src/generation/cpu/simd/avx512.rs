//! Sixteen lanes in one AVX-512 register.

use std::arch::x86_64::*;
use std::hint::black_box;
use std::mem::transmute;
use std::sync::OnceLock;
use std::time::Instant;

use super::{Lanes, Line, Task, avx2, levels};

/// The processor has AVX-512 F; where `VNNI` is true, its instructions for products of 8-bit
/// numbers; and where `BF16` is, those for bf16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512<const VNNI: bool, const BF16: bool>(());

impl Avx512<false, false> {
    pub(super) fn detect() -> Option<Self> {
        let found = std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx2");
        found.then_some(Self(()))
    }
}

impl Avx512<true, false> {
    pub(super) fn detect_vnni() -> Option<Self> {
        let found = Avx512::detect().is_some() && std::is_x86_feature_detected!("avx512vnni");
        found.then_some(Self(()))
    }
}

impl Avx512<true, true> {
    pub(super) fn detect_bf16() -> Option<Self> {
        let found = Avx512::detect_vnni().is_some() && std::is_x86_feature_detected!("avx512bf16");
        found.then_some(Self(()))
    }

    /// Whether its instruction takes less time than the two fused ones that do the same with
    /// widened numbers. It does on Zen 4, where it takes as long as one of them; on Intel's it
    /// takes as long as four. Measured once, in some 50 microseconds.
    pub(super) fn is_quick(self) -> bool {
        /// Each takes some microseconds.
        const STEPS: usize = 500;
        const ROUNDS: usize = 5;
        static QUICK: OnceLock<bool> = OnceLock::new();
        let least = |run: &dyn Fn()| {
            let seconds = (0..ROUNDS).map(|_| {
                let since = Instant::now();
                run();
                since.elapsed()
            });
            seconds.min()
        };
        *QUICK.get_or_init(|| {
            // SAFETY: the processor has AVX-512 F and BF16.
            let pairs = least(&|| unsafe { pairs_in_a_row(STEPS) });
            let fused = least(&|| unsafe { fused_in_a_row(STEPS) });
            pairs < fused
        })
    }
}

// Each operation below is safe to use: a value of `Avx512` exists only where AVX-512 F, and with it
// AVX2 and FMA, was found.
impl<const VNNI: bool, const BF16: bool> Lanes for Avx512<VNNI, BF16> {
    type Vector = __m512;
    type Pairs = __m512i;
    /// With `VNNI`, 128 is added to each: its instruction takes weights without a sign.
    type Weights = __m512i;
    /// And what every sum of four products begins with: what those 128 add to it, taken away.
    type Activations = (__m512i, __m512i);
    const MANY_REGISTERS: bool = true;

    #[inline(always)]
    fn zero(self) -> __m512 {
        // SAFETY: the processor has AVX-512 F.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: the processor has AVX-512 F.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, line: &Line) -> __m512 {
        // SAFETY: the processor has AVX-512 F; a line is 64 bytes at a multiple of 64.
        unsafe { _mm512_load_ps(line.0.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, line: &mut Line, vector: __m512) {
        // SAFETY: the processor has AVX-512 F; a line is 64 bytes at a multiple of 64.
        unsafe { _mm512_store_ps(line.0.as_mut_ptr(), vector) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the processor has AVX-512 F.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the processor has AVX-512 F.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn widen_bf16(self, block: &[u8; 64]) -> [__m512; 2] {
        // SAFETY: the processor has AVX-512 F.
        unsafe { widen_bf16(self.pairs(block)) }
    }

    #[inline(always)]
    fn pairs(self, block: &[u8; 64]) -> __m512i {
        // SAFETY: the processor has AVX-512 F; the block is 64 bytes, and the load asks for no alignment.
        unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
    }

    #[inline(always)]
    fn add_pairs(self, a: __m512i, b: __m512i, c: __m512) -> __m512 {
        if BF16 {
            // SAFETY: the processor has AVX-512 BF16, and both types are registers of 32 numbers of 16 bits.
            return unsafe {
                _mm512_dpbf16_ps(c, transmute::<__m512i, __m512bh>(a), transmute::<__m512i, __m512bh>(b))
            };
        }
        // SAFETY: the processor has AVX-512 F.
        let ([a_even, a_odd], [b_even, b_odd]) = unsafe { (widen_bf16(a), widen_bf16(b)) };
        self.mul_add(a_even, b_even, self.mul_add(a_odd, b_odd, c))
    }

    #[inline(always)]
    fn widen_f16(self, block: &[u8; 64]) -> [__m512; 2] {
        // SAFETY: the processor has AVX-512 F; the block is 64 bytes, and the loads ask for no alignment.
        unsafe {
            let first = _mm512_cvtph_ps(_mm256_loadu_si256(block.as_ptr().cast()));
            let second = _mm512_cvtph_ps(_mm256_loadu_si256(block.as_ptr().add(32).cast()));
            split(first, second)
        }
    }

    #[inline(always)]
    fn split_f32(self, block: &[u8; 128]) -> [__m512; 2] {
        // SAFETY: the processor has AVX-512 F; the block is 128 bytes, and the loads ask for no alignment.
        unsafe {
            let first = _mm512_loadu_ps(block.as_ptr().cast());
            let second = _mm512_loadu_ps(block.as_ptr().add(64).cast());
            split(first, second)
        }
    }

    #[inline(always)]
    fn widen_pair(self, pair: &[u8; 4]) -> __m512 {
        // SAFETY: the processor has AVX-512 F.
        unsafe {
            let pair = _mm512_set1_epi32(i32::from_le_bytes(*pair));
            let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
            let second = _mm512_and_si512(pair, upper);
            _mm512_castsi512_ps(_mm512_mask_slli_epi32::<16>(second, 0x00ff, pair))
        }
    }

    #[inline(always)]
    fn weights_i8(self, weights: &[u8; 64]) -> __m512i {
        // SAFETY: the processor has AVX-512 F; there are 64 bytes, and the load asks for no alignment.
        unsafe {
            let weights = _mm512_loadu_si512(weights.as_ptr().cast());
            // The upper bit turned over: 128 added.
            if VNNI { _mm512_xor_si512(weights, _mm512_set1_epi8(-128)) } else { weights }
        }
    }

    #[inline(always)]
    fn weights_i4(self, weights: &[u8; 32]) -> __m512i {
        // SAFETY: the processor has AVX2 and AVX-512 F; there are 32 bytes, and the load
        // asks for no alignment.
        unsafe {
            let pairs = _mm256_loadu_si256(weights.as_ptr().cast());
            let mask = _mm256_set1_epi8(15);
            let (lower, upper) = (pairs, _mm256_srli_epi16::<4>(pairs));
            // With 8 added as they are stored; there, 128 - 8 more make it 128.
            let more = if VNNI { _mm256_set1_epi8(120) } else { _mm256_set1_epi8(-8) };
            let [lower, upper] = [
                _mm256_add_epi8(_mm256_and_si256(lower, mask), more),
                _mm256_add_epi8(_mm256_and_si256(upper, mask), more),
            ];
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(lower), upper)
        }
    }

    #[inline(always)]
    fn activations(self, line: &Line) -> Self::Activations {
        // SAFETY: the processor has AVX-512 F, and VNNI where that is asked for; a line is 64 bytes
        // at a multiple of 64.
        unsafe {
            let line = _mm512_load_si512(levels(line).as_ptr().cast());
            let zero = _mm512_setzero_si512();
            if !VNNI {
                return (line, zero);
            }
            let added = _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(-128), line);
            (line, _mm512_sub_epi32(zero, added))
        }
    }

    #[inline(always)]
    fn dots(self, weights: __m512i, (activations, begin): Self::Activations) -> __m512 {
        // SAFETY: the processor has AVX2 and AVX-512 F, and VNNI where that is asked for.
        unsafe {
            let sums = if VNNI {
                _mm512_dpbusd_epi32(begin, weights, activations)
            } else {
                let low = [_mm512_castsi512_si256(weights), _mm512_castsi512_si256(activations)];
                let high =
                    [_mm512_extracti64x4_epi64::<1>(weights), _mm512_extracti64x4_epi64::<1>(activations)];
                let low = _mm512_castsi256_si512(avx2::dots(low[0], low[1]));
                _mm512_inserti64x4::<1>(low, avx2::dots(high[0], high[1]))
            };
            _mm512_cvtepi32_ps(sums)
        }
    }

    #[inline(always)]
    fn sums(self, vectors: [__m512; 4]) -> [f32; 4] {
        // SAFETY: the processor has AVX-512 F, and with it all that came before.
        unsafe {
            let folded = quarters(vectors, upper());
            let folded = _mm512_add_ps(folded, _mm512_permute_ps::<0b11_10_11_10>(folded));
            let folded = _mm512_add_ps(folded, _mm512_permute_ps::<0b01_01_01_01>(folded));
            // The first lane of each quarter.
            let picked = _mm512_maskz_compress_ps(0b0001_0001_0001_0001, folded);
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), _mm512_castps512_ps128(picked));
            sums
        }
    }

    #[inline(always)]
    fn all_sums<const C: usize>(self, vectors: [[__m512; 4]; C]) -> [[f32; 4]; C] {
        let mut all = [[0.0; 4]; C];
        let (fours, rest) = all.as_chunks_mut::<4>();
        let (fours_of_vectors, rest_of_vectors) = vectors.as_chunks::<4>();
        for (sums, vectors) in fours.iter_mut().zip(fours_of_vectors) {
            // SAFETY: the processor has AVX-512 F.
            *sums = unsafe { sixteen_sums(*vectors) };
        }
        for (sums, vectors) in rest.iter_mut().zip(rest_of_vectors) {
            *sums = self.sums(*vectors);
        }
        all
    }

    #[inline(always)]
    fn prefetch(self, bytes: &[u8], ahead: usize) {
        // SAFETY: a prefetch reads nothing: an address without memory behind it is passed over.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(bytes.as_ptr().wrapping_add(ahead).cast()) }
    }

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[inline(never)]
        #[target_feature(enable = "avx512f")]
        fn plain<T: Task>(task: T, lanes: impl Lanes) -> T::Output {
            task.run(lanes)
        }
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512vnni")]
        fn vnni<T: Task>(task: T, lanes: impl Lanes) -> T::Output {
            task.run(lanes)
        }
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512vnni,avx512bf16")]
        fn bf16<T: Task>(task: T, lanes: impl Lanes) -> T::Output {
            task.run(lanes)
        }
        // SAFETY: the processor has AVX-512 F, and VNNI and BF16 where these are asked for.
        unsafe {
            match (VNNI, BF16) {
                (_, true) => bf16(task, self),
                (true, false) => vnni(task, self),
                (false, false) => plain(task, self),
            }
        }
    }
}

/// Sums that do not wait for each other, enough to keep every unit busy.
const INDEPENDENT: usize = 16;

/// Adds a pair of bf16 to each of many sums, over and over.
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs_in_a_row(steps: usize) {
    let mut sums = [_mm512_setzero_ps(); INDEPENDENT];
    let numbers = black_box(_mm512_setzero_si512());
    // SAFETY: any bits are 32 numbers of 16 bits.
    let numbers = unsafe { transmute::<__m512i, __m512bh>(numbers) };
    for _ in 0..steps {
        sums.iter_mut().for_each(|sum| *sum = _mm512_dpbf16_ps(*sum, numbers, numbers));
    }
    black_box(sums);
}

/// Does the same with numbers that were widened.
#[target_feature(enable = "avx512f")]
fn fused_in_a_row(steps: usize) {
    let mut sums = [_mm512_setzero_ps(); INDEPENDENT];
    let numbers = black_box(_mm512_setzero_ps());
    for _ in 0..2 * steps {
        sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_ps(numbers, numbers, *sum));
    }
    black_box(sums);
}

/// The even and the odd ones of 32 bf16.
///
/// Safe only on a processor with AVX-512 F.
#[inline(always)]
unsafe fn widen_bf16(pairs: __m512i) -> [__m512; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let even = _mm512_slli_epi32::<16>(pairs);
        let odd = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32.cast_signed()));
        [_mm512_castsi512_ps(even), _mm512_castsi512_ps(odd)]
    }
}

/// The even and the odd ones of 32 numbers.
///
/// Safe only on a processor with AVX-512 F.
#[inline(always)]
unsafe fn split(first: __m512, second: __m512) -> [__m512; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        [_mm512_permutex2var_ps(first, even, second), _mm512_permutex2var_ps(first, odd, second)]
    }
}

/// The upper eight lanes, as a mask that the compiler does not know: with one that it knows it
/// makes a blend, which two units can do, a shuffle, which one of them can do.
#[inline(always)]
fn upper() -> __mmask16 {
    black_box(0xff00)
}

/// The halves of two vectors added up, side by side.
///
/// Safe only on a processor with AVX-512 F.
#[inline(always)]
unsafe fn fold(a: __m512, b: __m512, upper: __mmask16) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_add_ps(_mm512_mask_blend_ps(upper, a, b), _mm512_shuffle_f32x4::<0x4e>(a, b)) }
}

/// The quarters of four vectors added up, side by side: 128 bits of each.
///
/// Safe only on a processor with AVX-512 F.
#[inline(always)]
unsafe fn quarters([a, b, c, d]: [__m512; 4], upper: __mmask16) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let (ab, cd) = (fold(a, b, upper), fold(c, d, upper));
        _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xdd>(ab, cd))
    }
}

/// [`Lanes::sums`] four times at once.
///
/// Safe only on a processor with AVX-512 F.
#[inline(always)]
unsafe fn sixteen_sums([a, b, c, d]: [[__m512; 4]; 4]) -> [[f32; 4]; 4] {
    // SAFETY: the caller's promise; any sixteen numbers are four times four.
    unsafe {
        let upper = upper();
        let (ab, cd) =
            (halves(quarters(a, upper), quarters(b, upper)), halves(quarters(c, upper), quarters(d, upper)));
        // Now each quarter has the sums of one vector of all four.
        let sums = _mm512_add_ps(
            _mm512_shuffle_ps::<0b10_00_10_00>(ab, cd),
            _mm512_shuffle_ps::<0b11_01_11_01>(ab, cd),
        );
        let across = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        transmute::<__m512, [[f32; 4]; 4]>(_mm512_permutexvar_ps(across, sums))
    }
}

/// The halves of the quarters of two vectors added up: in each quarter two lanes of the one and
/// two of the other.
///
/// Safe only on a processor with AVX-512 F.
#[inline(always)]
unsafe fn halves(a: __m512, b: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
        let (lower, upper) = (_mm512_shuffle_pd::<0>(a, b), _mm512_shuffle_pd::<0xff>(a, b));
        _mm512_add_ps(_mm512_castpd_ps(lower), _mm512_castpd_ps(upper))
    }
}
