use super::super::simd::amx::Amx;
use super::*;
use half::{bf16, f16};

/// A repeatable number in ±1 that is not a short fraction.
fn noise(seed: usize) -> f32 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / 8_388_608.0 - 1.0
}

/// A weight in bytes, after `shift` bytes that do not belong to it, and what it is in f32.
struct Stored {
    bytes: Vec<u8>,
    shift: usize,
    dtype: DType,
    inputs: usize,
    values: Vec<f32>,
}

impl Stored {
    fn new(rows: usize, inputs: usize, dtype: DType, shift: usize) -> Self {
        let mut stored = Self { bytes: vec![0xff; shift], shift, dtype, inputs, values: Vec::new() };
        for value in (0..rows * inputs).map(noise) {
            let value = match dtype {
                DType::F32 => stored.push(value.to_le_bytes(), value),
                DType::F16 => stored.push(f16::from_f32(value).to_le_bytes(), f16::from_f32(value).to_f32()),
                DType::BF16 => {
                    stored.push(bf16::from_f32(value).to_le_bytes(), bf16::from_f32(value).to_f32())
                }
            };
            stored.values.push(value);
        }
        stored
    }

    fn push<const N: usize>(&mut self, bytes: [u8; N], value: f32) -> f32 {
        self.bytes.extend(bytes);
        value
    }

    fn rows(&self) -> WeightRows<'_> {
        WeightRows::new(&self.bytes[self.shift..], Format::Published(self.dtype), self.inputs)
    }

    /// The dot product in the promised order, number by number.
    fn output(&self, row: usize, x: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        let weights = &self.values[row * self.inputs..][..self.inputs];
        for i in (0..weights.len().next_multiple_of(2)).map(|i| i ^ 1).filter(|i| *i < weights.len()) {
            let lane = &mut lanes[i % 32 / 2];
            *lane = weights[i].mul_add(x[i], *lane);
        }
        for width in [8, 4, 2, 1] {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
        }
        lanes[0]
    }

    /// The dot product in the order of the matrix unit, number by number.
    fn in_steps(&self, row: usize, x: &[f32]) -> f32 {
        let weights = &self.values[row * self.inputs..][..self.inputs];
        weights.chunks(32).zip(x.chunks(32)).fold(0.0, |sum, (weights, x)| {
            let mut halves = [0.0f32; 2];
            for (i, (weight, x)) in weights.iter().zip(x).enumerate() {
                halves[i % 2] = weight.mul_add(*x, halves[i % 2]);
            }
            sum + (halves[0] + halves[1])
        })
    }

    fn outputs(&self, x: &[f32]) -> Vec<f32> {
        let rows = self.values.len() / self.inputs;
        x.chunks(self.inputs).flat_map(|x| (0..rows).map(|row| self.output(row, x))).collect()
    }
}

pub(super) fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| noise(i + 1_000_003) * 3.0).collect()
}

fn packed(x: &[f32], inputs: usize) -> Vec<Line> {
    packed_as(Packing::F32, x, inputs)
}

pub(super) fn packed_as(packing: Packing, x: &[f32], inputs: usize) -> Vec<Line> {
    let length = packing.lines(inputs);
    let mut lines = vec![Line([f32::NAN; 16]); x.len() / inputs * length];
    for (row, lines) in x.chunks(inputs).zip(lines.chunks_mut(length)) {
        packing.pack(row, lines);
    }
    lines
}

pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_tile_on_every_processor_gives_the_promised_bits() {
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        for (rows, inputs) in
            [(1, 1), (2, 31), (3, 32), (5, 33), (4, 64), (9, 127), (5, 1029), (19, 1056), (6, 2100)]
        {
            let weight = Stored::new(rows, inputs, dtype, 2);
            for tokens in (1..=7).chain([12, 17, 33, 38]) {
                let x = numbers(tokens * inputs);
                let expected = bits(&weight.outputs(&x));
                let lines = packed(&x, inputs);
                for processor in Processor::available() {
                    let mut y = vec![f32::NAN; tokens * rows];
                    let x = PackedActivations::new(&lines, inputs, Packing::F32);
                    let output = OutputMatrix::new(&mut y, rows);
                    Multiplier::new(processor).product(weight.rows(), 0..rows, x, output, OutputUpdate::Set);
                    let name = processor.name();
                    assert!(bits(&y) == expected, "{name} {dtype:?} {rows} x {inputs}, {tokens} tokens");
                }
            }
        }
    }
}

