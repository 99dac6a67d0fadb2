//! What this machine allows an engine: bytes read from memory in a second, and products made in one.

use pulp::{Arch, Simd, WithSimd};
use serde::Serialize;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes that are read: the bf16 weights of 0.6 billion parameters, far more than caches hold.
const BYTES: usize = 1_200_000_000;
/// Passes over them; the fastest counts.
const PASSES: usize = 5;
/// Vectors of a row: a tile's rows and columns lie in the nearest cache.
const DEPTH: usize = 32;
/// Tiles are multiplied for this long, and several times; the fastest counts.
const SPELL: Duration = Duration::from_millis(100);
/// Tiles between two looks at the clock.
const TILES: usize = 256;

/// What bounds whatever is computed here.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ProcessorCeilings {
    /// Memory read by all threads together, GB/s.
    pub(super) read_gb_s: f64,
    /// Multiplications and additions in f32 on operands in the cache, by all threads together, GFLOP/s.
    pub(super) f32_gflop_s: f64,
}

/// Measures with this many threads. For that time, the process holds 1.2 GB.
pub(super) fn measure(threads: usize) -> ProcessorCeilings {
    ProcessorCeilings { read_gb_s: read(BYTES, threads) / 1e9, f32_gflop_s: multiply(threads) / 1e9 }
}

/// Bytes a second that `threads` threads read, each its part; the fastest pass counts.
fn read(bytes: usize, threads: usize) -> f64 {
    let values = vec![1.0f32; bytes / size_of::<f32>()];
    let parts: Vec<&[f32]> = values.chunks(values.len().div_ceil(threads)).collect();
    let pass = || {
        let since = Instant::now();
        std::thread::scope(|scope| {
            for part in &parts {
                scope.spawn(|| black_box(Arch::new().dispatch(Sum(part))));
            }
        });
        since.elapsed().as_secs_f64()
    };
    let fastest = (0..PASSES).map(|_| pass()).fold(f64::INFINITY, f64::min);
    size_of_val(values.as_slice()) as f64 / fastest
}

/// Floating-point operations a second.
fn multiply(threads: usize) -> f64 {
    let spell = || {
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| Arch::new().dispatch(Products))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).sum::<f64>()
        })
    };
    (0..PASSES).map(|_| spell()).fold(0.0, f64::max)
}

/// Adds everything up: one addition for each load keeps the arithmetic out of the way.
struct Sum<'a>(&'a [f32]);

impl WithSimd for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        const STREAMS: usize = 8;
        let (vectors, _) = S::as_simd_f32s(self.0);
        let (chunks, _) = vectors.as_chunks::<STREAMS>();
        let mut sums = [simd.splat_f32s(0.0); STREAMS];
        for chunk in chunks {
            for (sum, vector) in sums.iter_mut().zip(chunk) {
                *sum = simd.add_f32s(*sum, *vector);
            }
        }
        sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum()
    }
}

/// Multiplies tiles for a [`SPELL`], and gives the operations a second.
struct Products;

impl WithSimd for Products {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        // As many sums as the registers hold beside a row's vector and a few of columns: 32
        // registers in AVX-512, 16 elsewhere.
        if S::F32_LANES >= 16 { tiles::<S, 4, 6>(simd) } else { tiles::<S, 4, 3>(simd) }
    }
}

#[inline(always)]
fn tiles<S: Simd, const ROWS: usize, const COLUMNS: usize>(simd: S) -> f64 {
    let ones = simd.splat_f32s(1.0);
    let (rows, columns) = ([[ones; ROWS]; DEPTH], [[ones; COLUMNS]; DEPTH]);
    let mut made = 0usize;
    let since = Instant::now();
    while since.elapsed() < SPELL {
        for _ in 0..TILES {
            let (rows, columns) = (black_box(&rows), black_box(&columns));
            let mut sums = [[simd.splat_f32s(0.0); COLUMNS]; ROWS];
            for (row, column) in rows.iter().zip(columns) {
                for (sums, row) in sums.iter_mut().zip(row) {
                    for (sum, column) in sums.iter_mut().zip(column) {
                        *sum = simd.mul_add_f32s(*row, *column, *sum);
                    }
                }
            }
            black_box(sums);
        }
        made += TILES;
    }
    let operations = made * ROWS * COLUMNS * DEPTH * S::F32_LANES * 2;
    operations as f64 / since.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_and_every_thread_multiplies() {
        let values = vec![1.0; 1000];
        assert_eq!(Arch::new().dispatch(Sum(&values[..896])), 896.0);
        let (one, rate) = (multiply(1), read(1 << 20, 3));
        assert!(one > 0.0 && one.is_finite(), "{one}");
        assert!(rate > 0.0 && rate.is_finite(), "{rate}");
    }
}
