//! One decoder layer: attention and MLP, each after an RMS norm and added to the residual stream.

use super::attention::{AttentionInputs, AttentionShape, Outputs, Results};
use super::buffer::fit;
use super::heads::Heads;
use super::linear::DecoderLinear;
use super::matmul::Onto;
use super::{rms_norm, swiglu};
use crate::model::config::ModelConfig;
use crate::training::decoder::batch::Batch;
use crate::training::decoder::parameter_map::LayerPlace;

/// What a layer computed and its way back needs. What is cheap to compute again is not
/// here: norms, rotations, SwiGLU.
#[derive(Default)]
pub(super) struct Trace {
    /// Queries, keys and values as projected.
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    attended: Vec<f32>,
    normalisers: Vec<f32>,
    /// The residual stream between attention and MLP.
    middle: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

/// Values that do not outlive a layer.
#[derive(Default)]
pub(super) struct LayerScratch {
    normed: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    inner: Vec<f32>,
    d_normed: Vec<f32>,
    d_attended: Vec<f32>,
    dq: Vec<f32>,
    dk: Vec<f32>,
    dv: Vec<f32>,
}

/// A layer with its values, over the rows of one pack.
pub(super) struct DecoderLayer<'a> {
    config: &'a ModelConfig,
    place: &'a LayerPlace,
    weights: &'a [&'a [f32]],
    batch: &'a Batch,
}

impl<'a> DecoderLayer<'a> {
    pub(super) fn new(
        config: &'a ModelConfig,
        place: &'a LayerPlace,
        weights: &'a [&'a [f32]],
        batch: &'a Batch,
    ) -> Self {
        Self { config, place, weights, batch }
    }

    fn eps(&self) -> f32 {
        self.config.rms_norm_eps as f32
    }

    fn attention(&self) -> AttentionShape<'a> {
        let config = self.config;
        let group = config.num_attention_heads / config.num_key_value_heads;
        AttentionShape::new(&self.batch.sequences, config.num_key_value_heads, group, config.head_dim)
    }

    fn heads(&self, group: usize, scale: f32, norm: Option<usize>) -> Heads<'a> {
        Heads {
            batch: self.batch,
            slabs: self.config.num_key_value_heads,
            group,
            dim: self.config.head_dim,
            scale,
            norm: norm.map(|norm| self.weights[norm]),
            eps: self.eps(),
        }
    }

    /// Queries carry the scale of the scores.
    fn q_heads(&self) -> Heads<'a> {
        let group = self.config.num_attention_heads / self.config.num_key_value_heads;
        self.heads(group, 1.0 / (self.config.head_dim as f32).sqrt(), self.place.q_norm)
    }

    fn k_heads(&self) -> Heads<'a> {
        self.heads(1, 1.0, self.place.k_norm)
    }

    fn linear(&self, place: &'a crate::training::decoder::parameter_map::LinearPlace) -> DecoderLinear<'a> {
        DecoderLinear::new(place, self.weights)
    }

    /// Computes the trace of the layer's input `x`, `[rows, hidden]`.
    pub(super) fn run(&self, x: &[f32], trace: &mut Trace, scratch: &mut LayerScratch) {
        let (place, rows) = (self.place, self.batch.rows());
        trace.fit(self.config, rows);
        scratch.fit(self.config, rows);
        rms_norm::forward(x, self.weights[place.input_norm], self.eps(), &mut scratch.normed);
        self.linear(&place.q).forward(&scratch.normed, &mut trace.q, Onto::Replace);
        self.linear(&place.k).forward(&scratch.normed, &mut trace.k, Onto::Replace);
        self.linear(&place.v).forward(&scratch.normed, &mut trace.v, Onto::Replace);
        self.q_heads().forward(&trace.q, &mut scratch.q);
        self.k_heads().forward(&trace.k, &mut scratch.k);
        let inputs = AttentionInputs { q: &scratch.q, k: &scratch.k, v: &trace.v };
        self.attention().forward(inputs, &mut trace.attended, &mut trace.normalisers);
        trace.middle.copy_from_slice(x);
        self.linear(&place.o).forward(&trace.attended, &mut trace.middle, Onto::Add);

        rms_norm::forward(&trace.middle, self.weights[place.post_norm], self.eps(), &mut scratch.normed);
        self.linear(&place.gate).forward(&scratch.normed, &mut trace.gate, Onto::Replace);
        self.linear(&place.up).forward(&scratch.normed, &mut trace.up, Onto::Replace);
    }

    /// Writes the layer's output to `y`, given its trace.
    pub(super) fn finish(&self, trace: &Trace, y: &mut [f32], scratch: &mut LayerScratch) {
        swiglu::forward(&trace.gate, &trace.up, &mut scratch.inner);
        y.copy_from_slice(&trace.middle);
        self.linear(&self.place.down).forward(&scratch.inner, y, Onto::Add);
    }

    /// Turns `d`, the gradient of the output, into that of the input `x`, and adds those of the
    /// layer's variables. The trace is used up.
    pub(super) fn backward(
        &self,
        x: &[f32],
        trace: &mut Trace,
        d: &mut [f32],
        gradients: &mut [&mut [f32]],
        scratch: &mut LayerScratch,
    ) {
        scratch.fit_backward(self.config, self.batch.rows());
        self.backward_mlp(trace, d, gradients, scratch);
        self.backward_attention(x, trace, d, gradients, scratch);
    }

    fn backward_mlp(
        &self,
        trace: &mut Trace,
        d: &mut [f32],
        gradients: &mut [&mut [f32]],
        scratch: &mut LayerScratch,
    ) {
        let (place, norm) = (self.place, self.weights[self.place.post_norm]);
        swiglu::forward(&trace.gate, &trace.up, &mut scratch.inner);
        self.linear(&place.down).add_gradients(&scratch.inner, d, gradients);
        self.linear(&place.down).backward(d, &mut scratch.inner, Onto::Replace);
        swiglu::backward(&mut trace.gate, &mut trace.up, &scratch.inner);

        rms_norm::forward(&trace.middle, norm, self.eps(), &mut scratch.normed);
        self.linear(&place.gate).add_gradients(&scratch.normed, &trace.gate, gradients);
        self.linear(&place.up).add_gradients(&scratch.normed, &trace.up, gradients);
        self.linear(&place.gate).backward(&trace.gate, &mut scratch.d_normed, Onto::Replace);
        self.linear(&place.up).backward(&trace.up, &mut scratch.d_normed, Onto::Add);
        let d_norm = &mut *gradients[place.post_norm];
        rms_norm::backward(&trace.middle, norm, self.eps(), &mut scratch.d_normed, d, d_norm);
    }

    fn backward_attention(
        &self,
        x: &[f32],
        trace: &mut Trace,
        d: &mut [f32],
        gradients: &mut [&mut [f32]],
        scratch: &mut LayerScratch,
    ) {
        let (place, norm) = (self.place, self.weights[self.place.input_norm]);
        self.linear(&place.o).add_gradients(&trace.attended, d, gradients);
        self.linear(&place.o).backward(d, &mut scratch.d_attended, Onto::Replace);

        let (q_heads, k_heads) = (self.q_heads(), self.k_heads());
        q_heads.forward(&trace.q, &mut scratch.q);
        k_heads.forward(&trace.k, &mut scratch.k);
        self.attention().backward(
            AttentionInputs { q: &scratch.q, k: &scratch.k, v: &trace.v },
            Results { out: &trace.attended, normalisers: &trace.normalisers, d_out: &scratch.d_attended },
            Outputs { dq: &mut scratch.dq, dk: &mut scratch.dk, dv: &mut scratch.dv },
        );
        // From here on the trace holds gradients of the projections.
        let d_q_norm = q_heads.backward(&scratch.dq, &mut trace.q);
        let d_k_norm = k_heads.backward(&scratch.dk, &mut trace.k);
        k_heads.rows(&scratch.dv, &mut trace.v);
        for (norm, d_norm) in [(place.q_norm, d_q_norm), (place.k_norm, d_k_norm)] {
            if let Some(norm) = norm {
                crate::math::axpy(gradients[norm], 1.0, &d_norm);
            }
        }

        rms_norm::forward(x, norm, self.eps(), &mut scratch.normed);
        let projections = [(&place.q, &trace.q), (&place.k, &trace.k), (&place.v, &trace.v)];
        for (index, (projection, dy)) in projections.into_iter().enumerate() {
            let onto = if index == 0 { Onto::Replace } else { Onto::Add };
            self.linear(projection).add_gradients(&scratch.normed, dy, gradients);
            self.linear(projection).backward(dy, &mut scratch.d_normed, onto);
        }
        let d_norm = &mut *gradients[place.input_norm];
        rms_norm::backward(x, norm, self.eps(), &mut scratch.d_normed, d, d_norm);
    }
}

