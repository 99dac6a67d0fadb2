//! Linear weights side by side that have the same input.

use std::sync::atomic::Ordering;

use super::forward_pass::CpuPass;
use super::matmul::{Multiplier, OutputMatrix, OutputUpdate, PackedActivations};
use super::matrix::CpuMatrix;
use super::shared_slice::SharedSlice;
use super::simd::Line;
use super::thread_team::TeamMember;
use crate::model::precision::Precision;
use crate::model::weights::named::{tensor, vector};
use crate::model::weights::{Weights, WeightsError};

/// Rows that a thread takes at a time, at least: a few microseconds even with one token.
const GRAIN: usize = 64;
/// Into how many chunks for each thread the rows are cut: few, as many tokens are multiplied with
/// large blocks of rows, and as processors look ahead the better, the longer the stretches of
/// memory that a thread reads.
const CHUNKS: usize = 8;
/// The same on a matrix unit.
const CHUNKS_OF_TILES: usize = 4;

/// One or more weights `[out, input]` in the numbers of a precision, and their biases.
pub(super) struct CpuLinear {
    parts: Vec<CpuMatrix>,
    precision: Precision,
    bias: Option<Vec<f32>>,
    outputs: usize,
}

impl CpuLinear {
    /// The weights `{name}.weight` side by side, with `{name}.bias` where `biased`.
    pub(super) fn load(
        weights: &Weights,
        names: &[String],
        biased: bool,
        precision: Precision,
    ) -> Result<Self, WeightsError> {
        let part =
            |name: &String| Ok(CpuMatrix::load(tensor(weights, &format!("{name}.weight"))?, precision));
        let parts = names.iter().map(part).collect::<Result<Vec<_>, WeightsError>>()?;
        let outputs = parts.iter().map(CpuMatrix::outputs).sum();
        let biases = names.iter().map(|name| vector(weights, &format!("{name}.bias")));
        let bias = biased.then(|| biases.collect::<Result<Vec<_>, _>>()).transpose()?;
        Ok(Self { parts, precision, bias: bias.map(|bias| bias.concat()), outputs })
    }

    /// Gives back the memory of what a file holds as well.
    pub(super) fn release(&self) {
        self.parts.iter().for_each(CpuMatrix::release);
    }

    /// Adds to, or sets, `y` `[tokens, outputs]` by the products of `x` `[tokens, packed input]`: a
    /// phase, or two where x is transposed before.
    pub(super) fn multiply(
        &self,
        pass: &CpuPass<'_>,
        worker: &TeamMember<'_>,
        multiplier: &mut Multiplier,
        x: SharedSlice<'_, Line>,
        y: SharedSlice<'_>,
        update: OutputUpdate,
    ) {
        let inputs = self.parts[0].inputs();
        let tokens = y.len() / self.outputs;
        let packing = multiplier.packing(self.precision);
        let amx = packing.amx();
        assert_eq!(x.len(), tokens * packing.lines(inputs), "y is a row for each of x");
        let x = amx.map_or(x, |amx| pass.transposed(worker, amx, x, inputs));
        let chunks = worker.threads() * if amx.is_some() { CHUNKS_OF_TILES } else { CHUNKS };
        let grain = self.outputs.div_ceil(chunks).next_multiple_of(GRAIN);
        worker.phase(self.outputs, grain, |chunk| {
            // SAFETY: x was written in a phase before, and the columns of this chunk are this thread's alone.
            let (x, cells) = unsafe { (x.read(0..x.len()), y.cells()) };
            let x = match amx {
                Some(amx) => PackedActivations::transposed(x, tokens, inputs, amx),
                None => PackedActivations::new(x, inputs, packing),
            };
            let mut update = update;
            if let Some(bias) = &self.bias {
                for row in cells.chunks_exact(self.outputs) {
                    for (cell, bias) in row[chunk.clone()].iter().zip(&bias[chunk.clone()]) {
                        let before = match update {
                            OutputUpdate::Set => 0.0,
                            OutputUpdate::Add => f32::from_bits(cell.load(Ordering::Relaxed)),
                        };
                        cell.store((before + bias).to_bits(), Ordering::Relaxed);
                    }
                }
                update = OutputUpdate::Add;
            }
            let mut start = 0;
            for part in &self.parts {
                let end = start + part.outputs();
                let rows = chunk.start.max(start)..chunk.end.min(end);
                if rows.start < rows.end {
                    let y = OutputMatrix::shared(cells, self.outputs).skip(rows.start);
                    multiplier.product(part.rows(), rows.start - start..rows.end - start, x, y, update);
                }
                start = end;
            }
        });
    }
}
