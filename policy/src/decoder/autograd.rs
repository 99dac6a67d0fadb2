//! The training pass composed of candle's operations, for devices and precisions without kernels of our own.
//!
//! Several of candle's own fused operations return no gradient and say nothing; only operations with a gradient are used
//! here. The graph never spans more than one layer or one piece of the head: a layer's input is a variable of its own,
//! and the gradient that arrives there is handed to the layer before it. That bounds memory, and the depth of candle's
//! recursion over the graph.

mod head;
mod layer;
mod ops;
mod shared;

use candle_core::{Tensor, Var};

use super::batch::Batch;
use super::scored::{Activations, Scores, Slopes};
use super::{Decoder, Gradients};
use crate::error::DecoderError;
use crate::packed::Target;
use layer::Layer;
use shared::Shared;

/// What the way back needs.
pub(super) struct Kept {
    layers: Vec<KeptLayer>,
    /// The residual stream after the last layer.
    last: Tensor,
}

enum KeptLayer {
    Input(Tensor),
    /// Input and output, which hold the graph between them.
    Graph(Var, Tensor),
}

/// Scores the targets.
pub(super) fn score(decoder: &Decoder, batch: &Batch, targets: &[Target]) -> Result<Scores, DecoderError> {
    let last = trunk(decoder, batch, |_| ())?;
    head::score(decoder, &last, targets)
}

/// Scores the targets, and keeps what the way back needs.
pub(super) fn score_for_training(
    decoder: &Decoder,
    batch: &Batch,
    targets: &[Target],
    activations: Activations,
) -> Result<(Scores, Kept), DecoderError> {
    let mut layers = Vec::new();
    let last = trunk(decoder, batch, |(input, output)| {
        layers.push(match activations {
            Activations::Keep => KeptLayer::Graph(input, output),
            Activations::Recompute => KeptLayer::Input(input.as_detached_tensor()),
        });
    })?;
    Ok((head::score(decoder, &last, targets)?, Kept { layers, last }))
}

/// Logits of some rows, `[rows, vocabulary]`.
pub(super) fn logits(decoder: &Decoder, batch: &Batch, rows: &[usize]) -> Result<Vec<f32>, DecoderError> {
    let last = trunk(decoder, batch, |_| ())?;
    head::logits(decoder, &last, rows)
}

/// Runs embedding and layers, and shows input and output of each layer to `keep`.
fn trunk(
    decoder: &Decoder,
    batch: &Batch,
    mut keep: impl FnMut((Var, Tensor)),
) -> Result<Tensor, DecoderError> {
    let shared = Shared::new(&decoder.config, batch, &decoder.device)?;
    let table = decoder.vars[decoder.places.embedding].1.as_detached_tensor();
    let mut x = table.index_select(&ids(decoder, batch)?, 0)?;
    for place in &decoder.places.layers {
        let input = Var::from_tensor(&x)?;
        let output = Layer::new(decoder, place).forward(input.as_tensor(), &shared)?;
        x = output.detach();
        keep((input, output));
    }
    Ok(x)
}

fn ids(decoder: &Decoder, batch: &Batch) -> Result<Tensor, DecoderError> {
    Ok(Tensor::from_slice(&batch.ids, batch.rows(), &decoder.device)?)
}

impl Kept {
    /// Adds the gradient of every parameter to `gradients`.
    pub(super) fn backward(
        self,
        decoder: &Decoder,
        batch: &Batch,
        slopes: Slopes<'_>,
        gradients: &mut Gradients,
    ) -> Result<(), DecoderError> {
        let shared = Shared::new(&decoder.config, batch, &decoder.device)?;
        let mut d = head::backward(decoder, &self.last, slopes, gradients)?;
        for (place, kept) in decoder.places.layers.iter().zip(self.layers).rev() {
            let (input, output) = match kept {
                KeptLayer::Graph(input, output) => (input, output),
                KeptLayer::Input(x) => {
                    let input = Var::from_tensor(&x)?;
                    let output = Layer::new(decoder, place).forward(input.as_tensor(), &shared)?;
                    (input, output)
                }
            };
            let mut found = (output * d)?.sum_all()?.backward()?;
            for index in place.variables() {
                let (name, var) = &decoder.vars[index];
                let gradient = found.get(var);
                let missing = || DecoderError::MissingGradient { name: name.clone() };
                gradients.add(index, gradient.ok_or_else(missing)?)?;
            }
            let missing = || DecoderError::MissingGradient { name: "residual stream".into() };
            d = found.remove(&input).ok_or_else(missing)?.detach();
        }
        let table = decoder.vars[decoder.places.embedding].1.as_tensor();
        let d_table = table.zeros_like()?.index_add(&ids(decoder, batch)?, &d, 0)?;
        gradients.add(decoder.places.embedding, &d_table)
    }
}
