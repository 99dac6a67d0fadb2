//! Differentiable log-probabilities and entropies of next-token distributions.

mod fused;

use candle_core::{D, DType, Result, Tensor};

use crate::decoder::on_cpu;
use crate::error::DecoderError;
use fused::{Entropy, TokenLogProb};

/// Log-probability of each target under the logits of its position.
///
/// `logits` is `[N, T, V]`, `targets` is `[N, T]` (u32), the result `[N, T]` in f32: element (n, t) is
/// log softmax(logits[n, t])[targets[n, t]]. For next-token log-probs, position t's target is token t + 1: see
/// [`next_tokens`]. Stable for logits of any finite size: the maximum is subtracted first.
///
/// # Errors
/// When the shapes do not fit, a target is outside of the vocabulary, or the device runs out of memory.
pub fn token_logprobs(logits: &Tensor, targets: &Tensor) -> std::result::Result<Tensor, DecoderError> {
    let (n, t, v) = logits.dims3()?;
    let rows = logits.to_dtype(DType::F32)?.reshape((n * t, v))?;
    let targets = targets.to_dtype(DType::U32)?.reshape(n * t)?;
    let result = if on_cpu(&rows) {
        rows.contiguous()?.apply_op1(TokenLogProb::new(targets.to_vec1()?, v)?)?
    } else {
        let picked = rows.gather(&targets.reshape((n * t, 1))?.contiguous()?, 1)?;
        (picked - log_sum_exp(&rows)?)?
    };
    Ok(result.reshape((n, t))?)
}

/// Entropy in nats of the distribution at each position: logits `[N, T, V]` to `[N, T]` in f32.
///
/// # Errors
/// When the shape does not fit or the device runs out of memory.
pub fn entropy(logits: &Tensor) -> std::result::Result<Tensor, DecoderError> {
    let (n, t, v) = logits.dims3()?;
    let rows = logits.to_dtype(DType::F32)?.reshape((n * t, v))?;
    let result = if on_cpu(&rows) {
        rows.contiguous()?.apply_op1(Entropy)?
    } else {
        let logprobs = rows.broadcast_sub(&log_sum_exp(&rows)?)?;
        (logprobs.exp()? * &logprobs)?.sum(D::Minus1)?.neg()?
    };
    Ok(result.reshape((n, t))?)
}

/// Targets for next-token log-probs: `[N, T]` ids to `[N, T]`, position t holding token t + 1. The last position, which
/// has no successor, holds 0 and must be masked.
///
/// # Errors
/// When `ids` does not have two dimensions.
pub fn next_tokens(ids: &Tensor) -> std::result::Result<Tensor, DecoderError> {
    let (n, t) = ids.dims2()?;
    let last = Tensor::zeros((n, 1), ids.dtype(), ids.device())?;
    if t <= 1 {
        return Ok(last.narrow(1, 0, t)?);
    }
    Ok(Tensor::cat(&[&ids.narrow(1, 1, t - 1)?, &last], 1)?)
}

/// `[M, V]` → `[M, 1]`.
fn log_sum_exp(rows: &Tensor) -> Result<Tensor> {
    let top = rows.max_keepdim(D::Minus1)?.detach();
    rows.broadcast_sub(&top)?.exp()?.sum_keepdim(D::Minus1)?.log()? + top
}

#[cfg(test)]
mod tests;
