//! Vectorizable f32 kernels shared by training and generation.
//!
//! Sums run in a fixed order over [`LANES`] partial sums, and no fused multiply-add is used, so
//! that a result depends neither on the processor nor on the number of threads.

/// Number of partial sums of a reduction: one AVX-512 register of f32, two of AVX2.
pub(crate) const LANES: usize = 16;

/// Runs `kernel` compiled for the widest vector instructions that this processor has.
#[inline]
pub(crate) fn wide<R>(kernel: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(kernel)
}

/// Σ aᵢ·bᵢ over slices of equal length.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut rest = 0.0;
    for (a, b) in a_rest.iter().zip(b_rest) {
        rest += a * b;
    }
    fold(sums) + rest
}

/// Σ aᵢ, in lanes that are added last.
#[inline(always)]
pub(crate) fn sum(a: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (chunks, rest) = a.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    fold(sums) + rest.iter().sum::<f32>()
}

#[inline(always)]
fn fold(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Σ f(x) of several f at once, for vocabularies: f32 for a few elements of a lane, f64 from there
/// on, so that a large element does not swallow the many small ones beside it.
#[inline(always)]
pub(crate) fn sums<const N: usize>(values: &[f32], f: impl Fn(f32) -> [f32; N]) -> [f64; N] {
    /// Elements of a lane that are added in f32.
    const RUN: usize = 4;
    let mut totals = [[0.0f64; LANES]; N];
    for strip in values.chunks(RUN * LANES) {
        let mut runs = [[0.0f32; LANES]; N];
        let (chunks, rest) = strip.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                let terms = f(chunk[lane]);
                for which in 0..N {
                    runs[which][lane] += terms[which];
                }
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            let terms = f(*value);
            for which in 0..N {
                runs[which][lane] += terms[which];
            }
        }
        for (totals, runs) in totals.iter_mut().zip(&runs) {
            for (total, run) in totals.iter_mut().zip(runs) {
                *total += f64::from(*run);
            }
        }
    }
    totals.map(|lanes| lanes.iter().sum())
}

/// y += scale · x.
#[inline(always)]
pub(crate) fn axpy(y: &mut [f32], scale: f32, x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += scale * x;
    }
}

/// eˣ, within 2 units in the last place; x is clamped to ±87, NaN stays NaN.
///
/// Own code because the platform's `expf` neither vectorizes nor gives the same bits everywhere.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2^23 leaves the nearest integer in the low bits of the mantissa.
    const MAGIC: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 87.0);
    let shifted = x * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4f32;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5] {
        p = p * r + coefficient;
    }
    let p = p * r * r + r + 1.0;
    let scale = f32::from_bits((shifted.to_bits().wrapping_add(127)) << 23);
    p * scale
}

/// The logistic function 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Largest element; −∞ for an empty slice. A NaN is passed over here and found again by
/// whoever sums the exponentials.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut best = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            best[lane] = if chunk[lane] > best[lane] { chunk[lane] } else { best[lane] };
        }
    }
    let best = best.into_iter().fold(f32::NEG_INFINITY, f32::max);
    rest.iter().fold(best, |a, b| a.max(*b))
}

/// Turns scores into probabilities in place.
#[inline(always)]
pub(crate) fn softmax(scores: &mut [f32]) {
    let top = max(scores);
    for score in scores.iter_mut() {
        *score = exp(*score - top);
    }
    let scale = 1.0 / sum(scores);
    for score in scores.iter_mut() {
        *score *= scale;
    }
}

/// 1 / sqrt(mean(x²) + eps).
#[inline(always)]
pub(crate) fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt()
}

/// Rotates one head by the angles of its position: element i and i + half form a pair, as in transformers.
///
/// `head` has twice the length of `cos` and `sin`. `direction` is 1, or −1 to rotate back.
#[inline(always)]
pub(crate) fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32], direction: f32) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        let sin = direction * sin;
        let (x, y) = (*a, *b);
        *a = x * cos - y * sin;
        *b = y * cos + x * sin;
    }
}

/// cos and sin of `position · inv_freq`, the angle being rounded to f32 first, as in transformers.
pub(crate) fn rope_row(position: usize, inv_freq: &[f32], cos: &mut [f32], sin: &mut [f32]) {
    for ((cos, sin), freq) in cos.iter_mut().zip(sin).zip(inv_freq) {
        let angle = f64::from(position as f32 * freq);
        let (s, c) = libm::sincos(angle);
        (*cos, *sin) = (c as f32, s as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_agrees_with_the_exact_one() {
        let mut worst = 0.0f64;
        for i in -870_000..=870_000 {
            let x = i as f32 * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 2.5e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn reductions_cover_every_element() {
        for len in [0, 1, 15, 16, 17, 40] {
            let a: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let expected = a.iter().sum::<f32>();
            assert_eq!(sum(&a), expected);
            assert_eq!(dot(&a, &vec![1.0; len]), expected);
            assert_eq!(max(&a), if len == 0 { f32::NEG_INFINITY } else { len as f32 - 1.0 });
        }
    }

    #[test]
    fn small_terms_count_beside_a_large_one() {
        for len in [1, 15, 16, 17, 63, 64, 65, 1024, 1030] {
            let values: Vec<f32> = (0..len).map(|i| if i == len / 2 { 1.0 } else { 3e-8 }).collect();
            let exact: f64 = values.iter().map(|x| f64::from(*x)).sum();
            let [once, twice] = wide(|| {
                sums(
                    &values,
                    #[inline(always)]
                    |x| [x, 2.0 * x],
                )
            });
            assert!((once - exact).abs() < 1.2e-7, "{len}: {once} {exact}");
            assert_eq!(twice, 2.0 * once);
        }
        assert_eq!(sums(&[], |x| [x]), [0.0]);
    }

    #[test]
    fn wide_kernels_give_the_same_bits() {
        let a: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin()).collect();
        assert_eq!(wide(|| dot(&a, &a)).to_bits(), dot(&a, &a).to_bits());
        assert_eq!(wide(|| exp(a[7])).to_bits(), exp(a[7]).to_bits());
        assert_eq!(
            wide(|| sums(
                &a,
                #[inline(always)]
                |x| [exp(x)]
            )),
            sums(&a, |x| [exp(x)])
        );
    }
}
