//! One decoder layer as a graph.

use candle_core::{Result, Tensor};

use super::ops;
use super::shared::Shared;
use crate::decoder::Decoder;
use crate::decoder::places::{LayerPlace, LinearPlace};

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

    /// Two-dimensional, so that candle runs one matrix product. `x` is an [`ops::operand`].
    fn linear(&self, place: &LinearPlace, x: &Tensor) -> Result<Tensor> {
        let weight = ops::operand(self.var(place.weight), self.decoder.compute)?;
        let y = ops::product(x, &weight.t()?)?;
        match place.bias {
            Some(bias) => y.broadcast_add(self.var(bias)),
            None => Ok(y),
        }
    }

    /// Residual stream `[rows, hidden]` to the same.
    pub(super) fn forward(&self, x: &Tensor, shared: &Shared<'_>) -> Result<Tensor> {
        let (place, config, compute) = (self.place, &self.decoder.config, self.decoder.compute);
        let norm = |x: &Tensor, index: usize| ops::rms_norm(x, self.var(index), config.rms_norm_eps);
        let normed = ops::operand(&norm(x, place.input_norm)?, compute)?;
        let (mut q, mut k) = (self.linear(&place.q, &normed)?, self.linear(&place.k, &normed)?);
        let v = self.linear(&place.v, &normed)?;
        if let Some(index) = place.q_norm {
            q = norm(&q, index)?;
        }
        if let Some(index) = place.k_norm {
            k = norm(&k, index)?;
        }
        let rope = |x: &Tensor| ops::rope(x, config.head_dim, &shared.rotary);
        let attended = ops::attention(&rope(&q)?, &rope(&k)?, &v, config, shared, compute)?;
        let x = (x + self.linear(&place.o, &ops::operand(&attended, compute)?)?)?;
        let normed = ops::operand(&norm(&x, place.post_norm)?, compute)?;
        let inner = (self.linear(&place.gate, &normed)?.silu()? * self.linear(&place.up, &normed)?)?;
        x + self.linear(&place.down, &ops::operand(&inner, compute)?)?
    }
}
