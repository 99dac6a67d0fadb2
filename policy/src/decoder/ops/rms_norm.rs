//! RMS norm: y = x / sqrt(mean(x²) + ε) · w over the last `w.len()` elements.

use candle_core::{CpuStorage, CustomOp2, D, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{on_cpu, read, slice, task_rows};
use crate::math;

/// Normalises `x`, whose last dimension is a multiple of the length of `weight`: each piece of that length (a head, or
/// the whole row) is normalised on its own.
pub(in crate::decoder) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    if on_cpu(x) {
        x.contiguous()?.apply_op2(&weight.contiguous()?, RmsNorm { eps: eps as f32 })
    } else {
        composed(x, weight, eps)
    }
}

pub(super) fn composed(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let pieces = x.reshape(((), weight.elem_count()))?;
    let scale = (pieces.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?.recip()?;
    pieces.broadcast_mul(&scale)?.broadcast_mul(weight)?.reshape(x.shape())
}

struct RmsNorm {
    eps: f32,
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, w) = (slice(x, x_layout)?, slice(weight, weight_layout)?);
        let mut y = vec![0.0; x.len()];
        let task = task_rows(w.len()) * w.len();
        y.par_chunks_mut(task).zip(x.par_chunks(task)).for_each(|(y, x)| {
            math::wide(|| {
                for (y, x) in y.chunks_exact_mut(w.len()).zip(x.chunks_exact(w.len())) {
                    let scale = math::inverse_rms(x, self.eps);
                    for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
                        *y = x * scale * w;
                    }
                }
            });
        });
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (dx, dw) = read(x, |x| read(weight, |w| read(grad, |dy| Ok(backward(x, w, dy, self.eps)))))?;
        let dx = Tensor::from_vec(dx, x.shape(), x.device())?;
        let dw = Tensor::from_vec(dw, weight.shape(), x.device())?;
        Ok((Some(dx), Some(dw)))
    }
}

fn backward(x: &[f32], w: &[f32], dy: &[f32], eps: f32) -> (Vec<f32>, Vec<f32>) {
    let mut dx = vec![0.0; x.len()];
    let width = w.len();
    let task = task_rows(width) * width;
    let parts: Vec<Vec<f32>> = dx
        .par_chunks_mut(task)
        .zip(x.par_chunks(task))
        .zip(dy.par_chunks(task))
        .map(|((dx, x), dy)| {
            let mut dw = vec![0.0; width];
            math::wide(|| {
                let mut g = vec![0.0; width];
                for ((dx, x), dy) in
                    dx.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(dy.chunks_exact(width))
                {
                    let scale = math::inverse_rms(x, eps);
                    for i in 0..width {
                        g[i] = dy[i] * w[i];
                        dw[i] += dy[i] * x[i] * scale;
                    }
                    let shared = math::dot(&g, x) / width as f32 * scale * scale;
                    for i in 0..width {
                        dx[i] = scale * (g[i] - x[i] * shared);
                    }
                }
            });
            dw
        })
        .collect();
    let mut dw = vec![0.0; width];
    for part in &parts {
        math::axpy(&mut dw, 1.0, part);
    }
    (dx, dw)
}
