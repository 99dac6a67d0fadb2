//! One layer of the generation forward on packed rows `[tokens, hidden]`.

use rayon::prelude::*;

use super::attention::attend;
use super::matrix::{Matrix, padded_rows};
use crate::config::ModelConfig;
use crate::engine::backend::Feed;
use crate::engine::cache::KvCache;
use crate::error::WeightsError;
use crate::math;

/// Attention of a call is spread over threads when it has at least this many multiplications.
const PARALLEL_ATTENTION: usize = 1 << 18;

/// Buffers of one call, reused by all layers; rows are padded for [`Matrix::multiply`].
pub(super) struct Scratch {
    tokens: usize,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    attended: Vec<f32>,
    gate_up: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(config: &ModelConfig, tokens: usize) -> Self {
        let rows = padded_rows(tokens);
        Self {
            tokens,
            normed: vec![0.0; rows * config.hidden_size],
            qkv: vec![0.0; rows * (config.q_dim() + 2 * config.kv_dim())],
            attended: vec![0.0; rows * config.q_dim()],
            gate_up: vec![0.0; rows * 2 * config.intermediate_size],
        }
    }
}

struct Linear {
    weight: Matrix,
    bias: Option<Vec<f32>>,
}

impl Linear {
    fn forward(&self, x: &[f32], x_stride: usize, rows: usize, y: &mut [f32], accumulate: bool) {
        self.weight.multiply(x, x_stride, rows, y, accumulate);
        if let Some(bias) = &self.bias {
            for row in y.chunks_exact_mut(self.weight.output()).take(rows) {
                math::axpy(row, 1.0, bias);
            }
        }
    }
}

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
        prefix: &str,
        get: &dyn Fn(&str) -> Result<Vec<f32>, WeightsError>,
    ) -> Result<Self, WeightsError> {
        let norm = |part: &str| get(&format!("{prefix}.{part}.weight"));
        let joined = |input: usize, parts: &[(&str, usize)], biased: bool| {
            let weights = parts.iter().map(|(part, _)| norm(part)).collect::<Result<Vec<_>, _>>()?;
            let sized: Vec<(usize, &[f32])> =
                parts.iter().zip(&weights).map(|((_, out), weight)| (*out, weight.as_slice())).collect();
            let bias = if biased {
                let biases = parts.iter().map(|(part, _)| get(&format!("{prefix}.{part}.bias")));
                Some(biases.collect::<Result<Vec<_>, _>>()?.concat())
            } else {
                None
            };
            Ok::<_, WeightsError>(Linear { weight: Matrix::new(input, &sized), bias })
        };
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let qkv = [
            ("self_attn.q_proj", config.q_dim()),
            ("self_attn.k_proj", config.kv_dim()),
            ("self_attn.v_proj", config.kv_dim()),
        ];
        let qk_norm = if config.has_qk_norm() {
            Some((norm("self_attn.q_norm")?, norm("self_attn.k_norm")?))
        } else {
            None
        };
        Ok(Self {
            input_norm: norm("input_layernorm")?,
            qkv: joined(hidden, &qkv, config.has_qkv_bias())?,
            qk_norm,
            o: joined(config.q_dim(), &[("self_attn.o_proj", hidden)], config.has_o_bias())?,
            post_norm: norm("post_attention_layernorm")?,
            gate_up: joined(hidden, &[("mlp.gate_proj", inner), ("mlp.up_proj", inner)], config.mlp_bias)?,
            down: joined(inner, &[("mlp.down_proj", hidden)], config.mlp_bias)?,
        })
    }

    /// Adds this layer to the residual stream `x` and its keys and values to the caches.
    pub(super) fn forward(
        &self,
        config: &ModelConfig,
        index: usize,
        x: &mut [f32],
        feeds: &mut [Feed<'_, KvCache>],
        angles: (&[f32], &[f32]),
        scratch: &mut Scratch,
    ) {
        let (hidden, rows, eps) =
            (config.hidden_size, padded_rows(scratch.tokens), config.rms_norm_eps as f32);
        rms_norm(x, &self.input_norm, eps, &mut scratch.normed);
        self.qkv.forward(&scratch.normed, hidden, rows, &mut scratch.qkv, false);
        self.place_heads(config, angles, scratch);
        cache_and_attend(config, index, feeds, scratch);
        self.o.forward(&scratch.attended, config.q_dim(), rows, x, true);

        rms_norm(x, &self.post_norm, eps, &mut scratch.normed);
        self.gate_up.forward(&scratch.normed, hidden, rows, &mut scratch.gate_up, false);
        swiglu(&mut scratch.gate_up, config.intermediate_size);
        self.down.forward(&scratch.gate_up, 2 * config.intermediate_size, rows, x, true);
    }

    /// Normalises query and key heads where the family does, and rotates them to their positions.
    fn place_heads(&self, config: &ModelConfig, (cos, sin): (&[f32], &[f32]), scratch: &mut Scratch) {
        let (dim, half, eps) = (config.head_dim, config.head_dim / 2, config.rms_norm_eps as f32);
        let width = config.q_dim() + 2 * config.kv_dim();
        math::wide(|| {
            for (row, values) in scratch.qkv.chunks_exact_mut(width).take(scratch.tokens).enumerate() {
                let angles = row * half..(row + 1) * half;
                let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
                let heads = values.chunks_exact_mut(dim);
                for (index, head) in
                    heads.take(config.num_attention_heads + config.num_key_value_heads).enumerate()
                {
                    if let Some((q_norm, k_norm)) = &self.qk_norm {
                        let weight = if index < config.num_attention_heads { q_norm } else { k_norm };
                        let scale = math::inverse_rms(head, eps);
                        for (value, weight) in head.iter_mut().zip(weight) {
                            *value = *value * scale * weight;
                        }
                    }
                    math::rotate(head, cos, sin, 1.0);
                }
            }
        });
    }
}

