//! Every operation on every kind of vectors that this processor has, against plain arithmetic.

use half::{bf16, f16};

use super::{BYTES, LANES, Lanes, Line, Processor, Task, levels_mut};

/// Runs each operation once and writes down the results.
struct All {
    a: Line,
    b: Line,
    c: Line,
    halves: [u8; 64],
    pairs: [[u8; 64]; 2],
    singles: [u8; 128],
    weights: [i8; BYTES],
    activations: Line,
}

#[derive(Debug, PartialEq)]
struct Results {
    zero: Line,
    fused: Line,
    product: Line,
    widened: [[Line; 2]; 3],
    pairs: Line,
    pair: Line,
    dots: [Line; 2],
    sums: [f32; 4],
}

impl Task for &All {
    type Output = Results;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Results {
        let line = |vector| {
            let mut line = Line([f32::NAN; LANES]);
            lanes.store(&mut line, vector);
            line
        };
        let [a, b, c] = [&self.a, &self.b, &self.c].map(|line| lanes.load(line));
        lanes.prefetch(&self.halves, usize::MAX);
        let activations = lanes.activations(&self.activations);
        let eight = lanes.weights_i8(&self.weights.map(i8::cast_unsigned));
        let four = lanes.weights_i4(self.halves.first_chunk().unwrap());
        Results {
            zero: line(lanes.zero()),
            fused: line(lanes.mul_add(a, b, c)),
            product: line(lanes.mul(a, b)),
            widened: [
                lanes.widen_bf16(&self.halves).map(line),
                lanes.widen_f16(&self.halves).map(line),
                lanes.split_f32(&self.singles).map(line),
            ],
            pairs: line(lanes.add_pairs(lanes.pairs(&self.pairs[0]), lanes.pairs(&self.pairs[1]), c)),
            pair: line(lanes.widen_pair(self.halves.first_chunk().unwrap())),
            dots: [line(lanes.dots(eight, activations)), line(lanes.dots(four, activations))],
            sums: lanes.sums([a, b, c, lanes.mul_add(a, b, c)]),
        }
    }
}

fn tree(line: &Line) -> f32 {
    let v = line.0;
    let eight: [f32; 8] = std::array::from_fn(|i| v[i] + v[i + 8]);
    let four: [f32; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

#[test]
fn every_kind_of_vectors_does_the_same_arithmetic() {
    // Numbers whose products and sums are rounded, of mixed sizes and signs.
    let line = |seed: i32| {
        Line(std::array::from_fn(|i| {
            (seed as f32 + i as f32 * 0.731).sin() * 10f32.powi((i as i32 * seed) % 5)
        }))
    };
    let (a, b, c) = (line(1), line(2), line(3));
    let singles: [f32; 32] = std::array::from_fn(|i| (i as f32 + 0.3).cos());
    // As bf16 and as f16 alike: small, large, negative, subnormal and infinite ones.
    let halves: [u16; 32] = std::array::from_fn(|i| match i {
        29 => 0x0001,
        30 => 0x8000,
        31 => 0x7c00,
        _ => (i as u16).wrapping_mul(2221) & 0xbbff,
    });
    // The largest products there are in the first half, with every sign; all kinds of numbers in the second.
    let weights: [i8; BYTES] = std::array::from_fn(|i| match i {
        ..32 => {
            if i / 4 % 2 == 0 {
                127
            } else {
                -127
            }
        }
        _ => (i * i * 29 % 255) as i8,
    });
    let weights = weights.map(|weight| weight.max(-127));
    let mut activations = Line::default();
    *levels_mut(&mut activations) = std::array::from_fn(|i| match i {
        ..32 => {
            if i / 8 % 2 == 0 {
                127
            } else {
                -127
            }
        }
        _ => (i * 41 % 255) as i8,
    });
    let activated = *levels_mut(&mut activations);
    let mut all =
        All { a, b, c, halves: [0; 64], pairs: [[0; 64]; 2], singles: [0; 128], weights, activations };
    all.halves.as_chunks_mut().0.iter_mut().zip(halves).for_each(|(to, half)| *to = half.to_le_bytes());
    all.singles.as_chunks_mut().0.iter_mut().zip(singles).for_each(|(to, single)| *to = single.to_le_bytes());

    // All of a size, so that every rounding shows.
    let pairs = [0.3f32, 1.7]
        .map(|by| std::array::from_fn::<_, 32, _>(|i| bf16::from_f32((i as f32 * by + 0.1).sin())));
    for (bytes, numbers) in all.pairs.iter_mut().zip(pairs) {
        bytes.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(to, number)| *to = number.to_le_bytes());
    }
    let add = |sum: f32, i: usize| libm::fmaf(pairs[0][i].to_f32(), pairs[1][i].to_f32(), sum);

    let fused = Line(std::array::from_fn(|i| libm::fmaf(a.0[i], b.0[i], c.0[i])));
    let split = |number: &dyn Fn(usize) -> f32| {
        [Line(std::array::from_fn(|i| number(2 * i))), Line(std::array::from_fn(|i| number(2 * i + 1)))]
    };
    let dots = |weight: &dyn Fn(usize) -> i32| {
        let product = |i: usize| weight(i) * i32::from(activated[i]);
        Line(std::array::from_fn(|lane| (4 * lane..4 * lane + 4).map(product).sum::<i32>() as f32))
    };
    let four = |i: usize| i32::from(all.halves[i % 32] >> (i / 32 * 4) & 15) - 8;
    assert_eq!(dots(&|i| i32::from(weights[i])).0[0], 4.0 * 127.0 * 127.0);
    let expected = Results {
        zero: Line::default(),
        fused,
        pairs: Line(std::array::from_fn(|lane| add(add(c.0[lane], 2 * lane + 1), 2 * lane))),
        product: Line(std::array::from_fn(|i| a.0[i] * b.0[i])),
        pair: Line(std::array::from_fn(|i| bf16::from_bits(halves[i / 8]).to_f32())),
        dots: [dots(&|i| i32::from(weights[i])), dots(&four)],
        widened: [
            split(&|i| bf16::from_bits(halves[i]).to_f32()),
            split(&|i| f16::from_bits(halves[i]).to_f32()),
            split(&|i| singles[i]),
        ],
        sums: [&a, &b, &c, &fused].map(tree),
    };
    for processor in Processor::available() {
        assert_eq!(processor.run(&all), expected, "{}", processor.name());
    }
}

#[test]
fn the_best_is_the_first_and_a_portable_one_is_always_there() {
    let available = Processor::available();
    assert_eq!(available[0].name(), Processor::best().name());
    assert_eq!(available.last().map(|last| last.name()), Some("portable"));
}
