//! Attention of packed tokens over the pages of their sequences.
//!
//! A task is a key-value head and a span of tokens. Tokens that see the same page, as the samples
//! of a group see their prompt, are worked on together, so that a page is read once for all of
//! them. Every score is a chain over the dimensions of the head, and every output a chain over the
//! positions, whoever shares the page: so nothing depends on what else is computed.

use std::ops::Range;

use super::matmul::{Packing, packed_index};
use super::shared_slice::SharedSlice;
use super::simd::{Abreast, LANES, Lanes, Line, Task, flat, flat_mut};
use crate::generation::cpu::kv_cache::{CpuPageShape, PAGE_LINES, PAGE_TOKENS};
use crate::math;

/// Tokens of a task, at most.
pub(super) const SPAN: usize = 16;
/// Scores of a task, at most, unless a single token sees more: 4 MiB.
const SCORES: usize = 1 << 20;
/// Vectors of an output that grow together.
const VECTORS: usize = 2;

/// A token's place: which sequence it continues, and how many tokens of it, itself included, it sees.
#[derive(Clone, Copy)]
pub(super) struct VisibleTokens {
    pub(super) sequence: usize,
    pub(super) visible: usize,
}

/// What all tasks of a pass share.
pub(super) struct Sights<'a> {
    /// What each token of the pass sees.
    pub(super) tokens: Vec<VisibleTokens>,
    /// For each sequence its pages.
    pub(super) pages: Vec<Vec<SharedSlice<'a, Line>>>,
    pub(super) shape: CpuPageShape,
    pub(super) head_dim: usize,
    /// Query heads that share a key-value head.
    pub(super) group: usize,
}

/// Buffers of one thread, which grow to what the longest sequence needs.
#[derive(Default)]
pub(super) struct AttentionScratch {
    queries: Vec<f32>,
    scores: Vec<Line>,
    outputs: Vec<Line>,
}

/// The attention of one key-value head and one span of tokens.
pub(super) struct Attend<'a> {
    pub(super) sights: &'a Sights<'a>,
    pub(super) layer: usize,
    pub(super) kv_head: usize,
    /// At most [`Sights::span`] of the pass's tokens.
    pub(super) span: Range<usize>,
    /// Rows of `query_stride` numbers, one a token, which begin with its query heads.
    pub(super) queries: SharedSlice<'a>,
    pub(super) query_stride: usize,
    /// Rows of all heads' outputs, one a token, packed in f32.
    pub(super) outputs: SharedSlice<'a, Line>,
    pub(super) scratch: &'a mut AttentionScratch,
}

impl Sights<'_> {
    /// Tokens of a task.
    pub(super) fn span(&self) -> usize {
        let longest = self.tokens.iter().map(|token| token.visible).max().unwrap_or(1);
        (SCORES / (self.group * longest)).clamp(1, SPAN)
    }
}

