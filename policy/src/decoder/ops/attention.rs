//! Causal grouped-query attention on packed heads.

use candle_core::{CpuStorage, CustomOp3, D, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{on_cpu, read, slice};
use crate::config::ModelConfig;
use crate::decoder::layer::Rotary;
use crate::math;

/// Longest sequence that the fused kernel takes. Beyond it matrix products win over its dot products.
const FUSED_MAX_LENGTH: usize = 256;

/// Attention of queries `[N·T, heads·D]` over keys and values `[N·T, kv_heads·D]`, scaled by 1/√D, each token seeing
/// itself and those before it in its sequence. Query head h reads key head h / (heads / kv_heads).
pub(in crate::decoder) fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    config: &ModelConfig,
    rotary: &Rotary,
) -> Result<Tensor> {
    let op = Attention {
        sequences: rotary.sequences,
        length: rotary.length,
        heads: config.num_attention_heads,
        kv_heads: config.num_key_value_heads,
        head_dim: config.head_dim,
    };
    if on_cpu(q) && op.length <= FUSED_MAX_LENGTH {
        q.contiguous()?.apply_op3(&k.contiguous()?, &v.contiguous()?, op)
    } else {
        composed(q, k, v, &op)
    }
}

pub(super) struct Attention {
    pub(super) sequences: usize,
    pub(super) length: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
}

/// The query heads of one key head are stacked as rows, so that keys and values are not repeated.
pub(super) fn composed(q: &Tensor, k: &Tensor, v: &Tensor, op: &Attention) -> Result<Tensor> {
    let Attention { sequences: n, length: t, heads, kv_heads, head_dim: d } = *op;
    let group = heads / kv_heads;
    let q = q.reshape((n, t, kv_heads, group, d))?.permute((0, 2, 3, 1, 4))?.contiguous()?.reshape((
        n * kv_heads,
        group * t,
        d,
    ))?;
    let split = |x: &Tensor| {
        x.reshape((n, t, kv_heads, d))?.transpose(1, 2)?.contiguous()?.reshape((n * kv_heads, t, d))
    };
    let (k, v) = (split(k)?, split(v)?);
    let scores = (q.matmul(&k.transpose(1, 2)?)? * (1.0 / (d as f64).sqrt()))?;
    let scores = scores.broadcast_add(&causal_mask(group, t, q.device())?)?;
    let weights = (scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach()))?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    weights
        .matmul(&v)?
        .reshape((n, kv_heads, group, t, d))?
        .permute((0, 3, 1, 2, 4))?
        .contiguous()?
        .reshape((n * t, heads * d))
}

fn causal_mask(group: usize, length: usize, device: &Device) -> Result<Tensor> {
    let row = |t: usize| (0..length).map(move |s| if s > t { f32::NEG_INFINITY } else { 0.0 });
    let mask: Vec<f32> = (0..group * length).flat_map(|row_index| row(row_index % length)).collect();
    Tensor::from_vec(mask, (1, group * length, length), device)
}

impl Attention {
    fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Range of head `h` within row `t` of one sequence whose rows are `width` wide.
    fn head(&self, t: usize, h: usize, width: usize) -> std::ops::Range<usize> {
        let start = t * width + h * self.head_dim;
        start..start + self.head_dim
    }

    /// Probabilities of token `t` over tokens 0..=t.
    #[inline(always)]
    fn weights(&self, q: &[f32], k: &[f32], t: usize, h: usize, p: &mut [f32]) {
        let kv = h / (self.heads / self.kv_heads);
        let scale = 1.0 / (self.head_dim as f32).sqrt();
        let query = &q[self.head(t, h, self.q_width())];
        for (s, p) in p.iter_mut().enumerate() {
            *p = math::dot(query, &k[self.head(s, kv, self.kv_width())]) * scale;
        }
        math::softmax(p);
    }

    #[inline(always)]
    fn forward_sequence(&self, q: &[f32], k: &[f32], v: &[f32], out: &mut [f32]) {
        let mut p = vec![0.0; self.length];
        for h in 0..self.heads {
            let kv = h / (self.heads / self.kv_heads);
            for t in 0..self.length {
                let p = &mut p[..=t];
                self.weights(q, k, t, h, p);
                let out = &mut out[self.head(t, h, self.q_width())];
                for (s, p) in p.iter().enumerate() {
                    math::axpy(out, *p, &v[self.head(s, kv, self.kv_width())]);
                }
            }
        }
    }

    #[inline(always)]
    fn backward_sequence(&self, inputs: [&[f32]; 4], grads: [&mut [f32]; 3]) {
        let ([q, k, v, dy], [dq, dk, dv]) = (inputs, grads);
        let scale = 1.0 / (self.head_dim as f32).sqrt();
        let (mut p, mut dp) = (vec![0.0; self.length], vec![0.0; self.length]);
        for h in 0..self.heads {
            let kv = h / (self.heads / self.kv_heads);
            for t in 0..self.length {
                let (p, dp) = (&mut p[..=t], &mut dp[..=t]);
                self.weights(q, k, t, h, p);
                let row = self.head(t, h, self.q_width());
                let (query, dy) = (&q[row.clone()], &dy[row.clone()]);
                for (s, dp) in dp.iter_mut().enumerate() {
                    let key = self.head(s, kv, self.kv_width());
                    *dp = math::dot(dy, &v[key.clone()]);
                    math::axpy(&mut dv[key], p[s], dy);
                }
                let mean = math::dot(p, dp);
                let dq = &mut dq[row];
                for s in 0..=t {
                    let key = self.head(s, kv, self.kv_width());
                    let ds = p[s] * (dp[s] - mean) * scale;
                    math::axpy(dq, ds, &k[key.clone()]);
                    math::axpy(&mut dk[key], ds, query);
                }
            }
        }
    }

    fn backward(&self, q: &[f32], k: &[f32], v: &[f32], dy: &[f32]) -> [Vec<f32>; 3] {
        let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
        let (wide, narrow) = (self.length * self.q_width(), self.length * self.kv_width());
        dq.par_chunks_mut(wide)
            .zip(dk.par_chunks_mut(narrow))
            .zip(dv.par_chunks_mut(narrow))
            .enumerate()
            .for_each(|(n, ((dq, dk), dv))| {
                let (a, b) = (n * wide..(n + 1) * wide, n * narrow..(n + 1) * narrow);
                let inputs = [&q[a.clone()], &k[b.clone()], &v[b], &dy[a]];
                math::wide(|| self.backward_sequence(inputs, [dq, dk, dv]));
            });
        [dq, dk, dv]
    }
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "causal_attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (q, k, v) = (slice(q, q_layout)?, slice(k, k_layout)?, slice(v, v_layout)?);
        let mut out = vec![0.0; q.len()];
        let (wide, narrow) = (self.length * self.q_width(), self.length * self.kv_width());
        out.par_chunks_mut(wide).enumerate().for_each(|(n, out)| {
            let (a, b) = (n * wide..(n + 1) * wide, n * narrow..(n + 1) * narrow);
            math::wide(|| self.forward_sequence(&q[a], &k[b.clone()], &v[b], out));
        });
        Ok((CpuStorage::F32(out), q_layout.shape().clone()))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [dq, dk, dv] =
            read(q, |q| read(k, |k| read(v, |v| read(grad, |dy| Ok(self.backward(q, k, v, dy))))))?;
        let tensor = |values, like: &Tensor| Tensor::from_vec(values, like.shape(), like.device()).map(Some);
        Ok((tensor(dq, q)?, tensor(dk, k)?, tensor(dv, v)?))
    }
}
