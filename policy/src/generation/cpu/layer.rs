//! One layer of the generation forward on packed rows `[tokens, hidden]`, in phases.

use super::attention::{Attend, SPAN};
use super::forward_pass::{Buffers, CpuPass, Tools};
use super::linear::CpuLinear;
use super::matmul::OutputUpdate;
use super::simd::LANES;
use super::thread_team::TeamMember;
use crate::generation::cpu::kv_cache::PAGE_TOKENS;
use crate::math;
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::model::weights::named::vector;
use crate::model::weights::{Weights, WeightsError};

/// Phases of [`CpuLayer::forward`], at most.
pub(super) const PHASES: usize = 16;

pub(super) struct CpuLayer {
    input_norm: Vec<f32>,
    qkv: CpuLinear,
    qk_norm: Option<(Vec<f32>, Vec<f32>)>,
    o: CpuLinear,
    post_norm: Vec<f32>,
    gate_up: CpuLinear,
    down: CpuLinear,
}

impl CpuLayer {
    pub(super) fn load(
        config: &ModelConfig,
        index: usize,
        weights: &Weights,
        precision: Precision,
    ) -> Result<Self, WeightsError> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let norm = |part: &str| vector(weights, &format!("{}.weight", name(part)));
        let linear = |parts: &[&str], biased: bool| {
            let names: Vec<_> = parts.iter().map(|part| name(part)).collect();
            CpuLinear::load(weights, &names, biased, precision)
        };
        let qk_norm = if config.has_qk_norm() {
            Some((norm("self_attn.q_norm")?, norm("self_attn.k_norm")?))
        } else {
            None
        };
        let qkv = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
        Ok(Self {
            input_norm: norm("input_layernorm")?,
            qkv: linear(&qkv, config.has_qkv_bias())?,
            qk_norm,
            o: linear(&["self_attn.o_proj"], config.has_o_bias())?,
            post_norm: norm("post_attention_layernorm")?,
            gate_up: linear(&["mlp.gate_proj", "mlp.up_proj"], config.mlp_bias)?,
            down: linear(&["mlp.down_proj"], config.mlp_bias)?,
        })
    }

    /// Adds layer `index` to the residual stream, and its keys and values to the caches. Of the
    /// last layer only the `wanted` tokens of the residual stream are computed, which are the first
    /// ones then; they rise.
    pub(super) fn forward(
        &self,
        index: usize,
        pass: &CpuPass<'_>,
        wanted: &[usize],
        worker: &TeamMember<'_>,
        tools: &mut Tools,
    ) {
        let Buffers { normed, qkv, .. } = pass.buffers;
        pass.normalise(worker, tools, &self.input_norm, pass.tokens, |token| token);
        self.qkv.multiply(pass, worker, &mut tools.multiplier, normed, qkv, OutputUpdate::Set);
        self.place_heads(index, pass, worker);
        let is_last = index + 1 == pass.config.num_hidden_layers;
        if !is_last || !wanted.is_empty() {
            attend(index, pass, worker, tools);
            let are_all = !is_last || wanted.len() == pass.tokens;
            let kept = if are_all { *pass } else { pass.keep(worker, wanted) };
            self.behind_attention(&kept, worker, tools);
        }
        if pass.is_beside {
            let linears = [&self.qkv, &self.o, &self.gate_up, &self.down];
            worker.each(linears.len(), |linear| linears[linear].release());
        }
    }

    /// Adds what attention came to, and then the network after it.
    fn behind_attention(&self, pass: &CpuPass<'_>, worker: &TeamMember<'_>, tools: &mut Tools) {
        let Buffers { x, normed, gate_up, inner, .. } = pass.buffers;
        let attended = pass.rounded(worker, tools);
        self.o.multiply(pass, worker, &mut tools.multiplier, attended, x, OutputUpdate::Add);
        pass.normalise(worker, tools, &self.post_norm, pass.tokens, |token| token);
        self.gate_up.multiply(pass, worker, &mut tools.multiplier, normed, gate_up, OutputUpdate::Set);
        swiglu(pass, worker);
        self.down.multiply(pass, worker, &mut tools.multiplier, inner, x, OutputUpdate::Add);
    }

    /// Normalises query and key heads where the family does, rotates them to their positions, and
    /// puts keys and values into the caches.
    ///
    /// A task is a key-value head with the query heads that share it, of a span of tokens: a line
    /// of a page has keys of neighbours, and two threads that wrote to it would take it from each
    /// other again and again.
    fn place_heads(&self, index: usize, pass: &CpuPass<'_>, worker: &TeamMember<'_>) {
        let config = pass.config;
        let (dim, half, eps) = (config.head_dim, config.head_dim / 2, config.rms_norm_eps as f32);
        let (queries, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
        let (group, width, shape) = (queries / kv_heads, pass.qkv_width(), pass.sights.shape);
        let (q_norm, k_norm) = self.qk_norm.as_ref().map(|(q, k)| (q.as_slice(), k.as_slice())).unzip();
        worker.each(pass.tokens.div_ceil(SPAN) * kv_heads, |task| {
            let (first, kv_head) = (task / kv_heads * SPAN, task % kv_heads);
            for token in first..pass.tokens.min(first + SPAN) {
                let heads = |from: usize, count: usize| {
                    let start = token * width + from * dim;
                    // SAFETY: these heads of this token are this thread's alone.
                    unsafe { pass.buffers.qkv.write(start..start + count * dim) }
                };
                let own_queries = heads(kv_head * group, group);
                let (key, value) = (heads(queries + kv_head, 1), heads(queries + kv_heads + kv_head, 1));
                let angles = token * half..(token + 1) * half;
                // SAFETY: a token's angles were written in a phase before.
                let (cos, sin) =
                    unsafe { (pass.buffers.cos.read(angles.clone()), pass.buffers.sin.read(angles)) };
                math::wide(
                    #[inline(always)]
                    || {
                        for query in own_queries.chunks_exact_mut(dim) {
                            turn(query, q_norm, eps, cos, sin);
                        }
                        turn(key, k_norm, eps, cos, sin);
                    },
                );
                let (page, slot) = pass.slot(token);
                // SAFETY: every position of a reserved page is one token's alone.
                unsafe {
                    page.spread(shape.keys(index, kv_head) * LANES + slot, PAGE_TOKENS, key);
                    let start = shape.values(index, kv_head) * LANES + slot * shape.head_lines() * LANES;
                    page.write(start..start + dim).copy_from_slice(value);
                }
            }
        });
    }
}