#[test]
fn bf16_activations_give_the_promised_bits_two_by_two_and_one_by_one() {
    for (rows, inputs) in
        [(1, 1), (2, 31), (3, 32), (5, 33), (4, 64), (6, 96), (9, 127), (19, 1056), (5, 2053), (6, 4200)]
    {
        let weight = Stored::new(rows, inputs, DType::BF16, 2);
        for tokens in (1..=8).chain([12, 17, 33, 38]) {
            let x = numbers(tokens * inputs);
            let rounded: Vec<f32> = x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect();
            let expected = bits(&weight.outputs(&rounded));
            for packing in [Packing::Pairs, Packing::Bf16] {
                let lines = packed_as(packing, &x, inputs);
                for processor in Processor::available() {
                    let mut y = vec![f32::NAN; tokens * rows];
                    let x = PackedActivations::new(&lines, inputs, packing);
                    let output = OutputMatrix::new(&mut y, rows);
                    Multiplier::new(processor).product(weight.rows(), 0..rows, x, output, OutputUpdate::Set);
                    let name = processor.name();
                    assert!(bits(&y) == expected, "{name} {packing:?} {rows} x {inputs}, {tokens} tokens");
                }
            }
        }
    }
}

/// The product of rows of a weight on the matrix unit: that of `x`, or added to `y`.
fn in_tiles(
    multiplier: &mut Multiplier,
    amx: Amx,
    weight: WeightRows<'_>,
    range: Range<usize>,
    x: &[f32],
    y: OutputMatrix<'_>,
    update: OutputUpdate,
) {
    let inputs = weight.inputs();
    let tokens = x.len() / inputs;
    let packing = Packing::Tiles(amx);
    let lines = packed_as(packing, x, inputs);
    let mut tiles = vec![Line([f32::NAN; 16]); transposed_lines(tokens, inputs)];
    let groups = lines.chunks(16 * packing.lines(inputs));
    for (rows, tiles) in groups.zip(tiles.chunks_mut(transposed_lines(16, inputs))) {
        transpose_group(amx, rows, inputs, tiles);
    }
    let x = PackedActivations::transposed(&tiles, tokens, inputs, amx);
    multiplier.product(weight, range, x, y, update);
}

fn rounded(x: &[f32]) -> Vec<f32> {
    x.iter().map(|x| bf16::from_f32(*x).to_f32()).collect()
}

/// Where there is none, there is nothing to test.
fn matrix_unit() -> Option<(Amx, Multiplier)> {
    let best = Processor::best();
    best.amx().map(|amx| (amx, Multiplier::new(best)))
}

#[test]
fn the_matrix_unit_gives_the_promised_bits() {
    let Some((amx, mut multiplier)) = matrix_unit() else { return };
    // One multiplier for all, the largest first: what is left in its memory counts nothing.
    for (rows, inputs) in [
        (203, 1056),
        (70, 2053),
        (513, 128),
        (64, 127),
        (37, 96),
        (32, 64),
        (5, 33),
        (16, 32),
        (2, 31),
        (1, 1),
    ] {
        let weight = Stored::new(rows, inputs, DType::BF16, 2);
        for tokens in [64, 50, 33, 32, 17, 16, 15, 2, 1] {
            let x = numbers(tokens * inputs);
            for update in [OutputUpdate::Set, OutputUpdate::Add] {
                let mut y = vec![0.25; tokens * rows];
                let begin = if update == OutputUpdate::Add { 0.25 } else { 0.0 };
                let expected: Vec<f32> = rounded(&x)
                    .chunks(inputs)
                    .flat_map(|x| (0..rows).map(|row| weight.in_steps(row, x) + begin))
                    .collect();
                let output = OutputMatrix::new(&mut y, rows);
                in_tiles(&mut multiplier, amx, weight.rows(), 0..rows, &x, output, update);
                assert!(bits(&y) == bits(&expected), "{rows} x {inputs}, {tokens} tokens, {update:?}");
            }
        }
    }
}

