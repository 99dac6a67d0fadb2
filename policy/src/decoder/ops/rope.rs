//! Rotary position embedding on packed heads `[N·T, heads·head_dim]`.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{on_cpu, slice, task_rows};
use crate::decoder::layer::Rotary;
use crate::math;

/// Rotates every head of every row by the angles of the row's position.
pub(in crate::decoder) fn rope(x: &Tensor, head_dim: usize, rotary: &Rotary) -> Result<Tensor> {
    match &rotary.tables {
        Some((cos, sin)) if !on_cpu(x) => composed(x, head_dim, rotary, cos, sin),
        _ => {
            let (cos, sin) = (Arc::clone(&rotary.cos), Arc::clone(&rotary.sin));
            let op = Rope { length: rotary.length, head_dim, cos, sin, direction: 1.0 };
            x.contiguous()?.apply_op1(op)
        }
    }
}

pub(super) fn composed(
    x: &Tensor,
    head_dim: usize,
    rotary: &Rotary,
    cos: &Tensor,
    sin: &Tensor,
) -> Result<Tensor> {
    let half = head_dim / 2;
    let heads = x.reshape((rotary.sequences, rotary.length, (), head_dim))?;
    let (a, b) = (heads.narrow(D::Minus1, 0, half)?, heads.narrow(D::Minus1, half, half)?);
    let first = (a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?;
    let second = (b.broadcast_mul(cos)? + a.broadcast_mul(sin)?)?;
    Tensor::cat(&[&first, &second], D::Minus1)?.reshape(x.shape())
}

struct Rope {
    length: usize,
    head_dim: usize,
    cos: Arc<Vec<f32>>,
    sin: Arc<Vec<f32>>,
    direction: f32,
}

impl CustomOp1 for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut y = slice(x, layout)?.to_vec();
        let (rows, width) = layout.shape().dims2()?;
        let half = self.head_dim / 2;
        let task = task_rows(width);
        debug_assert!(rows.is_multiple_of(self.length));
        y.par_chunks_mut(task * width).enumerate().for_each(|(index, part)| {
            math::wide(|| {
                for (row, values) in part.chunks_exact_mut(width).enumerate() {
                    let start = (index * task + row) % self.length * half;
                    let (cos, sin) = (&self.cos[start..start + half], &self.sin[start..start + half]);
                    for head in values.chunks_exact_mut(self.head_dim) {
                        math::rotate(head, cos, sin, self.direction);
                    }
                }
            });
        });
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    /// A rotation's gradient is the rotation back.
    fn bwd(&self, _: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let back = Rope {
            length: self.length,
            head_dim: self.head_dim,
            cos: Arc::clone(&self.cos),
            sin: Arc::clone(&self.sin),
            direction: -self.direction,
        };
        grad.contiguous()?.apply_op1_no_bwd(&back).map(Some)
    }
}
