//! A layer's operations, of candle operations that have gradients.
//!
//! Matrix products may take bf16 operands ([`operand`]); everything comes and goes in f32. A cast
//! hands its gradient back in the type that it cast from, so what reaches a parameter is f32.

use candle_core::{D, DType, Result, Tensor};

use super::shared::Rotary;
use crate::training::decoder::compute::Compute;

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