impl Trace {
    fn fit(&mut self, config: &ModelConfig, rows: usize) {
        for (buffer, width) in [
            (&mut self.q, config.q_dim()),
            (&mut self.k, config.kv_dim()),
            (&mut self.v, config.kv_dim()),
            (&mut self.attended, config.q_dim()),
            (&mut self.normalisers, config.num_attention_heads),
            (&mut self.middle, config.hidden_size),
            (&mut self.gate, config.intermediate_size),
            (&mut self.up, config.intermediate_size),
        ] {
            fit(buffer, rows * width);
        }
    }
}

impl LayerScratch {
    fn fit(&mut self, config: &ModelConfig, rows: usize) {
        for (buffer, width) in [
            (&mut self.normed, config.hidden_size),
            (&mut self.q, config.q_dim()),
            (&mut self.k, config.kv_dim()),
            (&mut self.inner, config.intermediate_size),
        ] {
            fit(buffer, rows * width);
        }
    }

    fn fit_backward(&mut self, config: &ModelConfig, rows: usize) {
        for (buffer, width) in [
            (&mut self.d_normed, config.hidden_size),
            (&mut self.d_attended, config.q_dim()),
            (&mut self.dq, config.q_dim()),
            (&mut self.dk, config.kv_dim()),
            (&mut self.dv, config.kv_dim()),
        ] {
            fit(buffer, rows * width);
        }
    }
}
