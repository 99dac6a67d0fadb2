//! One decoder layer: attention and MLP, each behind an RMS norm and added to the residual stream.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::ops;
use crate::config::ModelConfig;
use crate::error::WeightsError;

/// Rotary angles of one batch: `sequences` × `length` tokens, position = row modulo length.
pub(super) struct Rotary {
    pub(super) sequences: usize,
    pub(super) length: usize,
    /// `[length, head_dim / 2]`, for the fused kernels.
    pub(super) cos: Arc<Vec<f32>>,
    pub(super) sin: Arc<Vec<f32>>,
    /// The same on the device, for devices without fused kernels.
    pub(super) tables: Option<(Tensor, Tensor)>,
}

impl Rotary {
    pub(super) fn new(
        sequences: usize,
        length: usize,
        cos: Vec<f32>,
        sin: Vec<f32>,
        device: &Device,
    ) -> Result<Self> {
        let half = cos.len() / length.max(1);
        let tables = if device.is_cpu() {
            None
        } else {
            let table = |values: &[f32]| Tensor::from_slice(values, (1, length, 1, half), device);
            Some((table(&cos)?, table(&sin)?))
        };
        Ok(Self { sequences, length, cos: Arc::new(cos), sin: Arc::new(sin), tables })
    }
}

struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// `[M, in]` → `[M, out]`; two-dimensional, so that candle runs one matrix product and not one per sequence.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.weight.t()?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

pub(super) struct Layer {
    input_norm: Tensor,
    q: Linear,
    k: Linear,
    v: Linear,
    qk_norm: Option<(Tensor, Tensor)>,
    o: Linear,
    post_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Layer {
    pub(super) fn new(
        config: &ModelConfig,
        prefix: &str,
        get: &dyn Fn(&str) -> Option<Tensor>,
        need: &dyn Fn(&str) -> std::result::Result<Tensor, WeightsError>,
    ) -> std::result::Result<Self, WeightsError> {
        let norm = |part: &str| need(&format!("{prefix}.{part}.weight"));
        let linear = |part: &str| {
            let weight = need(&format!("{prefix}.{part}.weight"))?;
            Ok::<_, WeightsError>(Linear { weight, bias: get(&format!("{prefix}.{part}.bias")) })
        };
        let qk_norm = if config.has_qk_norm() {
            Some((norm("self_attn.q_norm")?, norm("self_attn.k_norm")?))
        } else {
            None
        };
        Ok(Self {
            input_norm: norm("input_layernorm")?,
            q: linear("self_attn.q_proj")?,
            k: linear("self_attn.k_proj")?,
            v: linear("self_attn.v_proj")?,
            qk_norm,
            o: linear("self_attn.o_proj")?,
            post_norm: norm("post_attention_layernorm")?,
            gate: linear("mlp.gate_proj")?,
            up: linear("mlp.up_proj")?,
            down: linear("mlp.down_proj")?,
        })
    }

    /// Residual stream `[M, H]` → `[M, H]`.
    pub(super) fn forward(&self, config: &ModelConfig, x: &Tensor, rotary: &Rotary) -> Result<Tensor> {
        let eps = config.rms_norm_eps;
        let normed = ops::rms_norm(x, &self.input_norm, eps)?;
        let (mut q, mut k) = (self.q.forward(&normed)?, self.k.forward(&normed)?);
        let v = self.v.forward(&normed)?;
        if let Some((q_norm, k_norm)) = &self.qk_norm {
            q = ops::rms_norm(&q, q_norm, eps)?;
            k = ops::rms_norm(&k, k_norm, eps)?;
        }
        let q = ops::rope(&q, config.head_dim, rotary)?;
        let k = ops::rope(&k, config.head_dim, rotary)?;
        let attended = ops::attention(&q, &k, &v, config, rotary)?;
        let x = (x + self.o.forward(&attended)?)?;
        let normed = ops::rms_norm(&x, &self.post_norm, eps)?;
        let inner = ops::swiglu(&self.gate.forward(&normed)?, &self.up.forward(&normed)?)?;
        x + self.down.forward(&inner)?
    }
}
