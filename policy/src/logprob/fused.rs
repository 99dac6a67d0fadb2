//! Fused CPU kernels: neither forward nor backward keeps a log-softmax of the whole vocabulary.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use crate::decoder::{read, slice};
use crate::math;

/// Maximum and log Σ exp(x − max) of one row.
#[inline(always)]
fn log_normaliser(row: &[f32]) -> (f32, f32) {
    let top = math::max(row);
    let mut total = 0.0f64;
    // Blocks keep the sum accurate for large vocabularies, and vectorized.
    for block in row.chunks(256) {
        let mut lanes = [0.0f32; math::LANES];
        for part in block.chunks(math::LANES) {
            for (lane, x) in lanes.iter_mut().zip(part) {
                *lane += math::exp(x - top);
            }
        }
        total += f64::from(math::sum(&lanes));
    }
    (top, libm::log(total) as f32)
}

pub(super) struct TokenLogProb {
    targets: Vec<u32>,
}

impl TokenLogProb {
    pub(super) fn new(targets: Vec<u32>, vocab: usize) -> Result<Self> {
        if let Some(target) = targets.iter().find(|target| **target as usize >= vocab) {
            bail!("target {target} is outside of the vocabulary of {vocab}");
        }
        Ok(Self { targets })
    }
}

impl CustomOp1 for TokenLogProb {
    fn name(&self) -> &'static str {
        "token_logprob"
    }

    fn cpu_fwd(&self, logits: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, vocab) = layout.shape().dims2()?;
        let rows = slice(logits, layout)?;
        let result: Vec<f32> = rows
            .par_chunks(vocab)
            .zip(&self.targets)
            .map(|(row, target)| {
                let (top, log_total) = math::wide(|| log_normaliser(row));
                row[*target as usize] - top - log_total
            })
            .collect();
        let shape = Shape::from(result.len());
        Ok((CpuStorage::F32(result), shape))
    }

    fn bwd(&self, logits: &Tensor, logprobs: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let (_, vocab) = logits.dims2()?;
        let d = read(logits, |rows| {
            read(logprobs, |logprobs| {
                read(grad, |grad| {
                    let mut d = vec![0.0; rows.len()];
                    d.par_chunks_mut(vocab)
                        .zip(rows.par_chunks(vocab))
                        .zip(&self.targets)
                        .zip(logprobs)
                        .zip(grad)
                        .for_each(|((((d, row), target), logprob), grad)| {
                            let target = *target as usize;
                            let normaliser = row[target] - logprob;
                            math::wide(|| {
                                for (d, x) in d.iter_mut().zip(row) {
                                    *d = -grad * math::exp(x - normaliser);
                                }
                            });
                            d[target] += grad;
                        });
                    Ok(d)
                })
            })
        })?;
        Tensor::from_vec(d, logits.shape(), logits.device()).map(Some)
    }
}

pub(super) struct Entropy;

impl CustomOp1 for Entropy {
    fn name(&self) -> &'static str {
        "entropy"
    }

    /// H = log Σ exp(x) − Σ p·x.
    fn cpu_fwd(&self, logits: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, vocab) = layout.shape().dims2()?;
        let rows = slice(logits, layout)?;
        let result: Vec<f32> = rows
            .par_chunks(vocab)
            .map(|row| {
                math::wide(|| {
                    let (top, log_total) = log_normaliser(row);
                    let mut mean = 0.0f64;
                    for block in row.chunks(256) {
                        let mut lanes = [0.0f32; math::LANES];
                        for part in block.chunks(math::LANES) {
                            for (lane, x) in lanes.iter_mut().zip(part) {
                                let shifted = x - top;
                                // A token ruled out with −∞ has p·log p = 0, not NaN.
                                if shifted > -87.0 {
                                    *lane += math::exp(shifted - log_total) * shifted;
                                }
                            }
                        }
                        mean += f64::from(math::sum(&lanes));
                    }
                    (f64::from(log_total) - mean) as f32
                })
            })
            .collect();
        let shape = Shape::from(result.len());
        Ok((CpuStorage::F32(result), shape))
    }

    /// dH/dxᵢ = −pᵢ (log pᵢ + H).
    fn bwd(&self, logits: &Tensor, entropies: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let (_, vocab) = logits.dims2()?;
        let d = read(logits, |rows| {
            read(entropies, |entropies| {
                read(grad, |grad| {
                    let mut d = vec![0.0; rows.len()];
                    d.par_chunks_mut(vocab).zip(rows.par_chunks(vocab)).zip(entropies).zip(grad).for_each(
                        |(((d, row), entropy), grad)| {
                            math::wide(|| {
                                let (top, log_total) = log_normaliser(row);
                                for (d, x) in d.iter_mut().zip(row) {
                                    let shifted = x - top;
                                    let logprob = shifted - log_total;
                                    let slope = -grad * math::exp(logprob) * (logprob + entropy);
                                    *d = if shifted > -87.0 { slope } else { 0.0 };
                                }
                            });
                        },
                    );
                    Ok(d)
                })
            })
        })?;
        Tensor::from_vec(d, logits.shape(), logits.device()).map(Some)
    }
}
