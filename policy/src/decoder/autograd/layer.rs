//! One decoder layer as a graph.

use candle_core::{Device, Result, Tensor};

use super::ops;
use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::decoder::batch::Batch;
use crate::decoder::places::{LayerPlace, LinearPlace};

/// cos and sin of every row's angles, `[rows, 1, head_dim / 2]`.
pub(super) struct Rotary {
    pub(super) cos: Tensor,
    pub(super) sin: Tensor,
}

impl Rotary {
    pub(super) fn new(config: &ModelConfig, batch: &Batch, device: &Device) -> Result<Self> {
        let half = config.head_dim / 2;
        let angles = (0..batch.rows()).map(|row| batch.angles(row, half));
        let (cos, sin): (Vec<&[f32]>, Vec<&[f32]>) = angles.unzip();
        let table = |rows: &[&[f32]]| Tensor::from_vec(rows.concat(), (rows.len(), 1, half), device);
        Ok(Self { cos: table(&cos)?, sin: table(&sin)? })
    }
}

/// A layer's variables.
pub(super) struct Layer<'a> {
    decoder: &'a Decoder,
    place: &'a LayerPlace,
}

impl<'a> Layer<'a> {
    pub(super) fn new(decoder: &'a Decoder, place: &'a LayerPlace) -> Self {
        Self { decoder, place }
    }

    fn var(&self, index: usize) -> &Tensor {
        self.decoder.vars[index].1.as_tensor()
    }

    /// Two-dimensional, so that candle runs one matrix product.
    fn linear(&self, place: &LinearPlace, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.var(place.weight).t()?)?;
        match place.bias {
            Some(bias) => y.broadcast_add(self.var(bias)),
            None => Ok(y),
        }
    }

    /// Residual stream `[rows, hidden]` to the same.
    pub(super) fn forward(&self, x: &Tensor, batch: &Batch, rotary: &Rotary) -> Result<Tensor> {
        let (place, config) = (self.place, &self.decoder.config);
        let norm = |x: &Tensor, index: usize| ops::rms_norm(x, self.var(index), config.rms_norm_eps);
        let normed = norm(x, place.input_norm)?;
        let (mut q, mut k) = (self.linear(&place.q, &normed)?, self.linear(&place.k, &normed)?);
        let v = self.linear(&place.v, &normed)?;
        if let Some(index) = place.q_norm {
            q = norm(&q, index)?;
        }
        if let Some(index) = place.k_norm {
            k = norm(&k, index)?;
        }
        let (q, k) = (ops::rope(&q, config.head_dim, rotary)?, ops::rope(&k, config.head_dim, rotary)?);
        let attended = ops::attention(&q, &k, &v, config, &batch.sequences)?;
        let x = (x + self.linear(&place.o, &attended)?)?;
        let normed = norm(&x, place.post_norm)?;
        let inner = (self.linear(&place.gate, &normed)?.silu()? * self.linear(&place.up, &normed)?)?;
        x + self.linear(&place.down, &inner)?
    }
}