#[test]
fn large_products_on_the_matrix_unit_do_not_depend_on_how_they_are_cut_or_where_they_lie() {
    let Some((amx, mut multiplier)) = matrix_unit() else { return };
    // More sums than are kept in caches.
    let (rows, inputs, tokens) = (5_000, 64, 130);
    let x = numbers(tokens * inputs);
    let mut whole = vec![0.0; tokens * rows];
    let weight = Stored::new(rows, inputs, DType::BF16, 0);
    in_tiles(
        &mut multiplier,
        amx,
        weight.rows(),
        0..rows,
        &x,
        OutputMatrix::new(&mut whole, rows),
        OutputUpdate::Set,
    );
    for (token, row) in [(0, 0), (33, 2_501), (129, 4_999), (128, 4_991)] {
        let expected = weight.in_steps(row, &rounded(&x)[token * inputs..][..inputs]);
        assert_eq!(whole[token * rows + row].to_bits(), expected.to_bits());
    }
    let mut memory = vec![0; weight.bytes.len() + 2 * CACHE_LINE];
    for shift in [0, 2, 32] {
        let start = memory.as_ptr().align_offset(CACHE_LINE) + shift;
        let bytes = &mut memory[start..][..weight.bytes.len()];
        bytes.copy_from_slice(&weight.bytes);
        let rows_at = WeightRows::new(bytes, Format::Published(DType::BF16), inputs);
        for (count, range, stride) in [
            (130, 0..5_000, 5_008),
            (130, 0..5_000, 5_003),
            (31, 7..4_099, 4_100),
            (1, 32..96, 64),
            (16, 31..32, 1),
        ] {
            let mut y = vec![f32::NAN; count * stride];
            let output = OutputMatrix::new(&mut y, stride);
            in_tiles(
                &mut multiplier,
                amx,
                rows_at,
                range.clone(),
                &x[..count * inputs],
                output,
                OutputUpdate::Set,
            );
            for (y, whole) in y.chunks(stride).zip(whole.chunks(rows)) {
                let (y, beyond) = y.split_at(range.len());
                assert!(
                    bits(y) == bits(&whole[range.clone()]),
                    "{count} tokens, rows {range:?}, shift {shift}"
                );
                assert!(beyond.iter().all(|y| y.is_nan()), "what is beyond the columns is left alone");
            }
        }
    }
}

#[test]
fn on_the_matrix_unit_a_nan_stays_in_its_row_and_its_token_and_what_is_tiny_is_zero() {
    let Some((amx, mut multiplier)) = matrix_unit() else { return };
    let (rows, inputs, tokens) = (35, 70, 18);
    let mut weight = Stored::new(rows, inputs, DType::BF16, 0);
    let mut x = numbers(tokens * inputs);
    let mut run = |weight: &Stored, x: &[f32]| {
        let mut y = vec![0.0; tokens * rows];
        in_tiles(
            &mut multiplier,
            amx,
            weight.rows(),
            0..rows,
            x,
            OutputMatrix::new(&mut y, rows),
            OutputUpdate::Set,
        );
        y
    };
    let clean = run(&weight, &x);
    weight.bytes[(33 * inputs + 69) * 2..][..2].copy_from_slice(&bf16::NAN.to_le_bytes());
    x[17 * inputs + 69] = f32::INFINITY;
    for (i, (y, clean)) in run(&weight, &x).iter().zip(&clean).enumerate() {
        if i % rows == 33 || i / rows == 17 {
            assert!(!y.is_finite());
        } else {
            assert_eq!(y.to_bits(), clean.to_bits());
        }
    }
    let tiny = run(&Stored::new(rows, inputs, DType::BF16, 0), &vec![1e-39; tokens * inputs]);
    assert!(tiny.iter().all(|y| *y == 0.0));
}

#[test]
#[should_panic(expected = "x is packed for such weights")]
fn activations_of_another_precision_are_refused() {
    let weight = Stored::new(1, 64, DType::F32, 0);
    let lines = packed_as(Packing::Int8, &numbers(64), 64);
    let x = PackedActivations::new(&lines, 64, Packing::Int8);
    let mut y = [0.0];
    Multiplier::new(Processor::best()).product(
        weight.rows(),
        0..1,
        x,
        OutputMatrix::new(&mut y, 1),
        OutputUpdate::Set,
    );
}

#[test]
fn large_products_do_not_depend_on_how_they_are_cut() {
    let (rows, inputs, tokens) = (203, 1500, 70);
    let weight = Stored::new(rows, inputs, DType::BF16, 0);
    let x = numbers(tokens * inputs);
    let lines = packed(&x, inputs);
    let row_lines = Packing::F32.lines(inputs);
    let mut multiplier = Multiplier::new(Processor::best());
    let mut whole = vec![0.0; tokens * rows];
    let all = PackedActivations::new(&lines, inputs, Packing::F32);
    multiplier.product(weight.rows(), 0..rows, all, OutputMatrix::new(&mut whole, rows), OutputUpdate::Set);
    for token in [0, 33, 69] {
        for row in [0, 101, 202] {
            let expected = weight.output(row, &x[token * inputs..][..inputs]);
            assert_eq!(whole[token * rows + row].to_bits(), expected.to_bits());
        }
    }
    for count in 1..tokens {
        let x = PackedActivations::new(&lines[..count * row_lines], inputs, Packing::F32);
        let (first, last) = (count % 50, rows - count);
        let mut part = vec![0.0; count * (last - first)];
        let y = OutputMatrix::new(&mut part, last - first);
        multiplier.product(weight.rows(), first..last, x, y, OutputUpdate::Set);
        for (part, whole) in part.chunks(last - first).zip(whole.chunks(rows)) {
            assert!(bits(part) == bits(&whole[first..last]), "{count} tokens, rows {first}..{last}");
        }
    }
}

