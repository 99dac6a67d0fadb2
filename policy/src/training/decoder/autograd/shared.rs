//! What all layers of a pass share.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};

use crate::model::config::ModelConfig;
use crate::training::decoder::batch::Batch;

/// The pack's sequences, and tensors made of them once.
pub(super) struct PackTensors<'a> {
    pub(super) sequences: &'a [Range<usize>],
    pub(super) rotary: Rotary,
}

/// cos and sin of every row's angles, `[rows, 1, head_dim / 2]`.
pub(super) struct Rotary {
    pub(super) cos: Tensor,
    pub(super) sin: Tensor,
}

impl<'a> PackTensors<'a> {
    pub(super) fn new(config: &ModelConfig, batch: &'a Batch, device: &Device) -> Result<Self> {
        Ok(Self { sequences: &batch.sequences, rotary: Rotary::new(config, batch, device)? })
    }
}

impl Rotary {
    fn new(config: &ModelConfig, batch: &Batch, device: &Device) -> Result<Self> {
        let half = config.head_dim / 2;
        let angles = (0..batch.rows()).map(|row| batch.angles(row, half));
        let (cos, sin): (Vec<&[f32]>, Vec<&[f32]>) = angles.unzip();
        let table = |rows: &[&[f32]]| Tensor::from_vec(rows.concat(), (rows.len(), 1, half), device);
        Ok(Self { cos: table(&cos)?, sin: table(&sin)? })
    }
}
