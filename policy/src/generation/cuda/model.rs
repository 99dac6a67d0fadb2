//! A decoder's weights on a device.

use std::sync::Arc;

use parking_lot::Mutex;

use super::device::{CudaDevice, DeviceBuffer};
use super::driver::Address;
use super::matrix::{CudaMatrix, OperandLayout, upload_vector};
use crate::generation::EngineError;
use crate::math;
use crate::model::config::ModelConfig;
use crate::model::weights::Weights;
use crate::model::weights::named::vector;

/// Positions whose angles are computed at first.
const FIRST_POSITIONS: usize = 1024;

/// A layer's weights on the device.
pub(super) struct CudaLayer {
    pub(super) input_norm: DeviceBuffer,
    pub(super) qkv: CudaMatrix,
    pub(super) qk_norm: Option<(DeviceBuffer, DeviceBuffer)>,
    pub(super) o: CudaMatrix,
    pub(super) post_norm: DeviceBuffer,
    pub(super) gate_up: CudaMatrix,
    pub(super) down: CudaMatrix,
}

/// A model whose weights are all on the device.
pub(super) struct CudaModel {
    pub(super) device: Arc<CudaDevice>,
    pub(super) config: ModelConfig,
    pub(super) recipe: OperandLayout,
    /// Table of embeddings, `[vocab, hidden]`.
    embedding: Arc<CudaMatrix>,
    pub(super) layers: Vec<CudaLayer>,
    pub(super) norm: DeviceBuffer,
    /// The embedding itself when the two are tied, and products take it as it was published.
    head: Arc<CudaMatrix>,
    angles: Mutex<Angles>,
}

/// Cosines, then sines, of every position so far: two times `[positions, head_dim / 2]`.
struct Angles {
    inv_freq: Vec<f32>,
    positions: usize,
    table: Option<DeviceBuffer>,
}

impl CudaLayer {
    fn load(
        device: &Arc<CudaDevice>,
        config: &ModelConfig,
        weights: &Weights,
        recipe: OperandLayout,
        index: usize,
    ) -> Result<Self, EngineError> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let norm = |part: &str| upload_vector(device, &vector(weights, &format!("{}.weight", name(part)))?);
        let matrix = |parts: &[&str], biased: bool| {
            let names: Vec<_> = parts.iter().map(|part| name(part)).collect();
            CudaMatrix::load(device, weights, &names, biased, recipe)
        };
        let qkv = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
        let qk_norm = || Ok::<_, EngineError>((norm("self_attn.q_norm")?, norm("self_attn.k_norm")?));
        Ok(Self {
            input_norm: norm("input_layernorm")?,
            qkv: matrix(&qkv, config.has_qkv_bias())?,
            qk_norm: config.has_qk_norm().then(qk_norm).transpose()?,
            o: matrix(&["self_attn.o_proj"], config.has_o_bias())?,
            post_norm: norm("post_attention_layernorm")?,
            gate_up: matrix(&["mlp.gate_proj", "mlp.up_proj"], config.mlp_bias)?,
            down: matrix(&["mlp.down_proj"], config.mlp_bias)?,
        })
    }
}

impl CudaModel {
    pub(super) fn load(
        device: &Arc<CudaDevice>,
        config: &ModelConfig,
        weights: &Weights,
        recipe: OperandLayout,
    ) -> Result<Self, EngineError> {
        weights.check(config)?;
        let table = "model.embed_tokens";
        let embedding = Arc::new(CudaMatrix::load_table(device, weights, table, recipe)?);
        let head = if config.tie_word_embeddings && embedding.is_operand(recipe) {
            Arc::clone(&embedding)
        } else {
            let name = if config.tie_word_embeddings { table } else { "lm_head" };
            Arc::new(CudaMatrix::load(device, weights, &[name.to_owned()], false, recipe)?)
        };
        let layers = (0..config.num_hidden_layers)
            .map(|index| CudaLayer::load(device, config, weights, recipe, index));
        Ok(Self {
            device: Arc::clone(device),
            config: config.clone(),
            recipe,
            embedding,
            layers: layers.collect::<Result<_, _>>()?,
            norm: upload_vector(device, &vector(weights, "model.norm.weight")?)?,
            head,
            angles: Mutex::new(Angles { inv_freq: config.inv_freq(), positions: 0, table: None }),
        })
    }

    pub(super) fn embedding(&self) -> &CudaMatrix {
        &self.embedding
    }

    pub(super) fn head(&self) -> &CudaMatrix {
        &self.head
    }

    /// Where the cosines and the sines of the first `positions` positions lie. They stay there
    /// until the next call.
    ///
    /// Fails when the device has no room for them, or fails.
    pub(super) fn angles(&self, positions: usize) -> Result<[Address; 2], EngineError> {
        let mut angles = self.angles.lock();
        let half = angles.inv_freq.len();
        if positions > angles.positions || angles.table.is_none() {
            let all = self.config.max_position_embeddings;
            let count = positions.next_power_of_two().clamp(FIRST_POSITIONS.min(all), all.max(positions));
            let (mut cos, mut sin) = (vec![0.0; count * half], vec![0.0; count * half]);
            for (position, (cos, sin)) in
                cos.chunks_exact_mut(half).zip(sin.chunks_exact_mut(half)).enumerate()
            {
                math::rope_row(position, &angles.inv_freq, cos, sin);
            }
            cos.append(&mut sin);
            angles.table = Some(upload_vector(&self.device, &cos)?);
            angles.positions = count;
        }
        let table = angles.table.as_ref().map_or(0, DeviceBuffer::address);
        Ok([table, table + (angles.positions * half * size_of::<f32>()) as u64])
    }
}
