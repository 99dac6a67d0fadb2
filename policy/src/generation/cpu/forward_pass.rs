//! What the threads of a team share while they compute one forward pass, and what each has for
//! itself.

use super::attention::{AttentionScratch, Sights};
use super::matmul::{Multiplier, Packing, transpose_group, transposed_lines, unpack};
use super::shared_slice::SharedSlice;
use super::simd::amx::{Amx, TILE};
use super::simd::{LANES, Line, Processor};
use super::thread_team::TeamMember;
use crate::generation::cpu::kv_cache::PAGE_TOKENS;
use crate::math;
use crate::model::config::ModelConfig;

/// The buffers of one pass over `tokens` packed tokens. Rows follow each other, one a token; packed
/// rows are what products read.
#[derive(Clone, Copy)]
pub(super) struct Buffers<'a> {
    /// The residual stream, `[tokens, hidden]`.
    pub(super) x: SharedSlice<'a>,
    /// Normalised rows of `x`, `[tokens, packed hidden]`.
    pub(super) normed: SharedSlice<'a, Line>,
    /// Queries, keys and values, `[tokens, q_dim + 2 · kv_dim]`.
    pub(super) qkv: SharedSlice<'a>,
    /// `[tokens, q_dim]`, packed in f32 whatever the packing is: a block may have heads of several threads.
    pub(super) attended: SharedSlice<'a, Line>,
    /// `[tokens, packed q_dim]`; empty where `attended` is that already.
    pub(super) rounded: SharedSlice<'a, Line>,
    /// Gates, then ups, `[tokens, 2 · intermediate]`.
    pub(super) gate_up: SharedSlice<'a>,
    /// silu(gate) · up, `[tokens, packed intermediate]`.
    pub(super) inner: SharedSlice<'a, Line>,
    /// What products read on a matrix unit, one after the other; empty without one.
    pub(super) transposed: SharedSlice<'a, Line>,
    /// Of each token's position, `[tokens, head_dim / 2]`.
    pub(super) cos: SharedSlice<'a>,
    /// Sines, laid out as `cos` is.
    pub(super) sin: SharedSlice<'a>,
}

/// All that the threads of one pass share.
#[derive(Clone, Copy)]
pub(super) struct CpuPass<'a> {
    pub(super) config: &'a ModelConfig,
    /// How activations are packed for products.
    pub(super) packing: Packing,
    pub(super) tokens: usize,
    pub(super) buffers: Buffers<'a>,
    pub(super) sights: &'a Sights<'a>,
    /// Whether weights are given back layer by layer: see [`crate::generation::Backend::forward_beside`].
    pub(super) is_beside: bool,
}

/// What one thread computes with.
pub(super) struct Tools {
    pub(super) processor: Processor,
    pub(super) multiplier: Multiplier,
    pub(super) attention: AttentionScratch,
    row: Vec<f32>,
}

/// Memory that passes use one after the other; it grows to what the largest one needed.
#[derive(Default)]
pub(super) struct PassWorkspace {
    lines: Vec<Line>,
}

impl Tools {
    pub(super) fn new(processor: Processor) -> Self {
        let multiplier = Multiplier::new(processor);
        Self { processor, multiplier, attention: AttentionScratch::default(), row: Vec::new() }
    }
}

