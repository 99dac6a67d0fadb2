//! Causal attention within each sequence, some queries at a time: memory is linear in the length,
//! as the weights of a block of queries are all that exists of them. Derivatives are written out,
//! so the way back makes the weights again and keeps no graph: with S = scale · Q Kᵀ, P =
//! softmax(S) and O = P V,
//!
//! ```text
//! dV = Pᵀ dO     dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O))     dQ = scale · dS K     dK = scale · dSᵀ Q
//! ```

use std::ops::Range;

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::softmax_last_dim;

use super::ops::{operand, product};
use super::shared::PackTensors;
use crate::model::config::ModelConfig;
use crate::training::decoder::compute::Compute;

/// Weights that exist at once, in every copy that is made of them: 0.5 GB a copy on a device,
/// where a block has to fill it, and 16 MB on the CPU. In tests so few that their short
/// sequences have several blocks.
const BLOCK_WEIGHTS: usize = if cfg!(test) { 1 << 8 } else { 1 << 22 };
const DEVICE_BLOCK_WEIGHTS: usize = 1 << 27;

/// What attention is computed from, and in.
pub(super) struct Attention<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) shared: &'a PackTensors<'a>,
    pub(super) compute: Compute,
}

/// Queries `[rows, heads · dim]`, keys and values `[rows, kv_heads · dim]`, and gradients of theirs.
pub(super) type AttentionTensors = [Tensor; 3];

/// Neighbours of equal length, which run together. The query heads that share keys and values are
/// rows of one matrix, so that these are not repeated.
struct Run {
    /// `[n · kv_heads, heads / kv_heads, t, dim]`, times the scale.
    q: Tensor,
    /// `[n · kv_heads, t, dim]`
    k: Tensor,
    /// `[n · kv_heads, t, dim]`
    v: Tensor,
    /// t, the tokens of each sequence of the run.
    length: usize,
    /// Queries of a block.
    block: usize,
}

