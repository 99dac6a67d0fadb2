//! Final norm, output projection and scores, some rows at a time.

use candle_core::{D, Tensor, Var};

use super::ops;
use crate::training::decoder::scored::{Scores, Slopes};
use crate::training::decoder::{Decoder, DecoderError, Gradients};
use crate::training::packed::Target;

/// Logits that exist at once, in every copy that the graph makes of them: what bounds
/// memory for large vocabularies.
const PIECE_LOGITS: usize = 1 << 24;
/// The same off the CPU. With a vocabulary of 150,000 the other limit gives pieces of 110 rows: too
/// few to fill a GPU, and each piece adds a gradient as large as the projection.
const DEVICE_PIECE_LOGITS: usize = 1 << 26;

/// Targets in a piece.
fn piece(decoder: &Decoder) -> usize {
    let logits = if decoder.device.is_cpu() { PIECE_LOGITS } else { DEVICE_PIECE_LOGITS };
    (logits / decoder.config.vocab_size).max(1)
}

/// Rows of the residual stream.
fn gather(decoder: &Decoder, x: &Tensor, rows: impl Iterator<Item = usize>) -> Result<Tensor, DecoderError> {
    Ok(x.index_select(&indices(decoder, rows)?, 0)?)
}

fn indices(decoder: &Decoder, rows: impl Iterator<Item = usize>) -> Result<Tensor, DecoderError> {
    // Rows of a pack are far below 2^32.
    let rows: Vec<u32> = rows.map(|row| row as u32).collect();
    let count = rows.len();
    Ok(Tensor::from_vec(rows, count, &decoder.device)?)
}

fn logits_of(decoder: &Decoder, x: &Tensor) -> Result<Tensor, DecoderError> {
    let var = |index: usize| decoder.vars[index].1.as_tensor();
    let normed = ops::rms_norm(x, var(decoder.places.norm), decoder.config.rms_norm_eps)?;
    Ok(normed.matmul(&var(decoder.places.head).t()?)?)
}

/// Log-probs and entropies, `[targets]` each, with a graph.
fn scores_of(decoder: &Decoder, x: &Tensor, targets: &[Target]) -> Result<(Tensor, Tensor), DecoderError> {
    let logits = match decoder.temperature {
        1.0 => logits_of(decoder, x)?,
        temperature => (logits_of(decoder, x)? / f64::from(temperature))?,
    };
    let tokens: Vec<u32> = targets.iter().map(|target| target.token).collect();
    let tokens = Tensor::from_vec(tokens, (targets.len(), 1), &decoder.device)?;
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
    let logprobs = shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)?;
    let entropy = (logprobs.exp()? * &logprobs)?.sum(D::Minus1)?.neg()?;
    Ok((logprobs.gather(&tokens, 1)?.squeeze(1)?, entropy))
}

/// Logits of some rows of the residual stream `x`.
pub(super) fn logits(decoder: &Decoder, x: &Tensor, rows: &[usize]) -> Result<Vec<f32>, DecoderError> {
    let mut all = Vec::new();
    for rows in rows.chunks(piece(decoder)) {
        let x = gather(decoder, x, rows.iter().copied())?;
        all.extend(logits_of(decoder, &x)?.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(all)
}

/// Scores of the targets.
pub(super) fn score(decoder: &Decoder, x: &Tensor, targets: &[Target]) -> Result<Scores, DecoderError> {
    let mut scores = Scores::default();
    for targets in targets.chunks(piece(decoder)) {
        let x = gather(decoder, x, targets.iter().map(|target| target.row))?;
        let (logp, entropy) = scores_of(decoder, &x, targets)?;
        scores.logp.extend(logp.to_vec1::<f32>()?);
        scores.entropy.extend(entropy.to_vec1::<f32>()?);
    }
    Ok(scores)
}

/// Adds the gradients of norm and projection, and returns that of the residual stream.
pub(super) fn backward(
    decoder: &Decoder,
    x: &Tensor,
    slopes: Slopes<'_>,
    gradients: &mut Gradients,
) -> Result<Tensor, DecoderError> {
    let mut d = x.zeros_like()?;
    let step = piece(decoder);
    for (index, targets) in slopes.targets.chunks(step).enumerate() {
        let first = index * step;
        let host = |values: &[f32]| {
            Tensor::from_slice(&values[first..first + targets.len()], targets.len(), &decoder.device)
        };
        let rows = || targets.iter().map(|target| target.row);
        let x = Var::from_tensor(&gather(decoder, x, rows())?)?;
        let (logp, entropy) = scores_of(decoder, x.as_tensor(), targets)?;
        let mut loss = (logp * host(slopes.d_logp)?)?.sum_all()?;
        if let Some(d_entropy) = slopes.d_entropy {
            loss = (loss + (entropy * host(d_entropy)?)?.sum_all()?)?;
        }
        let mut found = loss.backward()?;
        for place in [decoder.places.norm, decoder.places.head] {
            let (name, var) = &decoder.vars[place];
            let missing = || DecoderError::MissingGradient { name: name.clone() };
            gradients.add(place, found.get(var).ok_or_else(missing)?)?;
        }
        let missing = || DecoderError::MissingGradient { name: "residual stream".into() };
        let d_rows = found.remove(&x).ok_or_else(missing)?;
        d = d.index_add(&indices(decoder, rows())?, &d_rows.detach(), 0)?;
    }
    Ok(d)
}
