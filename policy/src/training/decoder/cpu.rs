//! The training pass on the CPU: kernels and their backward by hand.
//!
//! Every value is row-major f32. Sums run in an order that depends on shapes alone, so that a
//! result has the same bits whatever the number of threads; matrix products of the library behind
//! `matmul` keep to that too.

mod attention;
mod buffer;
mod head;
mod heads;
mod layer;
mod linear;
mod matmul;
mod parameters;
mod rms_norm;
mod swiglu;
mod workspace;

pub(super) use workspace::WorkspaceSlot;

use super::batch::Batch;
use super::scored::{Activations, Scores, Slopes};
use super::{Decoder, DecoderError, Gradients};
use crate::training::packed::Target;
use buffer::fit;
use head::DecoderHead;
use layer::{DecoderLayer, Trace};
use workspace::{BorrowedWorkspace, DecoderWorkspace};

/// Elements that one parallel task works on. Fixed, so that sums do not depend on the number of threads.
const TASK_ELEMENTS: usize = 1 << 14;

/// Rows of `width` elements in one parallel task.
fn task_rows(width: usize) -> usize {
    (TASK_ELEMENTS / width.max(1)).max(1)
}

/// What the way back needs.
pub(super) struct KeptWorkspace<'a> {
    workspace: BorrowedWorkspace<'a>,
    /// log Σ exp of each target's logits.
    normalisers: Vec<f32>,
    activations: Activations,
}

/// Log-probs and entropies of the targets, without anything kept.
pub(super) fn score(decoder: &Decoder, batch: &Batch, targets: &[Target]) -> Result<Scores, DecoderError> {
    in_pool(|| Ok(forward(decoder, batch, targets, None, &mut decoder.workspace.lease())?.0))
}

/// Scores the targets, and keeps what the way back needs.
pub(super) fn score_for_training<'a>(
    decoder: &'a Decoder,
    batch: &Batch,
    targets: &[Target],
    activations: Activations,
) -> Result<(Scores, KeptWorkspace<'a>), DecoderError> {
    in_pool(|| {
        let mut workspace = decoder.workspace.lease();
        let (scores, normalisers) = forward(decoder, batch, targets, Some(activations), &mut workspace)?;
        Ok((scores, KeptWorkspace { workspace, normalisers, activations }))
    })
}

/// Scores of the targets, and the normalisers of their logits.
fn forward(
    decoder: &Decoder,
    batch: &Batch,
    targets: &[Target],
    activations: Option<Activations>,
    workspace: &mut DecoderWorkspace,
) -> Result<(Scores, Vec<f32>), DecoderError> {
    let parameters = parameters::lock(decoder.vars());
    let weights = parameters::slices(&parameters)?;
    let last = trunk(decoder, &weights, batch, activations, workspace);
    let DecoderWorkspace { residuals, head, .. } = workspace;
    Ok(DecoderHead::new(decoder, &weights, activations).score(&residuals[last], targets, head))
}

/// Logits of some rows, `[rows, vocabulary]`.
pub(super) fn logits(decoder: &Decoder, batch: &Batch, rows: &[usize]) -> Result<Vec<f32>, DecoderError> {
    in_pool(|| {
        let mut workspace = decoder.workspace.lease();
        let parameters = parameters::lock(decoder.vars());
        let weights = parameters::slices(&parameters)?;
        let last = trunk(decoder, &weights, batch, None, &mut workspace);
        Ok(DecoderHead::new(decoder, &weights, None).logits(&workspace.residuals[last], rows))
    })
}

/// Runs embedding and layers; returns which residual stream holds the result. With activations,
/// stream i is the input of layer i.
fn trunk(
    decoder: &Decoder,
    weights: &[&[f32]],
    batch: &Batch,
    activations: Option<Activations>,
    workspace: &mut DecoderWorkspace,
) -> usize {
    let layers = &decoder.places.layers;
    let (streams, traces) = match activations {
        Some(Activations::Keep) => (layers.len() + 1, layers.len()),
        Some(Activations::Recompute) => (layers.len() + 1, 1),
        None => (2, 1),
    };
    let DecoderWorkspace { residuals, traces: kept, scratch, .. } = workspace;
    // Never fewer than before: a pass that keeps nothing must not free what the next one needs.
    residuals.resize_with(streams.max(residuals.len()), Vec::new);
    let size = batch.rows() * decoder.config.hidden_size;
    residuals[..streams].iter_mut().for_each(|stream| fit(stream, size));
    kept.resize_with(traces.max(kept.len()), Trace::default);
    embed(weights[decoder.places.embedding], &batch.ids, &mut residuals[0]);
    let mut at = 0;
    for (index, place) in layers.iter().enumerate() {
        let layer = DecoderLayer::new(&decoder.config, place, weights, batch);
        let trace = &mut kept[index % traces];
        let next = (at + 1) % streams;
        let mut output = std::mem::take(&mut residuals[next]);
        layer.run(&residuals[at], trace, scratch);
        layer.finish(trace, &mut output, scratch);
        residuals[next] = output;
        at = next;
    }
    at
}

impl KeptWorkspace<'_> {
    /// Adds the gradient of every parameter to `gradients`.
    pub(super) fn backward(
        mut self,
        decoder: &Decoder,
        batch: &Batch,
        slopes: Slopes<'_>,
        gradients: &mut Gradients,
    ) -> Result<(), DecoderError> {
        in_pool(|| {
            let parameters = parameters::lock(decoder.vars());
            let weights = parameters::slices(&parameters)?;
            let mut gradients = gradients.host()?;
            let DecoderWorkspace { residuals, traces, scratch, head, d_residual } = &mut *self.workspace;
            let layers = &decoder.places.layers;
            fit(d_residual, batch.rows() * decoder.config.hidden_size);
            d_residual.fill(0.0);
            DecoderHead::new(decoder, &weights, Some(self.activations)).backward(
                &residuals[layers.len()],
                &self.normalisers,
                slopes,
                d_residual,
                &mut gradients,
                head,
            );
            for (index, place) in layers.iter().enumerate().rev() {
                let layer = DecoderLayer::new(&decoder.config, place, &weights, batch);
                let trace = match self.activations {
                    Activations::Keep => &mut traces[index],
                    Activations::Recompute => {
                        layer.run(&residuals[index], &mut traces[0], scratch);
                        &mut traces[0]
                    }
                };
                layer.backward(&residuals[index], trace, d_residual, &mut gradients, scratch);
            }
            add_rows(&batch.ids, d_residual, gradients[decoder.places.embedding]);
            Ok(())
        })
    }
}

/// Looks the rows of `ids` up in `table`.
fn embed(table: &[f32], ids: &[u32], rows: &mut [f32]) {
    let width = rows.len() / ids.len();
    for (row, id) in rows.chunks_exact_mut(width).zip(ids) {
        let start = *id as usize * width;
        row.copy_from_slice(&table[start..start + width]);
    }
}

/// Adds each row to the row of its id in `table`.
fn add_rows(ids: &[u32], rows: &[f32], table: &mut [f32]) {
    let width = rows.len() / ids.len();
    for (row, id) in rows.chunks_exact(width).zip(ids) {
        let start = *id as usize * width;
        crate::math::axpy(&mut table[start..start + width], 1.0, row);
    }
}

/// Runs `work` on a thread of the pool, from where parallel operations start at less cost than from outside.
fn in_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}