impl Attention<'_> {
    /// What every query attends to, `[rows, heads · dim]`.
    pub(super) fn forward(&self, inputs: &AttentionTensors) -> Result<Tensor> {
        let of_run = |(rows, length)| {
            let run = self.run(inputs, rows, length)?;
            let of_block = |block| {
                let attended = product(
                    &operand(&self.weights(&run, &block)?, self.compute)?,
                    &run.v.narrow(1, 0, block.end)?,
                )?;
                attended.reshape((attended.dim(0)?, (), block.len(), self.config.head_dim))
            };
            self.as_rows(&Tensor::cat(&run.blocks().map(of_block).collect::<Result<Vec<_>>>()?, 2)?)
        };
        Tensor::cat(&self.runs().map(of_run).collect::<Result<Vec<_>>>()?, 0)
    }

    /// The gradients of the inputs, of what they attended to and the gradient of that.
    pub(super) fn backward(
        &self,
        inputs: &AttentionTensors,
        attended: &Tensor,
        d: &Tensor,
    ) -> Result<AttentionTensors> {
        let mut parts: [Vec<Tensor>; 3] = Default::default();
        for (rows, length) in self.runs() {
            let run = self.run(inputs, rows.clone(), length)?;
            let of_run = |x: &Tensor| self.by_heads(&x.narrow(0, rows.start, rows.len())?, length);
            let (attended, d) = (of_run(attended)?, of_run(d)?);
            let none = Tensor::zeros(run.k.shape(), d.dtype(), d.device())?;
            let (mut d_q, mut d_k, mut d_v) = (Vec::new(), none.clone(), none);
            for block in run.blocks() {
                let of_block =
                    |x: &Tensor| x.narrow(2, block.start, block.len())?.contiguous()?.flatten(1, 2);
                let (d, attended) = (of_block(&d)?, of_block(&attended)?);
                let (k, v) = (run.k.narrow(1, 0, block.end)?, run.v.narrow(1, 0, block.end)?);
                let q = of_block(&run.q)?;
                let weights = self.weights(&run, &block)?;
                let along = (&d * &attended)?.sum_keepdim(D::Minus1)?;
                let d = operand(&d, self.compute)?;
                let d_scores = (product(&d, &v.t()?)?.broadcast_sub(&along)? * &weights)?;
                let (d_scores, weights) =
                    (operand(&d_scores, self.compute)?, operand(&weights, self.compute)?);
                let d_of_q = product(&d_scores, &k)?;
                d_q.push(d_of_q.reshape((d_of_q.dim(0)?, (), block.len(), self.config.head_dim))?);
                let unseen = length - block.end;
                d_k = (d_k + product(&d_scores.t()?, &q)?.pad_with_zeros(1, 0, unseen)?)?;
                d_v = (d_v + product(&weights.t()?, &d)?.pad_with_zeros(1, 0, unseen)?)?;
            }
            parts[0].push((self.as_rows(&Tensor::cat(&d_q, 2)?)? * self.scale())?);
            parts[1].push(self.as_rows(&d_k.unsqueeze(1)?)?);
            parts[2].push(self.as_rows(&d_v.unsqueeze(1)?)?);
        }
        let [q, k, v] = parts.map(|parts| Tensor::cat(&parts, 0));
        Ok([q?, k?, v?])
    }

    /// Rows of each run, and the length of its sequences.
    fn runs(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        let runs = self.shared.sequences.chunk_by(|a, b| a.len() == b.len());
        runs.map(|run| (run[0].start..run[0].start + run.len() * run[0].len(), run[0].len()))
    }

    fn run(&self, inputs: &AttentionTensors, rows: Range<usize>, length: usize) -> Result<Run> {
        let [q, k, v] =
            inputs.each_ref().map(|x| self.by_heads(&x.narrow(0, rows.start, rows.len())?, length));
        let q = operand(&(q? * self.scale())?, self.compute)?;
        let [k, v] = [k, v].map(|x| operand(&x?.squeeze(1)?, self.compute));
        let most = if q.device().is_cpu() { BLOCK_WEIGHTS } else { DEVICE_BLOCK_WEIGHTS };
        let of_query = rows.len() / length * self.config.num_attention_heads * length;
        Ok(Run { q, k: k?, v: v?, length, block: (most / of_query).clamp(1, length) })
    }

    /// What the queries of a block weigh the keys by that they may see,
    /// `[n · kv_heads, heads / kv_heads · queries, keys]`.
    fn weights(&self, run: &Run, block: &Range<usize>) -> Result<Tensor> {
        let q = run.q.narrow(2, block.start, block.len())?.contiguous()?.flatten(1, 2)?;
        let scores = product(&q, &run.k.narrow(1, 0, block.end)?.t()?)?;
        // As few dimensions as can be: a kernel divides by each to find what an element is added to.
        let mask = mask(block, scores.device())?.reshape((1, ()))?;
        let masked = scores.reshape(((), mask.elem_count()))?.broadcast_add(&mask)?;
        softmax_last_dim(&masked.reshape(scores.shape())?)
    }

    fn scale(&self) -> f64 {
        1.0 / (self.config.head_dim as f64).sqrt()
    }

    /// Rows `[n · t, heads · dim]` as `[n · kv_heads, heads / kv_heads, t, dim]`; those of keys and
    /// values, which are `[n · t, kv_heads · dim]`, with a single head each.
    fn by_heads(&self, x: &Tensor, length: usize) -> Result<Tensor> {
        let (kv_heads, dim) = (self.config.num_key_value_heads, self.config.head_dim);
        let group = x.dim(1)? / (kv_heads * dim);
        x.reshape(((), length, kv_heads, group, dim))?.permute((0, 2, 3, 1, 4))?.contiguous()?.flatten(0, 1)
    }

    fn as_rows(&self, x: &Tensor) -> Result<Tensor> {
        let (_, group, length, dim) = x.dims4()?;
        let kv_heads = self.config.num_key_value_heads;
        let x = x.reshape(((), kv_heads, group, length, dim))?.permute((0, 3, 1, 2, 4))?.contiguous()?;
        x.reshape(((), kv_heads * group * dim))
    }
}

impl Run {
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (block, length) = (self.block, self.length);
        (0..length).step_by(block).map(move |first| first..(first + block).min(length))
    }
}

/// 0 where a query of the block may look, -∞ where it may not, `[queries, keys]`. Made on the
/// device: it is too large to be sent there often.
fn mask(block: &Range<usize>, device: &Device) -> Result<Tensor> {
    // Positions are far below 2^32.
    let queries = Tensor::arange(block.start as u32, block.end as u32, device)?.unsqueeze(1)?;
    let keys = Tensor::arange(0, block.end as u32, device)?.unsqueeze(0)?;
    let later = keys.broadcast_gt(&queries)?;
    let open = Tensor::zeros(later.shape(), DType::F32, device)?;
    later.where_cond(&Tensor::full(f32::NEG_INFINITY, later.shape(), device)?, &open)
}