impl Task for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Sights { shape, head_dim: dim, group, .. } = *self.sights;
        let tokens = &self.sights.tokens[self.span.clone()];
        let rows = tokens.len() * group;
        let longest = tokens.iter().map(|token| token.visible).max().unwrap_or_default();
        let score_lines = longest.div_ceil(PAGE_TOKENS) * PAGE_LINES;
        let out_lines = shape.head_lines();
        let AttentionScratch { queries, scores, outputs } = self.scratch;
        let queries = sized(queries, rows * dim);
        let scores = sized(scores, rows * score_lines);
        let outputs = sized(outputs, rows * out_lines);

        let scale = 1.0 / (dim as f32).sqrt();
        let heads = self.kv_head * group * dim..(self.kv_head + 1) * group * dim;
        for (token, scaled) in self.span.clone().zip(queries.chunks_exact_mut(group * dim)) {
            let start = token * self.query_stride;
            // SAFETY: in the phase of attention nobody writes to queries.
            let query = unsafe { self.queries.read(start + heads.start..start + heads.end) };
            for (scaled, value) in scaled.iter_mut().zip(query) {
                *scaled = value * scale;
            }
        }
        for (page, shared, run) in pages(self.sights, tokens) {
            let keys = shape.keys(self.layer, self.kv_head);
            // SAFETY: in the phase of attention nobody writes to pages.
            let keys = unsafe { shared.read(keys..keys + dim * PAGE_LINES) };
            let scores = &mut scores[page * PAGE_LINES..];
            for (first, rows) in tiles::<L>(run.start * group..run.end * group) {
                let (queries, scores) = (&queries[first * dim..], &mut scores[first * score_lines..]);
                match rows {
                    8 => score::<L, 8>(lanes, queries, keys, scores, score_lines),
                    4 => score::<L, 4>(lanes, queries, keys, scores, score_lines),
                    3 => score::<L, 3>(lanes, queries, keys, scores, score_lines),
                    2 => score::<L, 2>(lanes, queries, keys, scores, score_lines),
                    _ => score::<L, 1>(lanes, queries, keys, scores, score_lines),
                }
            }
        }
        for (row, scores) in flat_mut(scores).chunks_exact_mut(score_lines * LANES).enumerate() {
            let (seen, unseen) = scores.split_at_mut(tokens[row / group].visible);
            math::softmax(seen);
            unseen.fill(0.0);
        }
        outputs.fill(Line::default());
        for (page, shared, run) in pages(self.sights, tokens) {
            let values = shape.values(self.layer, self.kv_head);
            // SAFETY: in the phase of attention nobody writes to pages.
            let values = unsafe { shared.read(values..values + shape.block()) };
            let weights = &flat(scores)[page * PAGE_TOKENS..];
            for (first, rows) in tiles::<L>(run.start * group..run.end * group) {
                let stride = score_lines * LANES;
                let (weights, out) = (&weights[first * stride..], &mut outputs[first * out_lines..]);
                match rows {
                    8 => gather::<L, 8>(lanes, weights, stride, values, out, out_lines),
                    4 => gather::<L, 4>(lanes, weights, stride, values, out, out_lines),
                    3 => gather::<L, 3>(lanes, weights, stride, values, out, out_lines),
                    2 => gather::<L, 2>(lanes, weights, stride, values, out, out_lines),
                    _ => gather::<L, 1>(lanes, weights, stride, values, out, out_lines),
                }
            }
        }
        let heads_dim = dim * group;
        let width = self.outputs.len() / self.sights.tokens.len() * LANES;
        for (token, outputs) in self.span.zip(outputs.chunks_exact(group * out_lines)) {
            for (head, output) in outputs.chunks_exact(out_lines).enumerate() {
                let column = self.kv_head * heads_dim + head * dim;
                // SAFETY: these outputs are this task's alone.
                unsafe { pack_part(self.outputs, token * width, column, &flat(output)[..dim]) };
            }
        }
    }
}

/// Packs neighbours of a row, from `column` on, into the packed row that begins at number `row`.
///
/// # Safety
/// Nobody else touches these neighbours in this phase.
#[inline(always)]
unsafe fn pack_part(packed: SharedSlice<'_, Line>, row: usize, column: usize, values: &[f32]) {
    let step = Packing::F32.step();
    if column.is_multiple_of(step) && values.len().is_multiple_of(step) {
        let (start, lines) = ((row + column) / LANES, values.len() / LANES);
        // SAFETY: whole steps of these numbers, which are this task's alone.
        Packing::F32.pack(values, unsafe { packed.write(start..start + lines) });
        return;
    }
    for (index, value) in (column..).zip(values) {
        // SAFETY: each of these numbers is this task's alone.
        unsafe { packed.numbers().set(row + packed_index(index), *value) };
    }
}

/// The first `len` of a buffer that grows when it must.
fn sized<T: Clone + Default>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
    &mut buffer[..len]
}

