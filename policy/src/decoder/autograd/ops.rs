//! The layer's operations other than matrix products, of candle operations that have gradients.

use std::ops::Range;

use candle_core::{D, Device, Result, Tensor};

use super::layer::Rotary;
use crate::config::ModelConfig;

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
    sequences: &[Range<usize>],
) -> Result<Tensor> {
    let part = |run: &[Range<usize>]| {
        let (start, length) = (run[0].start, run[0].len());
        let rows = |x: &Tensor| x.narrow(0, start, run.len() * length);
        attend(&rows(q)?, &rows(k)?, &rows(v)?, config, (run.len(), length))
    };
    let runs = sequences.chunk_by(|a, b| a.len() == b.len());
    let parts = runs.map(part).collect::<Result<Vec<_>>>()?;
    Tensor::cat(&parts, 0)
}

/// `n` sequences of length `t`. The query heads of one key head are stacked as rows, so that keys and values are not
/// repeated.
fn attend(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    config: &ModelConfig,
    (n, t): (usize, usize),
) -> Result<Tensor> {
    let (heads, kv_heads, d) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    let group = heads / kv_heads;
    let q = q.reshape((n, t, kv_heads, group, d))?.permute((0, 2, 3, 1, 4))?;
    let q = q.contiguous()?.reshape((n * kv_heads, group * t, d))?;
    let split = |x: &Tensor| {
        x.reshape((n, t, kv_heads, d))?.transpose(1, 2)?.contiguous()?.reshape((n * kv_heads, t, d))
    };
    let (k, v) = (split(k)?, split(v)?);
    let scores = (q.matmul(&k.transpose(1, 2)?)? * (1.0 / (d as f64).sqrt()))?;
    let scores = scores.broadcast_add(&causal_mask(group, t, q.device())?)?;
    let weights = (scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach()))?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    let attended = weights.matmul(&v)?.reshape((n, kv_heads, group, t, d))?;
    attended.permute((0, 3, 1, 2, 4))?.contiguous()?.reshape((n * t, heads * d))
}

fn causal_mask(group: usize, length: usize, device: &Device) -> Result<Tensor> {
    let row = |t: usize| (0..length).map(move |s| if s > t { f32::NEG_INFINITY } else { 0.0 });
    let mask: Vec<f32> = (0..group * length).flat_map(|row_index| row(row_index % length)).collect();
    Tensor::from_vec(mask, (1, group * length, length), device)
}
