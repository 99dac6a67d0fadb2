//! A layer's operations, of candle operations that have gradients.
//!
//! Matrix products may take bf16 operands ([`operand`]); everything comes and goes in f32. A cast hands its gradient back in the type
//! that it cast from, so what reaches a parameter is f32.

use std::ops::Range;

use candle_core::{D, DType, Result, Tensor};

use super::shared::{Rotary, Shared};
use crate::config::ModelConfig;
use crate::decoder::compute::Compute;

/// `x` as an operand of matrix products. Cast once where it is used by several.
pub(super) fn operand(x: &Tensor, compute: Compute) -> Result<Tensor> {
    x.to_dtype(compute.dtype())
}

/// The product of two operands, in f32.
pub(super) fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.matmul(b)?.to_dtype(DType::F32)
}

/// y = x / sqrt(mean(x²) + ε) · w on pieces as long as `weight`: whole rows, or heads.
pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let pieces = x.reshape(((), weight.elem_count()))?;
    let scale = (pieces.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?.recip()?;
    pieces.broadcast_mul(&scale)?.broadcast_mul(weight)?.reshape(x.shape())
}

/// Rotates every head of every row by the row's angles.
pub(super) fn rope(x: &Tensor, head_dim: usize, rotary: &Rotary) -> Result<Tensor> {
    let half = head_dim / 2;
    let heads = x.reshape((x.dim(0)?, (), head_dim))?;
    let (a, b) = (heads.narrow(D::Minus1, 0, half)?, heads.narrow(D::Minus1, half, half)?);
    let first = (a.broadcast_mul(&rotary.cos)? - b.broadcast_mul(&rotary.sin)?)?;
    let second = (b.broadcast_mul(&rotary.cos)? + a.broadcast_mul(&rotary.sin)?)?;
    Tensor::cat(&[&first, &second], D::Minus1)?.reshape(x.shape())
}

/// Causal attention within each sequence, of queries `[rows, heads · dim]` over keys and values `[rows, kv_heads · dim]`.
/// Neighbours of equal length run together. Scores of whole sequences exist at once: memory is quadratic in the length.
pub(super) fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    config: &ModelConfig,
    shared: &Shared<'_>,
    compute: Compute,
) -> Result<Tensor> {
    let part = |run: &[Range<usize>]| {
        let (start, length) = (run[0].start, run[0].len());
        let rows = |x: &Tensor| operand(&x.narrow(0, start, run.len() * length)?, compute);
        attend(&rows(q)?, &rows(k)?, &rows(v)?, config, &shared.mask(length)?)
    };
    let runs = shared.sequences.chunk_by(|a, b| a.len() == b.len());
    let parts = runs.map(part).collect::<Result<Vec<_>>>()?;
    Tensor::cat(&parts, 0)
}

/// Sequences as long as `mask`. The query heads of one key head are stacked as rows, so that keys and values are not
/// repeated.
fn attend(q: &Tensor, k: &Tensor, v: &Tensor, config: &ModelConfig, mask: &Tensor) -> Result<Tensor> {
    let (heads, kv_heads, d) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    let (t, group) = (mask.dim(0)?, heads / kv_heads);
    let n = q.dim(0)? / t;
    let q = q.reshape((n, t, kv_heads, group, d))?.permute((0, 2, 3, 1, 4))?;
    let q = q.contiguous()?.reshape((n * kv_heads, group * t, d))?;
    let split = |x: &Tensor| {
        x.reshape((n, t, kv_heads, d))?.transpose(1, 2)?.contiguous()?.reshape((n * kv_heads, t, d))
    };
    let (k, v) = (split(k)?, split(v)?);
    let scores = (product(&q, &k.transpose(1, 2)?)? * (1.0 / (d as f64).sqrt()))?;
    let scores = scores.reshape((n * kv_heads, group, t, t))?.broadcast_add(mask)?;
    let weights = (scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach()))?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    let weights = weights.to_dtype(v.dtype())?.reshape((n * kv_heads, group * t, t))?;
    let attended = product(&weights, &v)?.reshape((n, kv_heads, group, t, d))?;
    attended.permute((0, 3, 1, 2, 4))?.contiguous()?.reshape((n * t, heads * d))
}
