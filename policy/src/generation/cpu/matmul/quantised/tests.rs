use half::bf16;

use super::super::super::simd::Processor;
use super::super::activations::{PackedActivations, Packing};
use super::super::tests::{bits, numbers, packed_as};
use super::super::{Multiplier, OutputMatrix, OutputUpdate, WeightRows};
use super::*;
use crate::model::weights::{DType, RawTensor};

const FORMATS: [Format; 2] = [Format::Int8, Format::Int4];

fn quantised(weight: &WeightTensor, format: Format) -> Vec<u8> {
    if format == Format::Int4 { int4(weight) } else { int8(weight) }
}

/// A weight of these numbers in f32, as it comes out of a file.
fn tensor(values: &[f32], inputs: usize) -> WeightTensor {
    let shape = [values.len() / inputs, inputs];
    WeightTensor::unchecked(RawTensor::from_f32("weight", &shape, values, DType::F32))
}

/// Integers and scale of a block of 32 by the recipe, number by number.
fn block(
    values: &[f32],
    divisor: f32,
    range: std::ops::RangeInclusive<f32>,
    bf16_scale: bool,
) -> ([i32; 32], f32) {
    let largest = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let signed = if divisor < 0.0 && !values.contains(&largest) { -largest } else { largest };
    let mut scale = signed / divisor;
    if bf16_scale {
        scale = bf16::from_f32(scale).to_f32();
    }
    let level = |x: f32| (x * (1.0 / scale)).round_ties_even().clamp(*range.start(), *range.end()) as i32;
    let levels =
        std::array::from_fn(|i| values.get(i).map_or(0, |x| if scale == 0.0 { 0 } else { level(*x) }));
    (levels, scale)
}

fn weight_block(values: &[f32], format: Format) -> ([i32; 32], f32) {
    match format {
        Format::Int4 => block(values, -8.0, -8.0..=7.0, true),
        _ => block(values, 127.0, -127.0..=127.0, true),
    }
}

/// The product of a row of a weight with a row of activations, in the promised order.
fn output(weights: &[f32], x: &[f32], format: Format) -> f32 {
    let mut lanes = [0.0f32; 16];
    for (at, (weights, x)) in weights.chunks(32).zip(x.chunks(32)).enumerate() {
        let ((w, w_scale), (x, x_scale)) =
            (weight_block(weights, format), block(x, 127.0, -127.0..=127.0, false));
        for i in 0..8 {
            let sum: i32 = (4 * i..4 * i + 4).map(|i| w[i] * x[i]).sum();
            let lane = &mut lanes[at % 2 * 8 + i];
            *lane = (sum as f32).mul_add(w_scale * x_scale, *lane);
        }
    }
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

fn product(processor: Processor, weight: &[u8], format: Format, x: &[f32], inputs: usize) -> Vec<f32> {
    let weight = WeightRows::new(weight, format, inputs);
    let lines = packed_as(Packing::Int8, x, inputs);
    let mut y = vec![f32::NAN; x.len() / inputs * weight.len()];
    let output = OutputMatrix::new(&mut y, weight.len());
    let x = PackedActivations::new(&lines, inputs, Packing::Int8);
    Multiplier::new(processor).product(weight, 0..weight.len(), x, output, OutputUpdate::Set);
    y
}

#[test]
fn every_tile_on_every_processor_gives_the_promised_bits() {
    for format in FORMATS {
        for (rows, inputs) in [(1, 1), (2, 31), (3, 32), (5, 33), (4, 64), (9, 127), (19, 1056), (6, 2116)] {
            let values = numbers(rows * inputs);
            let weight = quantised(&tensor(&values, inputs), format);
            assert_eq!(weight.len(), rows * format.row_bytes(inputs));
            for tokens in (1..=6).chain([13, 33]) {
                let x: Vec<f32> = numbers(tokens * inputs + 7).split_off(7);
                let each = |x| values.chunks(inputs).map(move |weights| output(weights, x, format));
                let expected: Vec<f32> = x.chunks(inputs).flat_map(each).collect();
                for processor in Processor::available() {
                    let y = product(processor, &weight, format, &x, inputs);
                    let name = processor.name();
                    assert_eq!(bits(&y), bits(&expected), "{format:?} {rows}x{inputs} {tokens} {name}");
                }
            }
        }
    }
}

/// The integers of a row of whole steps, and of each block its scale.
fn decoded(row: &[u8], format: Format) -> (Vec<i8>, Vec<f32>) {
    let (mut levels, mut scales) = (Vec::new(), Vec::new());
    for step in row.chunks(format.row_bytes(STEP)) {
        let (pair, numbers) = step.split_at(SCALES);
        scales.extend(pair.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()));
        if format == Format::Int8 {
            levels.extend(numbers.iter().map(|byte| byte.cast_signed()));
        } else {
            levels.extend(numbers.iter().map(|byte| (byte & 15).cast_signed() - 8));
            levels.extend(numbers.iter().map(|byte| (byte >> 4).cast_signed() - 8));
        }
    }
    (levels, scales)
}

