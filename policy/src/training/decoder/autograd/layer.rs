//! One decoder layer as two graphs: before its attention, and after it.

use candle_core::{Result, Tensor};

use super::attention::AttentionTensors;
use super::ops;
use super::shared::PackTensors;
use crate::training::decoder::Decoder;
use crate::training::decoder::parameter_map::{LayerPlace, LinearPlace};

/// Finds a layer's parameters among the decoder's variables.
pub(super) struct AutogradLayer<'a> {
    decoder: &'a Decoder,
    place: &'a LayerPlace,
}

impl<'a> AutogradLayer<'a> {
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

    /// Queries, keys and values of the residual stream `[rows, hidden]`.
    pub(super) fn before_attention(&self, x: &Tensor, shared: &PackTensors<'_>) -> Result<AttentionTensors> {
        let (place, head_dim) = (self.place, self.decoder.config.head_dim);
        let normed = ops::operand(&self.norm(x, place.input_norm)?, self.decoder.compute)?;
        let (mut q, mut k) = (self.linear(&place.q, &normed)?, self.linear(&place.k, &normed)?);
        let v = self.linear(&place.v, &normed)?;
        if let Some(index) = place.q_norm {
            q = self.norm(&q, index)?;
        }
        if let Some(index) = place.k_norm {
            k = self.norm(&k, index)?;
        }
        let rope = |x: &Tensor| ops::rope(x, head_dim, &shared.rotary);
        Ok([rope(&q)?, rope(&k)?, v])
    }

    /// The residual stream after the layer, of what it was before and of what was attended to.
    pub(super) fn after_attention(&self, x: &Tensor, attended: &Tensor) -> Result<Tensor> {
        let (place, compute) = (self.place, self.decoder.compute);
        let x = (x + self.linear(&place.o, &ops::operand(attended, compute)?)?)?;
        let normed = ops::operand(&self.norm(&x, place.post_norm)?, compute)?;
        let inner = (self.linear(&place.gate, &normed)?.silu()? * self.linear(&place.up, &normed)?)?;
        x + self.linear(&place.down, &ops::operand(&inner, compute)?)?
    }

    fn norm(&self, x: &Tensor, index: usize) -> Result<Tensor> {
        ops::rms_norm(x, self.var(index), self.decoder.config.rms_norm_eps)
    }
}
