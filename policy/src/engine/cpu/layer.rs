//! One layer of the generation forward on packed rows `[tokens, hidden]`, in phases.

use super::attention::Attend;
use super::crew::Worker;
use super::lanes::LANES;
use super::linear::{Linear, vector};
use super::pass::{Buffers, Pass, Tools};
use super::product::Update;
use crate::config::ModelConfig;
use crate::engine::cache::PAGE_TOKENS;
use crate::error::WeightsError;
use crate::math;
use crate::precision::Precision;
use crate::weights::Weights;

/// Phases of [`Layer::forward`], at most.
pub(super) const PHASES: usize = 11;

pub(super) struct Layer {
    input_norm: Vec<f32>,
    qkv: Linear,
    qk_norm: Option<(Vec<f32>, Vec<f32>)>,
    o: Linear,
    post_norm: Vec<f32>,
    gate_up: Linear,
    down: Linear,
}

impl Layer {
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
            Linear::load(weights, &names, biased, precision)
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

    /// Adds layer `index` to the residual stream, and its keys and values to the caches.
    pub(super) fn forward(&self, index: usize, pass: &Pass<'_>, worker: &Worker<'_>, tools: &mut Tools) {
        let Buffers { x, normed, qkv, gate_up, inner, .. } = pass.buffers;
        pass.normalise(worker, tools, &self.input_norm, pass.tokens, |token| token);
        self.qkv.multiply(worker, &mut tools.multiplier, normed, qkv, Update::Set);
        self.place_heads(index, pass, worker);
        attend(index, pass, worker, tools);
        let attended = pass.rounded(worker, tools);
        self.o.multiply(worker, &mut tools.multiplier, attended, x, Update::Add);
        pass.normalise(worker, tools, &self.post_norm, pass.tokens, |token| token);
        self.gate_up.multiply(worker, &mut tools.multiplier, normed, gate_up, Update::Set);
        swiglu(pass, worker);
        self.down.multiply(worker, &mut tools.multiplier, inner, x, Update::Add);
        if pass.is_beside {
            let linears = [&self.qkv, &self.o, &self.gate_up, &self.down];
            worker.each(linears.len(), |linear| linears[linear].release());
        }
    }

    /// Normalises query and key heads where the family does, rotates them to their positions, and puts keys and values into the caches.
    fn place_heads(&self, index: usize, pass: &Pass<'_>, worker: &Worker<'_>) {
        let config = pass.config;
        let (dim, half, eps) = (config.head_dim, config.head_dim / 2, config.rms_norm_eps as f32);
        let (queries, kv_heads) = (config.num_attention_heads, config.num_key_value_heads);
        let width = pass.qkv_width();
        worker.each(pass.tokens, |token| {
            // SAFETY: this token's row is this thread's alone, and its angles were written in a phase before.
            let (row, cos, sin) = unsafe {
                let angles = token * half..(token + 1) * half;
                let row = pass.buffers.qkv.write(token * width..(token + 1) * width);
                (row, pass.buffers.cos.read(angles.clone()), pass.buffers.sin.read(angles))
            };
            math::wide(|| {
                for (at, head) in row.chunks_exact_mut(dim).take(queries + kv_heads).enumerate() {
                    if let Some((q_norm, k_norm)) = &self.qk_norm {
                        let weight = if at < queries { q_norm } else { k_norm };
                        let scale = math::inverse_rms(head, eps);
                        for (value, weight) in head.iter_mut().zip(weight) {
                            *value = *value * scale * weight;
                        }
                    }
                    math::rotate(head, cos, sin, 1.0);
                }
            });
            let shape = pass.sights.shape;
            let (page, slot) = pass.slot(token);
            let (keys, values) = row[queries * dim..].split_at(kv_heads * dim);
            for (head, (keys, values)) in keys.chunks_exact(dim).zip(values.chunks_exact(dim)).enumerate() {
                let start = shape.keys(index, head) * LANES + slot;
                for (d, key) in keys.iter().enumerate() {
                    // SAFETY: every position of a reserved page is one token's alone.
                    unsafe { page.set(start + d * PAGE_TOKENS, *key) };
                }
                let start = shape.values(index, head) * LANES + slot * shape.head_lines() * LANES;
                // SAFETY: as above.
                unsafe { page.write(start..start + dim) }.copy_from_slice(values);
            }
        });
    }
}

fn attend(layer: usize, pass: &Pass<'_>, worker: &Worker<'_>, tools: &mut Tools) {
    let config = pass.config;
    let kv_heads = config.num_key_value_heads;
    let length = pass.sights.span();
    let spans = pass.tokens.div_ceil(length);
    // Later tokens of a prompt see more: they go first.
    worker.each(spans * kv_heads, |task| {
        let span = spans - 1 - task / kv_heads;
        let task = Attend {
            sights: &pass.sights,
            layer,
            kv_head: task % kv_heads,
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
fn swiglu(pass: &Pass<'_>, worker: &Worker<'_>) {
    let inner = pass.config.intermediate_size;
    worker.each(pass.tokens, |token| {
        // SAFETY: these rows of this token are this thread's alone.
        let (row, packed) = unsafe {
            let row = pass.buffers.gate_up.write(token * 2 * inner..(token + 1) * 2 * inner);
            (row, pass.packed(pass.buffers.inner, token, inner))
        };
        let (gate, up) = row.split_at_mut(inner);
        math::wide(|| {
            for (gate, up) in gate.iter_mut().zip(&*up) {
                *gate = *gate * math::sigmoid(*gate) * *up;
            }
            pass.packing.pack(gate, packed);
        });
    });
}
