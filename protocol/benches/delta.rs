//! How fast deltas are made and applied, beside zstd and a plain copy in the same run.
//!
//! One chunk of 1 MiB in bf16, normally distributed with deviation 0.02, moved by two steps of up
//! to 1e-6 (*sparse*) or 1e-4 (*dense*), as AdamW does. Throughput is in bytes of policy.
//! `cargo bench -p echo-protocol --bench delta`.

use criterion::{BenchmarkId, Criterion, Throughput};
use echo_protocol::snapshot::delta::{Width, apply, encode};
use std::hint::black_box;

/// Elements of the chunk.
const ELEMENTS: usize = 512 << 10;

fn deltas(criterion: &mut Criterion) {
    for (name, rate) in [("sparse", 1e-6), ("dense", 1e-4)] {
        let (old, new) = chunks(rate);
        let delta = encode(&old, &new, Width::Two).expect("small updates make small deltas");
        println!("{name}: {} bytes of {}", delta.len(), new.len());
        let mut group = criterion.benchmark_group("delta");
        group.throughput(Throughput::Bytes(new.len() as u64));
        group.bench_function(BenchmarkId::new("encode", name), |bencher| {
            bencher.iter(|| encode(black_box(&old), black_box(&new), Width::Two));
        });
        group.bench_function(BenchmarkId::new("apply", name), |bencher| {
            bencher.iter(|| apply(black_box(&old).clone(), black_box(&delta), new.len()));
        });
        group.bench_function(BenchmarkId::new("raw zstd -1", name), |bencher| {
            bencher.iter(|| zstd::bulk::compress(black_box(&new), 1));
        });
        group.bench_function(BenchmarkId::new("copy", name), |bencher| {
            bencher.iter(|| black_box(&new).clone());
        });
        group.finish();
    }
}

/// A chunk and its successor after two steps of `rate` times a number between -1 and 1.
fn chunks(rate: f64) -> (Vec<u8>, Vec<u8>) {
    let mut state = 88_172_645_463_325_252_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for _ in 0..ELEMENTS {
        let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let weight = 0.02 * normal;
        let moved = weight + rate * (2.0 * uniform() - 1.0) + rate * (2.0 * uniform() - 1.0);
        old.extend_from_slice(&bf16(weight as f32));
        new.extend_from_slice(&bf16(moved as f32));
    }
    (old, new)
}

/// Rounded to the nearest, ties to even.
fn bf16(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    (((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16).to_le_bytes()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    deltas(&mut criterion);
    criterion.final_summary();
}
