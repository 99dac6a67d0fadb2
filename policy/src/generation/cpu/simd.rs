//! Vectors of sixteen f32 on every processor, behind one trait.
//!
//! Sixteen lanes are one AVX-512 register, two of AVX2 or four of NEON. Every implementation rounds
//! alike: a product and its sum are rounded once (fused), [`Lanes::sums`] adds in one fixed tree,
//! and sums of products of 8-bit numbers are exact. So a kernel written with [`Lanes`] gives the
//! same bits on all of them.
//!
//! A value of an implementing type is the proof that the processor has the
//! instructions: [`Processor::available`] alone makes them, after having asked the
//! processor. All `unsafe` of the kernels lies here and below; what threads share has
//! its own ([`super::shared_slice`], [`super::matmul::OutputMatrix`]).

mod abreast;
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

#[cfg(test)]
mod tests;

pub(crate) use abreast::Abreast;
use amx::Amx;

#[cfg(test)]
use crate::model::precision::Precision;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// One vector in memory, aligned such that it never spans two cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [f32; LANES]);

/// Numbers of 8 bits in a line.
pub(crate) const BYTES: usize = size_of::<Line>();

/// The bytes of a line.
#[inline(always)]
pub(crate) fn bytes(line: &Line) -> &[u8; BYTES] {
    // SAFETY: a line is 64 bytes.
    unsafe { &*std::ptr::from_ref(line).cast() }
}

/// The bytes of a line.
#[inline(always)]
pub(crate) fn bytes_mut(line: &mut Line) -> &mut [u8; BYTES] {
    // SAFETY: a line is 64 bytes, and any four of them are an f32.
    unsafe { &mut *std::ptr::from_mut(line).cast() }
}

/// A line as the bits of 32 bf16.
#[inline(always)]
pub(crate) fn halves_mut(line: &mut Line) -> &mut [u16; 2 * LANES] {
    // SAFETY: a line is 64 bytes, any two of them are such bits, and any two of these are an f32.
    unsafe { &mut *std::ptr::from_mut(line).cast() }
}

/// A line as numbers of 8 bits.
#[inline(always)]
pub(crate) fn levels(line: &Line) -> &[i8; BYTES] {
    // SAFETY: a line is 64 bytes, and any of them is a number of 8 bits.
    unsafe { &*std::ptr::from_ref(line).cast() }
}

/// A line as numbers of 8 bits.
#[inline(always)]
pub(crate) fn levels_mut(line: &mut Line) -> &mut [i8; BYTES] {
    // SAFETY: a line is 64 bytes, any of them is a number of 8 bits, and any four of them are an f32.
    unsafe { &mut *std::ptr::from_mut(line).cast() }
}

/// The numbers of lines, one after the other.
#[inline(always)]
pub(crate) fn flat(lines: &[Line]) -> &[f32] {
    // SAFETY: a line is its numbers and nothing else.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
}

/// The numbers of lines, one after the other.
#[inline(always)]
pub(crate) fn flat_mut(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is its numbers and nothing else, and any of them may be there.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
}

/// Operations on vectors of sixteen f32.
///
/// Two vectors that come from 32 neighbouring numbers hold those with even indices and those with
/// odd ones: so a bf16 pair is widened by a shift and a mask.
pub(crate) trait Lanes: Copy {
    /// Sixteen f32 in registers.
    type Vector: Copy;
    /// 32 bf16 in registers, as [`Lanes::add_pairs`] wants them.
    type Pairs: Copy;
    /// 64 weights of 8 bits in registers, as [`Lanes::dots`] wants them.
    type Weights: Copy;
    /// 64 activations of 8 bits in registers, as [`Lanes::dots`] wants them.
    type Activations: Copy;
    /// Whether there are registers for 24 vectors and more; else there are for 6.
    const MANY_REGISTERS: bool;

