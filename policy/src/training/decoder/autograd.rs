//! The training pass composed of candle's operations, for devices and precisions without kernels of our own.
//!
//! Several of candle's own fused operations return no gradient and say nothing; only operations
//! with a gradient are used here. A graph never spans more than the part of a layer before its
//! attention, the part after it, or one piece of the head: what goes in is a variable of its own,
//! and the gradient that arrives there is handed to the part before it. That bounds memory, and the
//! depth of candle's recursion over the graph.

mod attention;
mod head;
mod layer;
mod ops;
mod shared;

use candle_core::{Tensor, Var};

use super::batch::Batch;
use super::parameter_map::LayerPlace;
use super::scored::{Activations, Scores, Slopes};
use super::{Decoder, DecoderError, Gradients};
use crate::training::packed::Target;
use attention::{Attention, AttentionTensors};
use layer::AutogradLayer;
use shared::PackTensors;

/// What the way back needs.
pub(super) struct KeptTensors {
    layers: Vec<KeptLayer>,
    /// The residual stream after the last layer.
    last: Tensor,
}

enum KeptLayer {
    Input(Tensor),
    Graphs(Box<Graphs>),
}

/// A layer's two graphs.
struct Graphs {
    input: Var,
    /// Queries, keys and values, as a graph over `input`.
    projected: AttentionTensors,
    attended: Var,
    /// Of `input` and `attended`.
    output: Tensor,
}

impl Graphs {
    fn new(
        decoder: &Decoder,
        place: &LayerPlace,
        x: &Tensor,
        shared: &PackTensors<'_>,
    ) -> Result<Self, DecoderError> {
        let layer = AutogradLayer::new(decoder, place);
        let input = Var::from_tensor(x)?;
        let projected = layer.before_attention(input.as_tensor(), shared)?;
        let inputs = projected.each_ref().map(Tensor::detach);
        let attended = Var::from_tensor(&attention(decoder, shared).forward(&inputs)?)?;
        let output = layer.after_attention(input.as_tensor(), attended.as_tensor())?;
        Ok(Self { input, projected, attended, output })
    }

    /// Adds the gradients of the layer's parameters, and makes that of its input of that of its output.
    fn backward(
        self,
        decoder: &Decoder,
        place: &LayerPlace,
        shared: &PackTensors<'_>,
        d: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor, DecoderError> {
        let missing = |name: &str| DecoderError::MissingGradient { name: name.into() };
        let mut after = (self.output * d)?.sum_all()?.backward()?;
        let d_attended = after.remove(&self.attended).ok_or_else(|| missing("attention"))?.detach();
        let d_around = after.remove(&self.input).ok_or_else(|| missing("residual stream"))?.detach();
        let inputs = self.projected.each_ref().map(Tensor::detach);
        let attended = self.attended.as_detached_tensor();
        let d_inputs = attention(decoder, shared).backward(&inputs, &attended, &d_attended)?;
        let [q, k, v] = [0, 1, 2].map(|part| (&self.projected[part] * &d_inputs[part])?.sum_all());
        let mut before = ((q? + k?)? + v?)?.backward()?;
        for index in place.variables() {
            let (name, var) = &decoder.vars[index];
            let gradient = after.get(var).or_else(|| before.get(var));
            gradients.add(index, gradient.ok_or_else(|| missing(name))?)?;
        }
        let d_input = before.remove(&self.input).ok_or_else(|| missing("residual stream"))?.detach();
        Ok((d_around + d_input)?)
    }
}

fn attention<'a>(decoder: &'a Decoder, shared: &'a PackTensors<'a>) -> Attention<'a> {
    Attention { config: &decoder.config, shared, compute: decoder.compute }
}

/// Log-probs and entropies of the targets, without a graph.
pub(super) fn score(decoder: &Decoder, batch: &Batch, targets: &[Target]) -> Result<Scores, DecoderError> {
    let last = trunk(decoder, batch, drop)?;
    head::score(decoder, &last, targets)
}

/// Scores the targets, and keeps what the way back needs.
pub(super) fn score_for_training(
    decoder: &Decoder,
    batch: &Batch,
    targets: &[Target],
    activations: Activations,
) -> Result<(Scores, KeptTensors), DecoderError> {
    let mut layers = Vec::new();
    let last = trunk(decoder, batch, |graphs| {
        layers.push(match activations {
            Activations::Keep => KeptLayer::Graphs(Box::new(graphs)),
            Activations::Recompute => KeptLayer::Input(graphs.input.as_detached_tensor()),
        });
    })?;
    Ok((head::score(decoder, &last, targets)?, KeptTensors { layers, last }))
}

/// Logits of some rows, `[rows, vocabulary]`.
pub(super) fn logits(decoder: &Decoder, batch: &Batch, rows: &[usize]) -> Result<Vec<f32>, DecoderError> {
    let last = trunk(decoder, batch, drop)?;
    head::logits(decoder, &last, rows)
}

/// Runs embedding and layers, and gives the graphs of each layer to `keep`.
fn trunk(decoder: &Decoder, batch: &Batch, mut keep: impl FnMut(Graphs)) -> Result<Tensor, DecoderError> {
    let shared = PackTensors::new(&decoder.config, batch, &decoder.device)?;
    let table = decoder.vars[decoder.places.embedding].1.as_detached_tensor();
    let mut x = table.index_select(&ids(decoder, batch)?, 0)?;
    for place in &decoder.places.layers {
        let graphs = Graphs::new(decoder, place, &x, &shared)?;
        x = graphs.output.detach();
        keep(graphs);
    }
    Ok(x)
}

fn ids(decoder: &Decoder, batch: &Batch) -> Result<Tensor, DecoderError> {
    Ok(Tensor::from_slice(&batch.ids, batch.rows(), &decoder.device)?)
}

impl KeptTensors {
    /// Adds the gradient of every parameter to `gradients`.
    pub(super) fn backward(
        self,
        decoder: &Decoder,
        batch: &Batch,
        slopes: Slopes<'_>,
        gradients: &mut Gradients,
    ) -> Result<(), DecoderError> {
        let shared = PackTensors::new(&decoder.config, batch, &decoder.device)?;
        let mut d = head::backward(decoder, &self.last, slopes, gradients)?;
        for (place, kept) in decoder.places.layers.iter().zip(self.layers).rev() {
            let graphs = match kept {
                KeptLayer::Graphs(graphs) => *graphs,
                KeptLayer::Input(x) => Graphs::new(decoder, place, &x, &shared)?,
            };
            d = graphs.backward(decoder, place, &shared, d, gradients)?;
        }
        let table = decoder.vars[decoder.places.embedding].1.as_tensor();
        let d_table = table.zeros_like()?.index_add(&ids(decoder, batch)?, &d, 0)?;
        gradients.add(decoder.places.embedding, &d_table)
    }
}