#[test]
fn a_quantised_weight_is_as_near_as_its_bits_allow() {
    let values = numbers(64 * 128);
    for (format, steps, most) in [(Format::Int8, 127.0, 127), (Format::Int4, 8.0, 7)] {
        let (levels, scales) = decoded(&quantised(&tensor(&values, 128), format), format);
        for ((block, levels), scale) in values.chunks(32).zip(levels.chunks(32)).zip(scales) {
            let largest = block.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            // Rounded to bf16, a scale is off by a 256th at most.
            assert!((scale.abs() * steps / largest - 1.0).abs() <= 1.0 / 256.0);
            for (level, x) in levels.iter().zip(block) {
                // What is beyond the last step on the side that has one less is a step away at most.
                let allowed = if format == Format::Int4 && *level == most { 1.04 } else { 0.501 };
                let off = (f32::from(*level) - x / scale).abs();
                assert!(off <= allowed, "{format:?}: {x} became {level} times {scale}");
            }
        }
    }
}

#[test]
fn what_is_representable_is_kept_as_it_is() {
    // Multiples of a power of two, with the ends of the range among them.
    let eight: Vec<f32> = (0..64).map(|i| ((i * 37 % 255) - 127) as f32 / 64.0).collect();
    let four: Vec<f32> = (0..64).map(|i| ((i * 5 % 16) - 8) as f32 / 64.0).collect();
    let one = |at: usize| -> Vec<f32> { (0..64).map(|i| if i == at { 127.0 } else { 0.0 }).collect() };
    for (format, mut values) in [(Format::Int8, eight), (Format::Int4, four)] {
        if format == Format::Int8 {
            (values[0], values[63]) = (-127.0 / 64.0, 127.0 / 64.0);
        }
        let weight = quantised(&tensor(&values, 64), format);
        for (at, value) in values.iter().enumerate() {
            let y = product(Processor::best(), &weight, format, &one(at), 64);
            assert_eq!(y, [value * 127.0], "{format:?} {at}");
        }
    }
}

#[test]
fn weights_and_activations_that_are_no_numbers_make_no_numbers_and_small_ones_make_zeros() {
    for format in FORMATS {
        for (wrong, is_zero) in
            [(f32::NAN, false), (f32::INFINITY, false), (-f32::INFINITY, false), (1e-40, true)]
        {
            let (good, mut bad) = (vec![1.0; 70], vec![0.0; 70]);
            bad[66] = wrong;
            let weight = quantised(&tensor(&[good.clone(), bad.clone()].concat(), 70), format);
            for processor in Processor::available() {
                let y = product(processor, &weight, format, &[good.clone(), bad.clone()].concat(), 70);
                assert!((y[0] - 70.0).abs() < 1.0, "{y:?}");
                for y in &y[1..] {
                    if is_zero { assert_eq!(*y, 0.0) } else { assert!(!y.is_finite(), "{wrong} {y}") }
                }
            }
        }
        // Large numbers stay numbers.
        let weight = quantised(&tensor(&[3e38; 32], 32), format);
        let y = product(Processor::best(), &weight, format, &[1e-3; 32], 32);
        assert!((y[0] / 9.6e36 - 1.0).abs() < 0.01, "{y:?}");
    }
}
