//! SwiGLU: silu(gate) · up.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{TASK_ELEMENTS, on_cpu, read, slice};
use crate::math;

/// silu(gate) · up, elementwise.
pub(in crate::decoder) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if on_cpu(gate) { gate.contiguous()?.apply_op2(&up.contiguous()?, SwiGlu) } else { composed(gate, up) }
}

pub(super) fn composed(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.silu()? * up
}

struct SwiGlu;

impl CustomOp2 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = (slice(gate, gate_layout)?, slice(up, up_layout)?);
        let mut y = vec![0.0; gate.len()];
        y.par_chunks_mut(TASK_ELEMENTS)
            .zip(gate.par_chunks(TASK_ELEMENTS))
            .zip(up.par_chunks(TASK_ELEMENTS))
            .for_each(|((y, gate), up)| {
                math::wide(|| {
                    for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
                        *y = g * math::sigmoid(*g) * u;
                    }
                });
            });
        Ok((CpuStorage::F32(y), gate_layout.shape().clone()))
    }

    fn bwd(
        &self,
        gate: &Tensor,
        up: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (dg, du) = read(gate, |g| read(up, |u| read(grad, |dy| Ok(backward(g, u, dy)))))?;
        let dg = Tensor::from_vec(dg, gate.shape(), gate.device())?;
        let du = Tensor::from_vec(du, gate.shape(), gate.device())?;
        Ok((Some(dg), Some(du)))
    }
}

fn backward(gate: &[f32], up: &[f32], dy: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let (mut dg, mut du) = (vec![0.0; gate.len()], vec![0.0; gate.len()]);
    dg.par_chunks_mut(TASK_ELEMENTS)
        .zip(du.par_chunks_mut(TASK_ELEMENTS))
        .zip(gate.par_chunks(TASK_ELEMENTS))
        .zip(up.par_chunks(TASK_ELEMENTS))
        .zip(dy.par_chunks(TASK_ELEMENTS))
        .for_each(|((((dg, du), gate), up), dy)| {
            math::wide(|| {
                for i in 0..gate.len() {
                    let s = math::sigmoid(gate[i]);
                    dg[i] = dy[i] * up[i] * s * (1.0 + gate[i] * (1.0 - s));
                    du[i] = dy[i] * gate[i] * s;
                }
            });
        });
    (dg, du)
}
