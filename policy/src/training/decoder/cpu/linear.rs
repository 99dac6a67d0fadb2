//! Linear maps y = x · Wᵀ + b.

use rayon::prelude::*;

use super::matmul::{MatrixView, Onto, Threads, product};
use super::task_rows;
use crate::math;
use crate::training::decoder::parameter_map::LinearPlace;

/// A linear map with its values.
#[derive(Clone, Copy)]
pub(super) struct DecoderLinear<'a> {
    place: &'a LinearPlace,
    /// Weight as it is published, `[output, input]`.
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl<'a> DecoderLinear<'a> {
    pub(super) fn new(place: &'a LinearPlace, weights: &[&'a [f32]]) -> Self {
        Self { place, weight: weights[place.weight], bias: place.bias.map(|bias| weights[bias]) }
    }

    fn weight(&self) -> MatrixView<'a> {
        MatrixView::new(self.weight, self.place.output, self.place.input)
    }

    /// `[rows, input]` to `[rows, output]`.
    pub(super) fn forward(&self, x: &[f32], y: &mut [f32], onto: Onto) {
        let (input, output) = (self.place.input, self.place.output);
        let rows = x.len() / input;
        product(MatrixView::new(x, rows, input), self.weight().t(), y, onto, Threads::All);
        if let Some(bias) = self.bias {
            y.par_chunks_mut(task_rows(output) * output).for_each(|rows| {
                rows.chunks_exact_mut(output).for_each(|row| math::axpy(row, 1.0, bias));
            });
        }
    }

    /// Adds the gradients of weight and bias.
    pub(super) fn add_gradients(&self, x: &[f32], dy: &[f32], gradients: &mut [&mut [f32]]) {
        let (input, output) = (self.place.input, self.place.output);
        let rows = x.len() / input;
        let (x, d) = (MatrixView::new(x, rows, input), MatrixView::new(dy, rows, output).t());
        product(d, x, gradients[self.place.weight], Onto::Add, Threads::All);
        if let Some(bias) = self.place.bias {
            add_column_sums(dy, gradients[bias]);
        }
    }

    /// Gradient of the input.
    pub(super) fn backward(&self, dy: &[f32], dx: &mut [f32], onto: Onto) {
        let rows = dy.len() / self.place.output;
        product(MatrixView::new(dy, rows, self.place.output), self.weight(), dx, onto, Threads::All);
    }
}

/// Adds the sum of all rows to `sums`.
fn add_column_sums(rows: &[f32], sums: &mut [f32]) {
    let width = sums.len();
    let part = |rows: &[f32]| {
        let mut sums = vec![0.0; width];
        rows.chunks_exact(width).for_each(|row| math::axpy(&mut sums, 1.0, row));
        sums
    };
    let parts: Vec<Vec<f32>> = rows.par_chunks(task_rows(width) * width).map(part).collect();
    parts.iter().for_each(|part| math::axpy(sums, 1.0, part));
}
