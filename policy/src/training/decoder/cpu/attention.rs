//! Causal grouped-query attention within each sequence, in tiles.
//!
//! Scores exist for one tile of queries and keys at a time. The forward keeps a running softmax and
//! leaves the normaliser of every query; the backward computes the probabilities again from it.
//! Memory is linear in the length of a sequence.
//!
//! Queries (scaled already) and keys are slabs, see [`super::heads`]; values and results are rows.

mod backward;

pub(super) use backward::{Outputs, Results};

use rayon::prelude::*;
use std::ops::Range;

use super::matmul::{MatrixView, Onto, Threads, product};
use crate::math;

/// Rows of queries in a tile, those of one group of heads stacked.
const QUERY_ROWS: usize = 96;
/// Keys in a tile.
const KEY_ROWS: usize = 256;

/// The sides of an attention.
pub(super) struct AttentionShape<'a> {
    pub(super) sequences: &'a [Range<usize>],
    /// Rows of all sequences.
    pub(super) rows: usize,
    pub(super) kv_heads: usize,
    /// Query heads that read one key head.
    pub(super) group: usize,
    pub(super) dim: usize,
    /// Tokens in a tile of queries.
    pub(super) query_tokens: usize,
    pub(super) key_tokens: usize,
}

/// Rotated queries and keys, and values as projected.
#[derive(Clone, Copy)]
pub(super) struct AttentionInputs<'a> {
    /// Slabs `[kv_heads, rows, group, dim]`.
    pub(super) q: &'a [f32],
    /// Slabs `[kv_heads, rows, dim]`.
    pub(super) k: &'a [f32],
    /// Rows `[rows, kv_heads · dim]`.
    pub(super) v: &'a [f32],
}

/// Queries of one sequence, and where their results go.
struct Task<'a> {
    sequence: Range<usize>,
    /// Tokens, counted from the start of the sequence.
    queries: Range<usize>,
    out: &'a mut [f32],
    normalisers: &'a mut [f32],
}

/// Buffers of one thread.
struct Tiles {
    /// `[query rows, keys]`; weights take their place.
    scores: Vec<f32>,
    /// `[query rows, dim]`, not yet divided by `totals`.
    sums: Vec<f32>,
    tops: Vec<f32>,
    totals: Vec<f32>,
}