impl PassWorkspace {
    /// The buffers of a pass over `tokens` tokens, and `rows` rows of logits.
    pub(super) fn buffers(
        &mut self,
        config: &ModelConfig,
        packing: Packing,
        tokens: usize,
        rows: usize,
    ) -> (Buffers<'_>, SharedSlice<'_>) {
        let lines = |numbers: usize| (tokens * numbers).div_ceil(LANES);
        let packed = |inputs: usize| tokens * packing.lines(inputs);
        let (hidden, inner, half) = (config.hidden_size, config.intermediate_size, config.head_dim / 2);
        let qkv = config.q_dim() + 2 * config.kv_dim();
        let widest = hidden.max(config.q_dim()).max(inner);
        let sizes = [
            lines(hidden),
            packed(hidden),
            lines(qkv),
            tokens * Packing::F32.lines(config.q_dim()),
            if packing == Packing::F32 { 0 } else { packed(config.q_dim()) },
            lines(2 * inner),
            packed(inner),
            if packing.amx().is_some() { transposed_lines(tokens, widest) } else { 0 },
            lines(half),
            lines(half),
            (rows * config.vocab_size).div_ceil(LANES),
        ];
        let total = sizes.iter().sum();
        if self.lines.len() < total {
            self.lines.resize(total, Line::default());
        }
        let mut rest = SharedSlice::new(&mut self.lines[..total]);
        let [x, normed, qkv_rows, attended, rounded, gate_up, inner_rows, transposed, cos, sin, logits] =
            sizes.map(|size| {
                let (part, behind) = rest.split_at(size);
                rest = behind;
                part
            });
        // The attention leaves out the zeros after a row.
        // SAFETY: no thread has it yet.
        unsafe { attended.write(0..attended.len()) }.fill(Line::default());
        let buffers = Buffers {
            x: numbers(x, tokens * hidden),
            normed,
            qkv: numbers(qkv_rows, tokens * qkv),
            attended,
            rounded,
            gate_up: numbers(gate_up, tokens * 2 * inner),
            inner: inner_rows,
            transposed,
            cos: numbers(cos, tokens * half),
            sin: numbers(sin, tokens * half),
        };
        (buffers, numbers(logits, rows * config.vocab_size))
    }
}

impl Buffers<'_> {
    /// Those that are used after attention, cut to the first `count` of `tokens` tokens.
    fn first(self, count: usize, tokens: usize) -> Self {
        fn cut<T>(part: SharedSlice<'_, T>, count: usize, tokens: usize) -> SharedSlice<'_, T> {
            part.split_at(part.len() / tokens * count).0
        }
        Self {
            x: cut(self.x, count, tokens),
            normed: cut(self.normed, count, tokens),
            attended: cut(self.attended, count, tokens),
            rounded: cut(self.rounded, count, tokens),
            gate_up: cut(self.gate_up, count, tokens),
            inner: cut(self.inner, count, tokens),
            ..self
        }
    }
}

