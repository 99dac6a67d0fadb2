//! The training forward: a decoder whose parameters are candle variables.
//!
//! Several of candle's own fused operations return no gradient and say nothing; only operations with a gradient are
//! used here, and the tests compare every parameter's gradient with finite differences.

mod layer;
mod ops;

pub(crate) use ops::{on_cpu, read, slice};

use std::collections::BTreeMap;

use candle_core::{DType as CandleType, Device, Tensor, Var};

use crate::config::ModelConfig;
use crate::error::{DecoderError, WeightsError};
use crate::math;
use crate::weights::{DType, RawTensor, Weights, expected_tensors};
use layer::{Layer, Rotary};

/// A decoder with trainable f32 parameters.
pub struct Decoder {
    config: ModelConfig,
    device: Device,
    vars: Vec<(String, Var)>,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
}

impl Decoder {
    /// Makes variables of `weights` (converted to f32) on `device`.
    ///
    /// # Errors
    /// When the weights are not those of `config`, or the device cannot hold them.
    pub fn trainable(config: &ModelConfig, weights: &Weights, device: &Device) -> Result<Self, DecoderError> {
        let vars = weights
            .iter()
            .map(|tensor| Ok((tensor.name().to_owned(), Var::from_tensor(&tensor.to_tensor(device)?)?)))
            .collect::<Result<_, DecoderError>>()?;
        Self::new(config, vars, device)
    }

    /// Builds the decoder over variables that exist already; they must be f32 and in the order of [`expected_tensors`].
    ///
    /// # Errors
    /// When a variable is missing or has another name, place, shape or element type.
    pub fn new(
        config: &ModelConfig,
        vars: Vec<(String, Var)>,
        device: &Device,
    ) -> Result<Self, DecoderError> {
        let expected = expected_tensors(config);
        for (index, spec) in expected.iter().enumerate() {
            let Some((name, var)) = vars.get(index) else {
                return Err(WeightsError::Missing { name: spec.name.clone() }.into());
            };
            if *name != spec.name {
                return Err(WeightsError::Unexpected { name: name.clone() }.into());
            }
            if var.dims() != spec.shape {
                let (name, expected) = (name.clone(), spec.shape.clone());
                return Err(WeightsError::Shape { name, found: var.dims().to_vec(), expected }.into());
            }
            if var.dtype() != CandleType::F32 {
                let dtype = format!("{:?}", var.dtype());
                return Err(WeightsError::Dtype { name: name.clone(), dtype }.into());
            }
        }
        if let Some((name, _)) = vars.get(expected.len()) {
            return Err(WeightsError::Unexpected { name: name.clone() }.into());
        }
        let by_name: BTreeMap<&str, &Tensor> =
            vars.iter().map(|(name, var)| (name.as_str(), var.as_tensor())).collect();
        let get = |name: &str| by_name.get(name).map(|tensor| (*tensor).clone());
        let need = |name: &str| get(name).ok_or_else(|| WeightsError::Missing { name: name.to_owned() });
        let embedding = need("model.embed_tokens.weight")?;
        let head = if config.tie_word_embeddings { embedding.clone() } else { need("lm_head.weight")? };
        let layers = (0..config.num_hidden_layers)
            .map(|index| Layer::new(config, &format!("model.layers.{index}"), &get, &need))
            .collect::<Result<_, WeightsError>>()?;
        let norm = need("model.norm.weight")?;
        Ok(Self { config: config.clone(), device: device.clone(), embedding, layers, norm, head, vars })
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where the parameters are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The parameters by Hugging Face name, in the order of [`expected_tensors`].
    pub fn vars(&self) -> &[(String, Var)] {
        &self.vars
    }

    /// Copies the parameters out, rounded to `dtype`.
    ///
    /// # Errors
    /// When the device fails to give them back.
    pub fn to_weights(&self, dtype: DType) -> Result<Weights, DecoderError> {
        let raw: Vec<RawTensor> = self.tensors(dtype).collect::<Result<_, _>>()?;
        Ok(Weights::from_raw(&self.config, raw)?)
    }

    /// Copies the parameters out one at a time, rounded to `dtype`, in the order of [`expected_tensors`].
    pub fn tensors(&self, dtype: DType) -> impl Iterator<Item = Result<RawTensor, DecoderError>> {
        self.vars.iter().map(move |(name, var)| {
            let values = var.flatten_all()?.to_vec1::<f32>()?;
            Ok(RawTensor::from_f32(name, var.dims(), &values, dtype))
        })
    }

    /// Hidden states `[N, T, H]` after the final norm, for token ids `[N, T]` (u32).
    ///
    /// Shorter sequences are padded on the right with any valid id: attention is causal, so what stands in the padding
    /// never reaches a real token. The states at padded positions are meaningless and must be masked by the loss.
    ///
    /// # Errors
    /// When T exceeds the model's positions, an id is outside of the vocabulary, or the device runs out of memory.
    pub fn forward(&self, ids: &Tensor) -> Result<Tensor, DecoderError> {
        let (sequences, length) = ids.dims2()?;
        if length > self.config.max_position_embeddings {
            let limit = self.config.max_position_embeddings;
            return Err(DecoderError::TooLong { found: length, limit });
        }
        let rotary = self.rotary(sequences, length)?;
        let mut x = self.embedding.index_select(&ids.flatten_all()?.contiguous()?, 0)?;
        for layer in &self.layers {
            x = layer.forward(&self.config, &x, &rotary)?;
        }
        let x = ops::rms_norm(&x, &self.norm, self.config.rms_norm_eps)?;
        Ok(x.reshape((sequences, length, self.config.hidden_size))?)
    }

    /// Logits `[.., V]` of hidden states `[.., H]`.
    ///
    /// # Errors
    /// When the last dimension is not H, or the device runs out of memory.
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor, DecoderError> {
        let mut dims = hidden.dims().to_vec();
        let flat = hidden.reshape(((), self.config.hidden_size))?.matmul(&self.head.t()?)?;
        if let Some(last) = dims.last_mut() {
            *last = self.config.vocab_size;
        }
        Ok(flat.reshape(dims)?)
    }

    fn rotary(&self, sequences: usize, length: usize) -> Result<Rotary, DecoderError> {
        let inv_freq = self.config.inv_freq();
        let half = inv_freq.len();
        let (mut cos, mut sin) = (vec![0.0; length * half], vec![0.0; length * half]);
        for (position, (cos, sin)) in cos.chunks_mut(half).zip(sin.chunks_mut(half)).enumerate() {
            math::rope_row(position, &inv_freq, cos, sin);
        }
        Ok(Rotary::new(sequences, length, cos, sin, &self.device)?)
    }
}

#[cfg(test)]
pub(crate) mod tests;
