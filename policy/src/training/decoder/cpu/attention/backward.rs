//! The way back through attention. One task has one key head of one sequence, and so owns every sum
//! that it adds to.

use rayon::prelude::*;
use std::ops::Range;

use super::{AttentionInputs, AttentionShape};
use crate::math;
use crate::training::decoder::cpu::matmul::{MatrixView, Onto, Threads, product};

/// What the forward left, with the gradient of its result.
#[derive(Clone, Copy)]
pub(in crate::training::decoder::cpu) struct Results<'a> {
    /// `[rows, heads · dim]`
    pub(in crate::training::decoder::cpu) out: &'a [f32],
    /// Of the forward pass, `[rows, heads]`.
    pub(in crate::training::decoder::cpu) normalisers: &'a [f32],
    pub(in crate::training::decoder::cpu) d_out: &'a [f32],
}

/// Where gradients go: slabs, those of values `[kv_heads, rows, dim]` like those of keys.
pub(in crate::training::decoder::cpu) struct Outputs<'a> {
    pub(in crate::training::decoder::cpu) dq: &'a mut [f32],
    pub(in crate::training::decoder::cpu) dk: &'a mut [f32],
    pub(in crate::training::decoder::cpu) dv: &'a mut [f32],
}

struct Task<'a> {
    head: usize,
    sequence: Range<usize>,
    grads: Outputs<'a>,
}

/// Buffers of one thread, for one tile of queries.
struct Tiles {
    /// Probabilities, `[query rows, keys]`.
    p: Vec<f32>,
    /// Gradients of `p`, of the same shape.
    dp: Vec<f32>,
    /// Gradients of the results, stacked like the queries.
    d_out: Vec<f32>,
    /// Per query: Σ p · dp over its keys.
    means: Vec<f32>,
    normalisers: Vec<f32>,
}

impl AttentionShape<'_> {
    /// Gradients of queries, keys and values.
    pub(in crate::training::decoder::cpu) fn backward(
        &self,
        inputs: AttentionInputs<'_>,
        results: Results<'_>,
        grads: Outputs<'_>,
    ) {
        let mut tasks = Vec::new();
        let Outputs { mut dq, mut dk, mut dv } = grads;
        for head in 0..self.kv_heads {
            for sequence in self.sequences {
                let length = sequence.len() * self.dim;
                let (a, rest_q) = dq.split_at_mut(length * self.group);
                let (b, rest_k) = dk.split_at_mut(length);
                let (c, rest_v) = dv.split_at_mut(length);
                (dq, dk, dv) = (rest_q, rest_k, rest_v);
                let grads = Outputs { dq: a, dk: b, dv: c };
                tasks.push(Task { head, sequence: sequence.clone(), grads });
            }
        }
        tasks.into_par_iter().for_each_init(
            || Tiles::new(self),
            |tiles, mut task| {
                task.grads.dk.fill(0.0);
                task.grads.dv.fill(0.0);
                for start in (0..task.sequence.len()).step_by(self.query_tokens) {
                    let queries = start..task.sequence.len().min(start + self.query_tokens);
                    tiles.stack(self, results, &task, &queries);
                    self.retrace(inputs, &mut task, &queries, tiles);
                }
            },
        );
    }

    /// Adds what one tile of queries contributes.
    fn retrace(
        &self,
        inputs: AttentionInputs<'_>,
        task: &mut Task<'_>,
        queries: &Range<usize>,
        tiles: &mut Tiles,
    ) {
        let (head, dim) = (task.head, self.dim);
        let rows = queries.len() * self.group;
        let first = task.sequence.start;
        let q = self.queries(inputs.q, head, first + queries.start, queries.len());
        let d_out = MatrixView::new(&tiles.d_out[..rows * dim], rows, dim);
        let (means, normalisers) = (&tiles.means[..rows], &tiles.normalisers[..rows]);
        let span = self.group * dim;
        let dq = &mut task.grads.dq[queries.start * span..queries.end * span];
        for key in (0..queries.end).step_by(self.key_tokens) {
            let keys = self.key_tokens.min(queries.end - key);
            let (p, dp) = (&mut tiles.p[..rows * keys], &mut tiles.dp[..rows * keys]);
            let k = self.keys(inputs.k, head, first + key, keys);
            let v = self.values(inputs.v, head, first + key, keys);
            product(q, k.t(), p, Onto::Replace, Threads::One);
            product(d_out, v.t(), dp, Onto::Replace, Threads::One);
            math::wide(
                #[inline(always)]
                || {
                    let rows =
                        p.chunks_exact_mut(keys).zip(dp.chunks_exact_mut(keys)).zip(means).zip(normalisers);
                    for (row, (((p, dp), mean), normaliser)) in rows.enumerate() {
                        let seen = self.visible(queries.start, row, key, keys);
                        for (p, dp) in p[..seen].iter_mut().zip(&mut dp[..seen]) {
                            *p = math::exp(*p - normaliser);
                            *dp = *p * (*dp - mean);
                        }
                        p[seen..].fill(0.0);
                        dp[seen..].fill(0.0);
                    }
                },
            );
            let (p, ds) = (MatrixView::new(p, rows, keys), MatrixView::new(dp, rows, keys));
            let tile = key * dim..(key + keys) * dim;
            product(p.t(), d_out, &mut task.grads.dv[tile.clone()], Onto::Add, Threads::One);
            product(ds.t(), q, &mut task.grads.dk[tile], Onto::Add, Threads::One);
            let onto = if key == 0 { Onto::Replace } else { Onto::Add };
            product(ds, k, dq, onto, Threads::One);
        }
    }
}

impl Tiles {
    fn new(shape: &AttentionShape<'_>) -> Self {
        let rows = shape.query_tokens * shape.group;
        let zeros = |width: usize| vec![0.0; rows * width];
        Self {
            p: zeros(shape.key_tokens),
            dp: zeros(shape.key_tokens),
            d_out: zeros(shape.dim),
            means: zeros(1),
            normalisers: zeros(1),
        }
    }

    /// Gathers what the queries of a tile have to do with, from their rows.
    fn stack(
        &mut self,
        shape: &AttentionShape<'_>,
        results: Results<'_>,
        task: &Task<'_>,
        queries: &Range<usize>,
    ) {
        let (group, dim) = (shape.group, shape.dim);
        let states = self.d_out.chunks_exact_mut(dim).zip(&mut self.means).zip(&mut self.normalisers);
        for (row, ((d_out, mean), normaliser)) in states.take(queries.len() * group).enumerate() {
            let token = task.sequence.start + queries.start + row / group;
            let at = token * shape.heads() + task.head * group + row % group;
            let place = at * dim..(at + 1) * dim;
            d_out.copy_from_slice(&results.d_out[place.clone()]);
            // Σ p · dp over the keys is the same as the result times its gradient.
            *mean = math::dot(d_out, &results.out[place]);
            *normaliser = results.normalisers[at];
        }
    }
}