impl<'a> AttentionShape<'a> {
    pub(super) fn new(sequences: &'a [Range<usize>], kv_heads: usize, group: usize, dim: usize) -> Self {
        let rows = sequences.last().map_or(0, |last| last.end);
        let query_tokens = (QUERY_ROWS / group).max(8);
        Self { sequences, rows, kv_heads, group, dim, query_tokens, key_tokens: KEY_ROWS }
    }

    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    /// Stacked queries of these tokens of a sequence, `[tokens · group, dim]`.
    fn queries<'t>(&self, q: &'t [f32], head: usize, first: usize, tokens: usize) -> MatrixView<'t> {
        let span = self.group * self.dim;
        let start = (head * self.rows + first) * span;
        MatrixView::new(&q[start..start + tokens * span], tokens * self.group, self.dim)
    }

    /// Keys of a tile, `[tokens, dim]`.
    fn keys<'t>(&self, k: &'t [f32], head: usize, first: usize, tokens: usize) -> MatrixView<'t> {
        let start = (head * self.rows + first) * self.dim;
        MatrixView::new(&k[start..start + tokens * self.dim], tokens, self.dim)
    }

    /// Values of a tile, `[tokens, dim]`.
    fn values<'t>(&self, v: &'t [f32], head: usize, first: usize, tokens: usize) -> MatrixView<'t> {
        let width = self.kv_heads * self.dim;
        MatrixView::strided(&v[first * width + head * self.dim..], tokens, self.dim, width)
    }

    /// How many keys of a tile that begins at token `key` a stacked query row sees.
    #[inline(always)]
    fn visible(&self, first_query: usize, row: usize, key: usize, keys: usize) -> usize {
        (first_query + row / self.group + 1).saturating_sub(key).min(keys)
    }

    /// Writes results `[rows, heads · dim]` and normalisers `[rows, heads]`: log Σ exp
    /// of each query's scores.
    pub(super) fn forward(&self, inputs: AttentionInputs<'_>, out: &mut [f32], normalisers: &mut [f32]) {
        let mut tasks = Vec::new();
        let (mut out, mut normalisers) = (out, normalisers);
        for sequence in self.sequences {
            for start in (0..sequence.len()).step_by(self.query_tokens) {
                let queries = start..sequence.len().min(start + self.query_tokens);
                let (first, rest) = out.split_at_mut(queries.len() * self.heads() * self.dim);
                let (first_normalisers, rest_normalisers) =
                    normalisers.split_at_mut(queries.len() * self.heads());
                (out, normalisers) = (rest, rest_normalisers);
                let sequence = sequence.clone();
                tasks.push(Task { sequence, queries, out: first, normalisers: first_normalisers });
            }
        }
        tasks.into_par_iter().for_each_init(
            || self.tiles(),
            |tiles, mut task| {
                for head in 0..self.kv_heads {
                    self.attend(inputs, head, &task, tiles);
                    self.finish(head, &mut task, tiles);
                }
            },
        );
    }

    fn tiles(&self) -> Tiles {
        let rows = self.query_tokens * self.group;
        Tiles {
            scores: vec![0.0; rows * self.key_tokens],
            sums: vec![0.0; rows * self.dim],
            tops: vec![0.0; rows],
            totals: vec![0.0; rows],
        }
    }

    /// Runs the queries of one key head over all keys that they see.
    fn attend(&self, inputs: AttentionInputs<'_>, head: usize, task: &Task<'_>, tiles: &mut Tiles) {
        let (start, tokens) = (task.sequence.start, task.queries.len());
        let rows = tokens * self.group;
        let q = self.queries(inputs.q, head, start + task.queries.start, tokens);
        let sums = &mut tiles.sums[..rows * self.dim];
        let (tops, totals) = (&mut tiles.tops[..rows], &mut tiles.totals[..rows]);
        tops.fill(f32::NEG_INFINITY);
        totals.fill(0.0);
        for key in (0..task.queries.end).step_by(self.key_tokens) {
            let keys = self.key_tokens.min(task.queries.end - key);
            let scores = &mut tiles.scores[..rows * keys];
            product(q, self.keys(inputs.k, head, start + key, keys).t(), scores, Onto::Replace, Threads::One);
            math::wide(
                #[inline(always)]
                || {
                    let sums = sums.chunks_exact_mut(self.dim);
                    let states = tops.iter_mut().zip(totals.iter_mut()).zip(sums);
                    for (row, (scores, ((top, total), sum))) in
                        scores.chunks_exact_mut(keys).zip(states).enumerate()
                    {
                        let (seen, hidden) =
                            scores.split_at_mut(self.visible(task.queries.start, row, key, keys));
                        hidden.fill(0.0);
                        let factor = absorb(seen, top, total);
                        // The first tile finds in the sums what the last task left there.
                        if key > 0 && factor != 1.0 {
                            sum.iter_mut().for_each(|sum| *sum *= factor);
                        }
                    }
                },
            );
            let onto = if key == 0 { Onto::Replace } else { Onto::Add };
            let v = self.values(inputs.v, head, start + key, keys);
            product(MatrixView::new(scores, rows, keys), v, sums, onto, Threads::One);
        }
    }

    /// Divides by the totals, and places the results in their rows.
    fn finish(&self, head: usize, task: &mut Task<'_>, tiles: &Tiles) {
        let states = tiles.tops.iter().zip(&tiles.totals).zip(tiles.sums.chunks_exact(self.dim));
        for (row, ((top, total), sum)) in states.take(task.queries.len() * self.group).enumerate() {
            let at = row / self.group * self.heads() + head * self.group + row % self.group;
            let scale = 1.0 / total;
            let out = &mut task.out[at * self.dim..(at + 1) * self.dim];
            out.iter_mut().zip(sum).for_each(|(out, sum)| *out = sum * scale);
            task.normalisers[at] = (f64::from(*top) + libm::log(f64::from(*total))) as f32;
        }
    }
}

/// Turns more scores of a query into weights relative to the largest score so far; returns the
/// factor by which what was weighted before has to shrink.
#[inline(always)]
fn absorb(scores: &mut [f32], top: &mut f32, total: &mut f32) -> f32 {
    if scores.is_empty() {
        return 1.0;
    }
    let new_top = top.max(math::max(scores));
    let factor = math::exp(*top - new_top);
    scores.iter_mut().for_each(|score| *score = math::exp(*score - new_top));
    *total = *total * factor + math::sum(scores);
    *top = new_top;
    factor
}

#[cfg(test)]
mod tests;
