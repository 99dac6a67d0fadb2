//! What all layers of a pass share.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};

use crate::config::ModelConfig;
use crate::decoder::batch::Batch;

/// The pack's sequences, and tensors made of them once.
pub(super) struct Shared<'a> {
    pub(super) sequences: &'a [Range<usize>],
    pub(super) rotary: Rotary,
    /// 0 where a row may look, -∞ where it may not, `[longest, longest]`. That of a shorter sequence is a corner of it.
    mask: Tensor,
}

/// cos and sin of every row's angles, `[rows, 1, head_dim / 2]`.
pub(super) struct Rotary {
    pub(super) cos: Tensor,
    pub(super) sin: Tensor,
}

impl<'a> Shared<'a> {
    pub(super) fn new(config: &ModelConfig, batch: &'a Batch, device: &Device) -> Result<Self> {
        let longest = batch.sequences.iter().map(Range::len).max().unwrap_or(0);
        let mask = causal_mask(longest, device)?;
        Ok(Self { sequences: &batch.sequences, rotary: Rotary::new(config, batch, device)?, mask })
    }

    /// The mask of a sequence of this length, `[length, length]`.
    pub(super) fn mask(&self, length: usize) -> Result<Tensor> {
        self.mask.narrow(0, 0, length)?.narrow(1, 0, length)
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

/// Made on the device: it is too large to be sent there often.
fn causal_mask(length: usize, device: &Device) -> Result<Tensor> {
    // Positions are far below 2^32.
    let positions = Tensor::arange(0, length as u32, device)?;
    let later = positions.reshape((1, length))?.broadcast_gt(&positions.reshape((length, 1))?)?;
    let open = Tensor::zeros((length, length), DType::F32, device)?;
    later.where_cond(&Tensor::full(f32::NEG_INFINITY, (length, length), device)?, &open)
}