fn cache_and_attend(
    config: &ModelConfig,
    index: usize,
    feeds: &mut [Feed<'_, KvCache>],
    scratch: &mut Scratch,
) {
    let (q_dim, kv_dim) = (config.q_dim(), config.kv_dim());
    let width = q_dim + 2 * kv_dim;
    let mut rows = scratch.qkv.chunks_exact(width);
    for feed in feeds.iter_mut() {
        for row in rows.by_ref().take(feed.tokens.len()) {
            feed.cache.push(index, &row[q_dim..q_dim + kv_dim], &row[q_dim + kv_dim..]);
        }
    }
    let sights = feeds.iter().flat_map(|feed| {
        let before = feed.cache.len();
        (1..=feed.tokens.len()).map(move |new| (&*feed.cache, before + new))
    });
    let mut work: Vec<_> = sights
        .zip(scratch.qkv.chunks_exact(width))
        .zip(scratch.attended.chunks_exact_mut(q_dim))
        .map(|(((cache, visible), row), out)| (cache, visible, &row[..q_dim], out))
        .collect();
    let cost: usize = work.iter().map(|(_, visible, _, _)| visible * q_dim).sum();
    if cost >= PARALLEL_ATTENTION && rayon::current_num_threads() > 1 {
        work.par_iter_mut().for_each(|(cache, visible, query, out)| {
            math::wide(|| attend(config, cache, index, *visible, query, out));
        });
    } else {
        math::wide(|| {
            for (cache, visible, query, out) in &mut work {
                attend(config, cache, index, *visible, query, out);
            }
        });
    }
}

/// Normalises every row of `x` into `y`.
pub(super) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    math::wide(|| {
        for (x, y) in x.chunks_exact(weight.len()).zip(y.chunks_exact_mut(weight.len())) {
            let scale = math::inverse_rms(x, eps);
            for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
                *y = x * scale * w;
            }
        }
    });
}

/// Rows `[gate | up]`: silu(gate) · up replaces the gate.
fn swiglu(gate_up: &mut [f32], inner: usize) {
    let row = |row: &mut [f32]| {
        let (gate, up) = row.split_at_mut(inner);
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = *gate * math::sigmoid(*gate) * *up;
        }
    };
    math::wide(|| gate_up.chunks_exact_mut(2 * inner).for_each(row));
}