    /// Zero in every lane.
    fn zero(self) -> Self::Vector;
    /// One number in every lane.
    fn splat(self, value: f32) -> Self::Vector;
    /// The sixteen numbers of a line.
    fn load(self, line: &Line) -> Self::Vector;
    /// Puts all lanes into a line.
    fn store(self, line: &mut Line, vector: Self::Vector);
    /// a · b + c, rounded once.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// a · b in each lane, rounded once.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The even and the odd ones of 32 bf16 in little-endian order.
    fn widen_bf16(self, block: &[u8; 64]) -> [Self::Vector; 2];
    /// 32 bf16 in little-endian order.
    fn pairs(self, block: &[u8; 64]) -> Self::Pairs;
    /// c, and added to it the products of the odd ones, then those of the even ones, each
    /// rounded once. Where there is an instruction for it, numbers and sums nearer to zero
    /// than 2⁻¹²⁶ are zero.
    fn add_pairs(self, a: Self::Pairs, b: Self::Pairs, c: Self::Vector) -> Self::Vector;
    /// The even and the odd ones of 32 f16 in little-endian order.
    fn widen_f16(self, block: &[u8; 64]) -> [Self::Vector; 2];
    /// The even and the odd ones of 32 f32 in little-endian order.
    fn split_f32(self, block: &[u8; 128]) -> [Self::Vector; 2];
    /// Two bf16 in little-endian order: the first in the first eight lanes, the second in the others.
    fn widen_pair(self, pair: &[u8; 4]) -> Self::Vector;
    /// 64 weights of 8 bits, none of them -128.
    fn weights_i8(self, weights: &[u8; 64]) -> Self::Weights;
    /// 64 weights of 4 bits, from -8 to 7: byte i has weight i in its lower half and weight i + 32
    /// in its upper one, each with 8 added.
    fn weights_i4(self, weights: &[u8; 32]) -> Self::Weights;
    /// 64 activations of 8 bits, none of them -128.
    fn activations(self, line: &Line) -> Self::Activations;
    /// Lane i is the exact sum of the products of the numbers 4i to 4i + 3.
    fn dots(self, weights: Self::Weights, activations: Self::Activations) -> Self::Vector;
    /// The sum of each vector's lanes: lane i takes in lane i + 8, then i + 4, i + 2 and i + 1.
    fn sums(self, vectors: [Self::Vector; 4]) -> [f32; 4];
    /// [`Lanes::sums`] of several, which takes fewer shuffles where there are instructions for it.
    #[inline(always)]
    fn all_sums<const C: usize>(self, vectors: [[Self::Vector; 4]; C]) -> [[f32; 4]; C] {
        let mut all = [[0.0; 4]; C];
        for (sums, vectors) in all.iter_mut().zip(vectors) {
            *sums = self.sums(vectors);
        }
        all
    }
    /// Asks for the cache line `ahead` bytes after the start of `bytes`, in the second cache at
    /// least; it may lie anywhere.
    fn prefetch(self, bytes: &[u8], ahead: usize);
    /// Runs `task` compiled for these instructions, as a function of its own.
    fn run<T: Task>(self, task: T) -> T::Output;
}

/// A computation that is compiled once for each kind of vectors.
pub(crate) trait Task {
    /// What it results in.
    type Output;
    /// Computes. It and all that it calls with vectors must be `#[inline(always)]`, to be compiled with their
    /// instructions; closures are not unless they say so, so vectors pass through loops, not through `map`.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// The vector instructions that kernels run with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processor(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// With vectors for all but products of bf16.
    #[cfg(target_arch = "x86_64")]
    Amx(Amx, avx512::Avx512<true, false>),
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(avx512::Avx512<true, true>),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(avx512::Avx512<true, false>),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512<false, false>),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
    Portable(portable::Portable),
}

impl Processor {
    /// The best one that this processor has.
    pub(crate) fn best() -> Self {
        let portable = Self(Kind::Portable(portable::Portable));
        Self::available().into_iter().next().unwrap_or(portable)
    }

    /// Every one that this processor has, the best first; the last is portable.
    pub(crate) fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let bf16 = avx512::Avx512::detect_bf16();
            let (quick, slow): (Vec<_>, Vec<_>) = bf16.into_iter().partition(|lanes| lanes.is_quick());
            let amx = Amx::detect().zip(avx512::Avx512::detect_vnni());
            found.extend(amx.map(|(amx, lanes)| Kind::Amx(amx, lanes)));
            found.extend(quick.into_iter().map(Kind::Avx512Bf16));
            found.extend(avx512::Avx512::detect_vnni().map(Kind::Avx512Vnni));
            found.extend(slow.into_iter().map(Kind::Avx512Bf16));
            found.extend(avx512::Avx512::detect().map(Kind::Avx512));
            found.extend(avx2::Avx2::detect().map(Kind::Avx2));
        }
        #[cfg(target_arch = "aarch64")]
        found.extend(neon::Neon::detect().map(Kind::Neon));
        found.push(Kind::Portable(portable::Portable));
        found.into_iter().map(Self).collect()
    }

    /// Runs `task` with these instructions.
    #[inline]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Amx(_, lanes) => lanes.run(task),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(lanes) => lanes.run(task),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Vnni(lanes) => lanes.run(task),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(lanes) => lanes.run(task),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(lanes) => lanes.run(task),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(lanes) => lanes.run(task),
            Kind::Portable(lanes) => lanes.run(task),
        }
    }

    /// Whether it has an instruction for [`Lanes::add_pairs`].
    pub(crate) fn adds_pairs(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if matches!(self.0, Kind::Avx512Bf16(_)) {
            return true;
        }
        false
    }

    /// Whether it adds in the same order as another in a precision, and so comes to the same bits.
    #[cfg(test)]
    pub(crate) fn adds_as(self, other: Self, precision: Precision) -> bool {
        precision != Precision::Bf16 || self.amx() == other.amx()
    }

    /// The matrix unit, where it has one.
    pub(crate) fn amx(self) -> Option<Amx> {
        #[cfg(target_arch = "x86_64")]
        if let Kind::Amx(amx, _) = self.0 {
            return Some(amx);
        }
        None
    }

    /// The name of the instructions, for people.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Amx(..) => "AVX-512 VNNI, in bf16 AMX",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(_) => "AVX-512 BF16",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Vnni(_) => "AVX-512 VNNI",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "AVX2",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(_) => "NEON",
            Kind::Portable(_) => "portable",
        }
    }
}