/// Every page that a token sees, and the neighbours among `tokens` that see it too.
fn pages<'a>(
    sights: &'a Sights<'a>,
    tokens: &'a [VisibleTokens],
) -> impl Iterator<Item = (usize, SharedSlice<'a, Line>, Range<usize>)> {
    let last = tokens.iter().map(|token| token.visible.div_ceil(PAGE_TOKENS)).max().unwrap_or_default();
    (0..last).flat_map(move |page| {
        let seen = move |token: &VisibleTokens| {
            (token.visible > page * PAGE_TOKENS).then(|| sights.pages[token.sequence][page])
        };
        let address = move |token: &VisibleTokens| seen(token).map(SharedSlice::address);
        let mut at = 0;
        tokens.chunk_by(move |a, b| address(a) == address(b)).filter_map(move |run| {
            let start = at;
            at += run.len();
            seen(&run[0]).map(|shared| (page, shared, start..at))
        })
    })
}

/// The first row and the number of rows, 8 or up to 4, of tiles that the registers hold the sums of.
fn tiles<L: Lanes>(rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let mut first = rows.start;
    std::iter::from_fn(move || {
        let count = match (rows.end - first, L::MANY_REGISTERS) {
            (0, _) => return None,
            (8.., true) => 8,
            (left, true) => left.min(4),
            (left, false) => left.min(2),
        };
        first += count;
        Some((first - count, count))
    })
}

/// Σ_d query[d] · keys[d][token] for the tokens of a page and R queries, d rising. Queries follow
/// each other; rows of scores are `stride` lines apart.
#[inline(always)]
fn score<L: Lanes, const R: usize>(
    lanes: L,
    queries: &[f32],
    keys: &[Line],
    scores: &mut [Line],
    stride: usize,
) {
    let (keys, _) = keys.as_chunks::<PAGE_LINES>();
    let dim = keys.len();
    let queries = Abreast::<_, R>::new(std::array::from_fn(|r| &queries[r * dim..]), dim);
    let mut sums = [[lanes.zero(); PAGE_LINES]; R];
    for (d, keys) in keys.iter().enumerate() {
        let keys = [lanes.load(&keys[0]), lanes.load(&keys[1])];
        for (sums, query) in sums.iter_mut().zip(queries.at(d)) {
            let query = lanes.splat(*query);
            sums[0] = lanes.mul_add(query, keys[0], sums[0]);
            sums[1] = lanes.mul_add(query, keys[1], sums[1]);
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        for (to, sum) in scores[r * stride..r * stride + PAGE_LINES].iter_mut().zip(sums) {
            lanes.store(to, sum);
        }
    }
}

/// Adds Σ_t weights[t] · values[t][d] over the tokens of a page to R outputs, t rising. Rows of
/// weights are `stride` numbers apart, rows of outputs `width` lines.
#[inline(always)]
fn gather<L: Lanes, const R: usize>(
    lanes: L,
    weights: &[f32],
    stride: usize,
    values: &[Line],
    outputs: &mut [Line],
    width: usize,
) {
    let weights = Abreast::<_, R>::new(std::array::from_fn(|r| &weights[r * stride..]), PAGE_TOKENS);
    let mut at = 0;
    while at + VECTORS <= width {
        let mut sums = [[lanes.zero(); VECTORS]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            *sums = [lanes.load(&outputs[r * width + at]), lanes.load(&outputs[r * width + at + 1])];
        }
        for (t, values) in values.chunks_exact(width).enumerate() {
            let values = [lanes.load(&values[at]), lanes.load(&values[at + 1])];
            for (sums, weight) in sums.iter_mut().zip(weights.at(t)) {
                let weight = lanes.splat(*weight);
                sums[0] = lanes.mul_add(weight, values[0], sums[0]);
                sums[1] = lanes.mul_add(weight, values[1], sums[1]);
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            lanes.store(&mut outputs[r * width + at], sums[0]);
            lanes.store(&mut outputs[r * width + at + 1], sums[1]);
        }
        at += VECTORS;
    }
    if at < width {
        for r in 0..R {
            let mut sum = lanes.load(&outputs[r * width + at]);
            for (t, values) in values.chunks_exact(width).enumerate() {
                sum = lanes.mul_add(lanes.splat(*weights.at(t)[r]), lanes.load(&values[at]), sum);
            }
            lanes.store(&mut outputs[r * width + at], sum);
        }
    }
}