#[test]
fn threads_fill_columns_of_one_output() {
    let (rows, inputs, tokens) = (101, 96, 9);
    let weight = Stored::new(rows, inputs, DType::F32, 0);
    let x = numbers(tokens * inputs);
    let lines = packed(&x, inputs);
    let activations = PackedActivations::new(&lines, inputs, Packing::F32);
    let stride = rows + 5;
    let mut y = vec![7.0; tokens * stride];
    let output = OutputMatrix::new(&mut y, stride);
    std::thread::scope(|scope| {
        for range in [0..13, 13..64, 64..rows] {
            let weight = weight.rows();
            scope.spawn(move || {
                let columns = output.skip(range.start);
                Multiplier::new(Processor::best()).product(
                    weight,
                    range,
                    activations,
                    columns,
                    OutputUpdate::Set,
                );
            });
        }
    });
    let expected = weight.outputs(&x);
    for (y, expected) in y.chunks(stride).zip(expected.chunks(rows)) {
        assert_eq!(bits(&y[..rows]), bits(expected));
        assert_eq!(y[rows..], [7.0; 5], "what is beyond the columns is left alone");
    }
}

#[test]
fn an_update_adds_the_finished_product() {
    let (rows, inputs) = (6, 40);
    let weight = Stored::new(rows, inputs, DType::BF16, 0);
    for tokens in [1, 5] {
        let x = numbers(tokens * inputs);
        let before = numbers(tokens * rows);
        let expected: Vec<f32> =
            before.iter().zip(weight.outputs(&x)).map(|(y, product)| y + product).collect();
        let lines = packed(&x, inputs);
        for processor in Processor::available() {
            let mut y = before.clone();
            let x = PackedActivations::new(&lines, inputs, Packing::F32);
            let output = OutputMatrix::new(&mut y, rows);
            Multiplier::new(processor).product(weight.rows(), 0..rows, x, output, OutputUpdate::Add);
            assert_eq!(bits(&y), bits(&expected));
        }
    }
}

#[test]
fn the_order_of_summation_is_accurate() {
    let (rows, inputs) = (8, 4096);
    let weight = Stored::new(rows, inputs, DType::F32, 0);
    let x = numbers(inputs);
    for row in 0..rows {
        let pairs = weight.values[row * inputs..].iter().zip(&x);
        let products = pairs.map(|(w, x)| f64::from(*w) * f64::from(*x));
        let (exact, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p * p));
        assert!((f64::from(weight.output(row, &x)) - exact).abs() < 1e-6 * f64::sqrt(size));
    }
}

#[test]
fn a_nan_stays_in_its_row_and_its_token() {
    let (rows, inputs, tokens) = (7, 70, 8);
    let mut weight = Stored::new(rows, inputs, DType::F32, 0);
    let mut x = numbers(tokens * inputs);
    let clean = weight.outputs(&x);
    weight.bytes[(2 * inputs + 69) * 4..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    x[3 * inputs + 69] = f32::NAN;
    let lines = packed(&x, inputs);
    let mut y = vec![0.0; tokens * rows];
    let (x, output) = (PackedActivations::new(&lines, inputs, Packing::F32), OutputMatrix::new(&mut y, rows));
    Multiplier::new(Processor::best()).product(weight.rows(), 0..rows, x, output, OutputUpdate::Set);
    for (i, (y, clean)) in y.iter().zip(clean).enumerate() {
        if i % rows == 2 || i / rows == 3 {
            assert!(y.is_nan());
        } else {
            assert_eq!(y.to_bits(), clean.to_bits());
        }
    }
}

#[test]
fn nothing_is_done_for_no_rows_or_no_tokens() {
    let weight = Stored::new(3, 8, DType::BF16, 0);
    let lines = packed(&numbers(8), 8);
    let mut multiplier = Multiplier::new(Processor::best());
    let mut y = [5.0; 3];
    let output = OutputMatrix::new(&mut y, 3);
    multiplier.product(
        weight.rows(),
        2..2,
        PackedActivations::new(&lines, 8, Packing::F32),
        output,
        OutputUpdate::Set,
    );
    multiplier.product(
        weight.rows(),
        0..3,
        PackedActivations::new(&[], 8, Packing::F32),
        output,
        OutputUpdate::Set,
    );
    assert_eq!(y, [5.0; 3]);
}

#[test]
#[should_panic(expected = "y holds every output")]
fn an_output_that_is_too_small_is_refused() {
    let weight = Stored::new(3, 8, DType::BF16, 0);
    let lines = packed(&numbers(16), 8);
    let mut y = [0.0; 5];
    let output = OutputMatrix::new(&mut y, 3);
    let x = PackedActivations::new(&lines, 8, Packing::F32);
    Multiplier::new(Processor::best()).product(weight.rows(), 0..3, x, output, OutputUpdate::Set);
}
