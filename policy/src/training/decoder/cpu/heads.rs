//! From rows of heads to one slab per key head, normalised and rotated; and back.
//!
//! A slab holds what one key head has to do with, `[rows, group, dim]`: the head itself (group of
//! one), or all query heads that read it. Attention then works on matrices without gaps.

use rayon::prelude::*;

use super::{rms_norm, task_rows};
use crate::math;
use crate::training::decoder::batch::Batch;

/// How the heads of one projection are placed.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    pub(super) batch: &'a Batch,
    pub(super) slabs: usize,
    /// Heads that lie together in a slab.
    pub(super) group: usize,
    pub(super) dim: usize,
    /// What every value is multiplied by.
    pub(super) scale: f32,
    /// Weight of the norm of each head, in families that have one.
    pub(super) norm: Option<&'a [f32]>,
    pub(super) eps: f32,
}

impl Heads<'_> {
    fn width(&self) -> usize {
        self.slabs * self.group * self.dim
    }

    /// Where the heads of a row begin in its slab.
    fn place(&self, slab: usize, row: usize) -> usize {
        (slab * self.batch.rows() + row) * self.group * self.dim
    }

    /// Rows `[rows, slabs · group · dim]` to slabs.
    pub(super) fn forward(&self, x: &[f32], slabs: &mut [f32]) {
        let (width, span) = (self.width(), self.group * self.dim);
        let task = task_rows(span);
        slabs.par_chunks_mut(self.batch.rows() * span).enumerate().for_each(|(slab, rows)| {
            rows.par_chunks_mut(task * span).enumerate().for_each(|(index, rows)| {
                math::wide(
                    #[inline(always)]
                    || {
                        for (row, y) in rows.chunks_exact_mut(span).enumerate() {
                            let row = index * task + row;
                            let start = row * width + slab * span;
                            self.forward_row(row, &x[start..start + span], y);
                        }
                    },
                );
            });
        });
    }

    #[inline(always)]
    fn forward_row(&self, row: usize, x: &[f32], y: &mut [f32]) {
        let (cos, sin) = self.batch.angles(row, self.dim / 2);
        for (x, y) in x.chunks_exact(self.dim).zip(y.chunks_exact_mut(self.dim)) {
            match self.norm {
                Some(weight) => rms_norm::row(x, weight, self.eps, y),
                None => y.copy_from_slice(x),
            }
            math::rotate(y, cos, sin, 1.0);
            y.iter_mut().for_each(|y| *y *= self.scale);
        }
    }

    /// Replaces the rows `x` that [`Heads::forward`] was given by their gradient, given that of the
    /// slabs, and returns the gradient of the norm's weight.
    pub(super) fn backward(&self, d_slabs: &[f32], x: &mut [f32]) -> Vec<f32> {
        let (width, span) = (self.width(), self.group * self.dim);
        let task = task_rows(width);
        let part = |(index, rows): (usize, &mut [f32])| {
            let mut d_norm = vec![0.0; self.dim];
            let mut d = vec![0.0; self.dim];
            math::wide(
                #[inline(always)]
                || {
                    for (row, x) in rows.chunks_exact_mut(width).enumerate() {
                        let row = index * task + row;
                        for (slab, x) in x.chunks_exact_mut(span).enumerate() {
                            let start = self.place(slab, row);
                            self.backward_row(row, &d_slabs[start..start + span], x, &mut d, &mut d_norm);
                        }
                    }
                },
            );
            d_norm
        };
        let parts: Vec<Vec<f32>> = x.par_chunks_mut(task * width).enumerate().map(part).collect();
        let mut d_norm = vec![0.0; self.dim];
        parts.iter().for_each(|part| math::axpy(&mut d_norm, 1.0, part));
        d_norm
    }

    #[inline(always)]
    fn backward_row(&self, row: usize, dy: &[f32], x: &mut [f32], d: &mut [f32], d_norm: &mut [f32]) {
        let (cos, sin) = self.batch.angles(row, self.dim / 2);
        for (x, dy) in x.chunks_exact_mut(self.dim).zip(dy.chunks_exact(self.dim)) {
            d.iter_mut().zip(dy).for_each(|(d, dy)| *d = dy * self.scale);
            // A rotation's gradient is the rotation back.
            math::rotate(d, cos, sin, -1.0);
            if let Some(weight) = self.norm {
                rms_norm::row_backward(x, weight, self.eps, d, d_norm);
            }
            x.copy_from_slice(d);
        }
    }

    /// Slabs to rows, as they are.
    pub(super) fn rows(&self, slabs: &[f32], x: &mut [f32]) {
        let (width, span) = (self.width(), self.group * self.dim);
        let task = task_rows(width);
        x.par_chunks_mut(task * width).enumerate().for_each(|(index, rows)| {
            for (row, x) in rows.chunks_exact_mut(width).enumerate() {
                for (slab, x) in x.chunks_exact_mut(span).enumerate() {
                    let start = self.place(slab, index * task + row);
                    x.copy_from_slice(&slabs[start..start + span]);
                }
            }
        });
    }
}
