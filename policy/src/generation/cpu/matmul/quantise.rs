//! From f32 to numbers of few bits with a scale for each block: the recipes of
//! [`crate::model::precision::Precision`].
//!
//! Every step is one rounded operation of f32, so that the same numbers come out on every processor.

use half::bf16;

/// Inputs that share a scale.
pub(super) const BLOCK: usize = 32;
/// Inputs of a step.
pub(super) const STEP: usize = 2 * BLOCK;
/// Bytes of a step's scales.
pub(super) const SCALES: usize = 4;
/// Bytes of a step in 8 bits.
pub(super) const INT8_BYTES: usize = SCALES + STEP;
/// Bytes of a step in 4 bits.
pub(super) const INT4_BYTES: usize = SCALES + STEP / 2;
/// Largest level of a number in 8 bits.
pub(super) const INT8: f32 = 127.0;
/// Largest level of a number in 4 bits, below zero; above there is one less.
const INT4: f32 = 8.0;

/// Block `which` of `row`; what is missing is zero.
#[inline(always)]
pub(super) fn block(row: &[f32], which: usize) -> [f32; BLOCK] {
    let rest = &row[row.len().min(which * BLOCK)..];
    if let Some(whole) = rest.first_chunk() {
        return *whole;
    }
    let mut block = [0.0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// The largest |x|: infinite if any x is, and not a number if any x is not a number.
#[inline(always)]
pub(super) fn magnitude(block: &[f32; BLOCK]) -> f32 {
    // As integers they are in the order of their size, and what is no number is beyond infinity.
    f32::from_bits(block.iter().map(|x| x.abs().to_bits()).fold(0, u32::max))
}

/// The number that [`magnitude`] is of; the positive one of two.
#[inline(always)]
fn extreme(block: &[f32; BLOCK]) -> f32 {
    let magnitude = magnitude(block);
    let positive = block.iter().fold(false, |found, x| found | (x.to_bits() == magnitude.to_bits()));
    if positive { magnitude } else { -magnitude }
}

/// A scale as it counts: zero where it is so small that there may be no inverse.
#[inline(always)]
pub(super) fn usable(scale: f32) -> f32 {
    if scale.abs() < f32::MIN_POSITIVE { 0.0 } else { scale }
}

/// The multiples of `scale`, from `least` to `most`, that are nearest to the numbers, even
/// ones where two are.
///
/// Where the scale is infinite or no number, the levels say nothing, and nothing that is multiplied
/// with it is a number.
#[inline(always)]
pub(super) fn levels(block: &[f32; BLOCK], scale: f32, least: f32, most: f32) -> [i8; BLOCK] {
    // Adding 1.5 · 2^23 leaves the nearest integer in the low bits of the mantissa.
    const MAGIC: f32 = 12_582_912.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let mut levels = [0; BLOCK];
    for (level, x) in levels.iter_mut().zip(block) {
        let near = (x * inverse).clamp(least, most) + MAGIC;
        *level = (near.to_bits() as u8).cast_signed();
    }
    levels
}

/// A step of weights in 8 bits: 64 of them, or fewer at the end of a row.
#[inline(always)]
pub(super) fn int8(weights: &[f32], step: &mut [u8; INT8_BYTES]) {
    let (scales, numbers) = step.split_at_mut(INT8_BYTES - STEP);
    for (which, numbers) in numbers.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let block = block(weights, which);
        let scale = bf16::from_f32(usable(magnitude(&block) / INT8));
        scales[2 * which..][..2].copy_from_slice(&scale.to_le_bytes());
        *numbers = levels(&block, scale.to_f32(), -INT8, INT8).map(i8::cast_unsigned);
    }
}

/// A step of weights in 4 bits, as [`int8`].
#[inline(always)]
pub(super) fn int4(weights: &[f32], step: &mut [u8; INT4_BYTES]) {
    let (scales, pairs) = step.split_at_mut(INT4_BYTES - STEP / 2);
    let mut both = [[0; BLOCK]; 2];
    for (which, numbers) in both.iter_mut().enumerate() {
        let block = block(weights, which);
        let scale = bf16::from_f32(usable(extreme(&block) / -INT4));
        scales[2 * which..][..2].copy_from_slice(&scale.to_le_bytes());
        *numbers = levels(&block, scale.to_f32(), -INT4, INT4 - 1.0);
    }
    for (i, pair) in pairs.iter_mut().enumerate() {
        let [lower, upper] = both.map(|numbers| numbers[i].wrapping_add(INT4 as i8).cast_unsigned() & 15);
        *pair = lower | upper << 4;
    }
}
