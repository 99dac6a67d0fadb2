//! RMS norm of rows: y = x / sqrt(mean(x²) + ε) · w.

use rayon::prelude::*;

use super::task_rows;
use crate::math;

/// Normalises every row, several of them to a task.
pub(super) fn forward(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let width = weight.len();
    let task = task_rows(width) * width;
    y.par_chunks_mut(task).zip(x.par_chunks(task)).for_each(|(y, x)| {
        math::wide(
            #[inline(always)]
            || {
                for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                    row(x, weight, eps, y);
                }
            },
        );
    });
}

/// y = x / rms(x) · weight, for one row.
#[inline(always)]
pub(super) fn row(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let scale = math::inverse_rms(x, eps);
    for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
        *y = x * scale * w;
    }
}

/// Turns the gradient `d` of a normalised row into that of `x`, and adds the weight's to `d_weight`.
#[inline(always)]
pub(super) fn row_backward(x: &[f32], weight: &[f32], eps: f32, d: &mut [f32], d_weight: &mut [f32]) {
    let scale = math::inverse_rms(x, eps);
    for (((d, x), w), d_weight) in d.iter_mut().zip(x).zip(weight).zip(d_weight) {
        *d_weight += *d * x * scale;
        *d *= w;
    }
    let shared = math::dot(d, x) / x.len() as f32 * scale * scale;
    for (d, x) in d.iter_mut().zip(x) {
        *d = scale * (*d - x * shared);
    }
}

/// Adds the gradients of `x` and of the weight; `dy`, the gradient of the result, is used up.
pub(super) fn backward(
    x: &[f32],
    weight: &[f32],
    eps: f32,
    dy: &mut [f32],
    dx: &mut [f32],
    d_weight: &mut [f32],
) {
    let width = weight.len();
    let task = task_rows(width) * width;
    let rows = dx.par_chunks_mut(task).zip(dy.par_chunks_mut(task)).zip(x.par_chunks(task));
    let part = |((dx, dy), x): ((&mut [f32], &mut [f32]), &[f32])| {
        let mut d_weight = vec![0.0; width];
        math::wide(
            #[inline(always)]
            || {
                let rows =
                    dx.chunks_exact_mut(width).zip(dy.chunks_exact_mut(width)).zip(x.chunks_exact(width));
                for ((dx, dy), x) in rows {
                    row_backward(x, weight, eps, dy, &mut d_weight);
                    math::axpy(dx, 1.0, dy);
                }
            },
        );
        d_weight
    };
    let parts: Vec<Vec<f32>> = rows.map(part).collect();
    parts.iter().for_each(|part| math::axpy(d_weight, 1.0, part));
}
