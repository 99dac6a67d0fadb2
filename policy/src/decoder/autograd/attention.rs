//! Causal attention within each sequence, some queries at a time: memory is linear in the length, as the scores of a block of queries are all
//! that exists of them. The way back computes them again, block by block.

use std::ops::Range;

use candle_core::{D, Result, Tensor, Var};

use super::ops::{operand, product};
use super::shared::Shared;
use crate::config::ModelConfig;
use crate::decoder::compute::Compute;

/// Scores that exist at once, in every copy that the graph of a block makes of them: 0.5 GB a copy on a device, where a block has to fill
/// it, and 16 MB on the CPU.
const BLOCK_SCORES: usize = 1 << 22;
const DEVICE_BLOCK_SCORES: usize = 1 << 27;

/// What attention is computed from, and in.
pub(super) struct Attention<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) shared: &'a Shared<'a>,
    pub(super) compute: Compute,
}

/// Queries `[rows, heads · dim]`, keys and values `[rows, kv_heads · dim]`, and gradients of theirs.
pub(super) type Inputs = [Tensor; 3];

/// Neighbours of equal length, which run together: queries `[n, kv_heads, heads / kv_heads, t, dim]`, so that keys and values, `[n · kv_heads, t, dim]`,
/// are not repeated for the query heads that share them.
struct Run {
    inputs: Inputs,
    length: usize,
    /// Queries of a block.
    block: usize,
}

impl Attention<'_> {
    /// What every query attends to, `[rows, heads · dim]`, without a graph.
    pub(super) fn forward(&self, inputs: &Inputs) -> Result<Tensor> {
        let of_run = |rows: Range<usize>, run: Run| {
            let blocks = run.blocks().map(|block| self.block(&run.narrowed(&block)?, &block, run.length));
            let attended = Tensor::cat(&blocks.collect::<Result<Vec<_>>>()?, 3)?;
            self.as_rows(&attended, rows.len())
        };
        let parts = self.runs().map(|(rows, length)| of_run(rows.clone(), self.run(inputs, rows, length)?));
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
    }

    /// The gradients of the inputs, of that of what was attended to.
    pub(super) fn backward(&self, inputs: &Inputs, d: &Tensor) -> Result<Inputs> {
        let mut parts: [Vec<Tensor>; 3] = Default::default();
        for (rows, length) in self.runs() {
            let run = self.run(inputs, rows.clone(), length)?;
            let d = self.by_heads(&d.narrow(0, rows.start, rows.len())?, length)?;
            let (mut d_q, mut d_k, mut d_v) =
                (Vec::new(), run.inputs[1].zeros_like()?, run.inputs[2].zeros_like()?);
            for block in run.blocks() {
                let [q, k, v] = run.narrowed(&block)?;
                let vars = [Var::from_tensor(&q)?, Var::from_tensor(&k)?, Var::from_tensor(&v)?];
                let attended =
                    self.block(&vars.each_ref().map(|var| var.as_tensor().clone()), &block, length)?;
                let d = d.narrow(3, block.start, block.len())?;
                let mut found = (attended * d)?.sum_all()?.backward()?;
                let mut gradient = |var: &Var| {
                    found.remove(var).map_or_else(|| var.zeros_like(), |found| Ok(found.detach()))
                };
                d_q.push(gradient(&vars[0])?);
                let behind = length - block.end;
                d_k = (d_k + gradient(&vars[1])?.pad_with_zeros(1, 0, behind)?)?;
                d_v = (d_v + gradient(&vars[2])?.pad_with_zeros(1, 0, behind)?)?;
            }
            parts[0].push(self.as_rows(&Tensor::cat(&d_q, 3)?, rows.len())?);
            parts[1].push(self.kv_as_rows(&d_k, length)?);
            parts[2].push(self.kv_as_rows(&d_v, length)?);
        }
        let [q, k, v] = parts.map(|parts| Tensor::cat(&parts, 0));
        Ok([q?, k?, v?])
    }

    /// Rows of each run, and the length of its sequences.
    fn runs(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        let runs = self.shared.sequences.chunk_by(|a, b| a.len() == b.len());
        runs.map(|run| (run[0].start..run[0].start + run.len() * run[0].len(), run[0].len()))
    }

    fn run(&self, inputs: &Inputs, rows: Range<usize>, length: usize) -> Result<Run> {
        let [q, k, v] = inputs.each_ref().map(|x| x.narrow(0, rows.start, rows.len()));
        let q = self.by_heads(&q?, length)?;
        let keys = |x: Tensor| {
            let (kv_heads, dim) = (self.config.num_key_value_heads, self.config.head_dim);
            x.reshape(((), length, kv_heads, dim))?.transpose(1, 2)?.contiguous()?.reshape(((), length, dim))
        };
        let scores = if q.device().is_cpu() { BLOCK_SCORES } else { DEVICE_BLOCK_SCORES };
        let of_query = rows.len() / length * self.config.num_attention_heads * length;
        Ok(Run { inputs: [q, keys(k?)?, keys(v?)?], length, block: (scores / of_query).clamp(1, length) })
    }

    /// Of a block of queries, over the keys that they may see.
    fn block(&self, [q, k, v]: &Inputs, block: &Range<usize>, length: usize) -> Result<Tensor> {
        let (n, kv_heads, group, queries, dim) = q.dims5()?;
        let mask = self.shared.mask(length)?.narrow(0, block.start, queries)?.narrow(1, 0, block.end)?;
        let [q, k, v] = [q, k, v].map(|x| operand(x, self.compute));
        let (q, k, v) = (q?.reshape((n * kv_heads, group * queries, dim))?, k?, v?);
        let scores = (product(&q, &k.transpose(1, 2)?)? * (1.0 / (dim as f64).sqrt()))?;
        let scores = scores.reshape((n * kv_heads, group, queries, block.end))?.broadcast_add(&mask)?;
        let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
        let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
        let weights = operand(&weights, self.compute)?.reshape((n * kv_heads, group * queries, block.end))?;
        product(&weights, &v)?.reshape((n, kv_heads, group, queries, dim))
    }

    /// Rows `[n · t, heads · dim]` as `[n, kv_heads, heads / kv_heads, t, dim]`.
    fn by_heads(&self, x: &Tensor, length: usize) -> Result<Tensor> {
        let ModelConfig { num_attention_heads: heads, num_key_value_heads: kv_heads, head_dim: dim, .. } =
            *self.config;
        x.reshape(((), length, kv_heads, heads / kv_heads, dim))?.permute((0, 2, 3, 1, 4))?.contiguous()
    }

    fn as_rows(&self, x: &Tensor, rows: usize) -> Result<Tensor> {
        x.permute((0, 3, 1, 2, 4))?.contiguous()?.reshape((rows, ()))
    }

    fn kv_as_rows(&self, x: &Tensor, length: usize) -> Result<Tensor> {
        let (kv_heads, dim) = (self.config.num_key_value_heads, self.config.head_dim);
        x.reshape(((), kv_heads, length, dim))?.transpose(1, 2)?.contiguous()?.reshape(((), kv_heads * dim))
    }
}

impl Run {
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (block, length) = (self.block, self.length);
        (0..length).step_by(block).map(move |first| first..(first + block).min(length))
    }

    /// The queries of a block, and the keys and values up to its last.
    fn narrowed(&self, block: &Range<usize>) -> Result<Inputs> {
        let [q, k, v] = &self.inputs;
        let seen = |x: &Tensor| x.narrow(1, 0, block.end)?.contiguous();
        Ok([q.narrow(3, block.start, block.len())?.contiguous()?, seen(k)?, seen(v)?])
    }
}