/// Normalises a head, where there is a weight for it, and rotates it by a position's angles.
#[inline(always)]
fn turn(head: &mut [f32], norm: Option<&[f32]>, eps: f32, cos: &[f32], sin: &[f32]) {
    if let Some(weight) = norm {
        let scale = math::inverse_rms(head, eps);
        for (value, weight) in head.iter_mut().zip(weight) {
            *value = *value * scale * weight;
        }
    }
    math::rotate(head, cos, sin, 1.0);
}

fn attend(layer: usize, pass: &CpuPass<'_>, worker: &TeamMember<'_>, tools: &mut Tools) {
    let config = pass.config;
    let kv_heads = config.num_key_value_heads;
    let length = pass.sights.span();
    let spans = pass.tokens.div_ceil(length);
    // Later tokens of a prompt see more: they go first. Head after head, as what one has cached
    // stays in the second cache for all spans.
    worker.each(spans * kv_heads, |task| {
        let span = spans - 1 - task % spans;
        let task = Attend {
            sights: pass.sights,
            layer,
            kv_head: task / spans,
            span: span * length..pass.tokens.min((span + 1) * length),
            queries: pass.buffers.qkv,
            query_stride: pass.qkv_width(),
            outputs: pass.buffers.attended,
            scratch: &mut tools.attention,
        };
        tools.processor.run(task);
    });
}

/// silu(gate) · up of every token.
fn swiglu(pass: &CpuPass<'_>, worker: &TeamMember<'_>) {
    let inner = pass.config.intermediate_size;
    worker.each(pass.tokens, |token| {
        // SAFETY: these rows of this token are this thread's alone.
        let (row, packed) = unsafe {
            let row = pass.buffers.gate_up.write(token * 2 * inner..(token + 1) * 2 * inner);
            (row, pass.packed(pass.buffers.inner, token, inner))
        };
        let (gate, up) = row.split_at_mut(inner);
        math::wide(
            #[inline(always)]
            || {
                for (gate, up) in gate.iter_mut().zip(&*up) {
                    *gate = *gate * math::sigmoid(*gate) * *up;
                }
                pass.packing.pack(gate, packed);
            },
        );
    });
}