/// The first `count` numbers of a part.
fn numbers(part: SharedSlice<'_, Line>, count: usize) -> SharedSlice<'_> {
    part.numbers().split_at(count).0
}

impl<'a> CpuPass<'a> {
    /// Goes on with some of its tokens alone, `rows` rising: a phase, in which what the residual
    /// stream and the attention have of them moves to the front. Of use after the attention of the
    /// last layer alone: queries, angles and sights are still those of all tokens.
    pub(super) fn keep(self, worker: &TeamMember<'_>, rows: &[usize]) -> Self {
        let Buffers { x, attended, .. } = self.buffers;
        let (hidden, lines) = (x.len() / self.tokens, attended.len() / self.tokens);
        // One after the other, by one thread, as a row may go where one is that has yet to move.
        worker.each(1, |_| {
            for (to, from) in rows.iter().copied().enumerate().filter(|(to, from)| to != from) {
                // SAFETY: this phase is one chunk, and no row is both.
                unsafe {
                    x.write(to * hidden..(to + 1) * hidden)
                        .copy_from_slice(x.read(from * hidden..(from + 1) * hidden));
                    attended
                        .write(to * lines..(to + 1) * lines)
                        .copy_from_slice(attended.read(from * lines..(from + 1) * lines));
                }
            }
        });
        Self { tokens: rows.len(), buffers: self.buffers.first(rows.len(), self.tokens), ..self }
    }

    /// Lines of a packed row of the residual stream.
    pub(super) fn packed_hidden(&self) -> usize {
        self.packing.lines(self.config.hidden_size)
    }

    /// Numbers of one token's queries, keys and values.
    pub(super) fn qkv_width(&self) -> usize {
        self.config.q_dim() + 2 * self.config.kv_dim()
    }

    /// The page of a token, number by number, and its place there.
    pub(super) fn slot(&self, token: usize) -> (SharedSlice<'_>, usize) {
        let sight = self.sights.tokens[token];
        let position = sight.visible - 1;
        (self.sights.pages[sight.sequence][position / PAGE_TOKENS].numbers(), position % PAGE_TOKENS)
    }

    /// Normalises and packs the rows `from(0)`, `from(1)`, … of the residual stream as the first
    /// `rows` of the products' input: a phase.
    pub(super) fn normalise(
        &self,
        worker: &TeamMember<'_>,
        tools: &mut Tools,
        weight: &[f32],
        rows: usize,
        from: impl Fn(usize) -> usize,
    ) {
        let (hidden, eps) = (self.config.hidden_size, self.config.rms_norm_eps as f32);
        tools.row.resize(hidden, 0.0);
        worker.each(rows, |row| {
            let at = from(row) * hidden;
            // SAFETY: the residual stream is not written in this phase, and the packed row
            // is this thread's alone.
            let (x, packed) = unsafe {
                (self.buffers.x.read(at..at + hidden), self.packed(self.buffers.normed, row, hidden))
            };
            math::wide(
                #[inline(always)]
                || {
                    let scale = math::inverse_rms(x, eps);
                    for ((y, x), w) in tools.row.iter_mut().zip(x).zip(weight) {
                        *y = x * scale * w;
                    }
                    self.packing.pack(&tools.row, packed);
                },
            );
        });
    }

    /// What attention came to, packed for products: a phase, unless it is so already.
    pub(super) fn rounded(&self, worker: &TeamMember<'_>, tools: &mut Tools) -> SharedSlice<'_, Line> {
        let Buffers { attended, rounded, .. } = self.buffers;
        if self.packing == Packing::F32 {
            return attended;
        }
        let inputs = self.config.q_dim();
        let lines = Packing::F32.lines(inputs);
        tools.row.resize(inputs, 0.0);
        worker.each(self.tokens, |token| {
            // SAFETY: what attention came to is not written in this phase, and the packed row
            // is this thread's alone.
            let (from, to) = unsafe {
                (attended.read(token * lines..(token + 1) * lines), self.packed(rounded, token, inputs))
            };
            math::wide(
                #[inline(always)]
                || {
                    unpack(from, &mut tools.row);
                    self.packing.pack(&tools.row, to);
                },
            );
        });
        rounded
    }

    /// Packed rows of `inputs` numbers as the matrix unit wants them: a phase.
    pub(super) fn transposed(
        &self,
        worker: &TeamMember<'_>,
        amx: Amx,
        rows: SharedSlice<'_, Line>,
        inputs: usize,
    ) -> SharedSlice<'_, Line> {
        let length = self.packing.lines(inputs);
        let tokens = rows.len() / length;
        let lines = transposed_lines(TILE, inputs);
        worker.each(tokens.div_ceil(TILE), |group| {
            let (first, end) = (group * TILE, tokens.min((group + 1) * TILE));
            // SAFETY: packed rows are not written in this phase, and what a group is transposed to
            // is this thread's alone.
            let (rows, transposed) = unsafe {
                (
                    rows.read(first * length..end * length),
                    self.buffers.transposed.write(group * lines..(group + 1) * lines),
                )
            };
            transpose_group(amx, rows, inputs, transposed);
        });
        self.buffers.transposed.split_at(transposed_lines(tokens, inputs)).0
    }

    /// The packed row of a token.
    ///
    /// # Safety
    /// As for [`SharedSlice::write`], for this row.
    pub(super) unsafe fn packed<'b>(
        &self,
        rows: SharedSlice<'b, Line>,
        token: usize,
        inputs: usize,
    ) -> &'b mut [Line] {
        let lines = self.packing.lines(inputs);
        // SAFETY: the caller's promise.
        unsafe { rows.write(token * lines..(token + 1) * lines) }
    }
}
