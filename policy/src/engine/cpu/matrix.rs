//! Linear weights and their product with a batch of rows.

use gemm::Parallelism;

/// Products with no more outputs than this use other block sizes in the library for large batches than for small ones.
const SMALL_OUTPUT: usize = 64;
/// Rows per product when there are few outputs: within the library's own limit for small block sizes.
const SMALL_BATCH: usize = 64;

/// Rows that a buffer of `rows` rows must have for [`Matrix::multiply`].
///
/// The library has a separate path, with another order of summation, for a single row: an even number of rows never takes it.
pub(super) fn padded_rows(rows: usize) -> usize {
    rows.next_multiple_of(2)
}

/// One or more linear weights with the same input, side by side.
pub(super) struct Matrix {
    input: usize,
    output: usize,
    /// `[input, output]`: transposed when loaded, so that products need no packing of the weights.
    data: Vec<f32>,
}

impl Matrix {
    /// Joins weights of shape `[out, input]`.
    pub(super) fn new(input: usize, parts: &[(usize, &[f32])]) -> Self {
        let output = parts.iter().map(|(out, _)| out).sum();
        let mut data = vec![0.0; input * output];
        let mut column = 0;
        for (out, weight) in parts {
            debug_assert_eq!(weight.len(), out * input);
            for row in weight.chunks_exact(input) {
                for (i, value) in row.iter().enumerate() {
                    data[i * output + column] = *value;
                }
                column += 1;
            }
        }
        Self { input, output, data }
    }

    pub(super) fn output(&self) -> usize {
        self.output
    }

    /// Copies row `index` of the weight as it was before it was transposed.
    pub(super) fn weight_row(&self, index: usize, row: &mut [f32]) {
        for (i, value) in row.iter_mut().enumerate() {
            *value = self.data[i * self.output + index];
        }
    }

    /// y = x · Wᵀ, or y += x · Wᵀ. Row r of x starts at `r * x_stride`; y is `[rows, output]`.
    ///
    /// `rows` must come from [`padded_rows`]; then each row of y depends on its row of x alone. Blocks of the inner dimension
    /// are chosen by the library from the shape of W only, as long as the batch is cut for small outputs, which is done here.
    pub(super) fn multiply(&self, x: &[f32], x_stride: usize, rows: usize, y: &mut [f32], accumulate: bool) {
        assert!(rows.is_multiple_of(2) && x_stride >= self.input, "rows are padded and do not overlap");
        assert!(rows == 0 || x.len() >= (rows - 1) * x_stride + self.input, "x holds every row");
        assert!(y.len() >= rows * self.output, "y holds every row");
        let batch = if self.output <= SMALL_OUTPUT { SMALL_BATCH } else { rows.max(1) };
        let parallelism = match rayon::current_num_threads() {
            1 => Parallelism::None,
            threads => Parallelism::Rayon(threads),
        };
        for start in (0..rows).step_by(batch) {
            let count = batch.min(rows - start);
            // SAFETY: the assertions above keep every row of x and y that is addressed here inside of its slice, and the
            // weights are `input * output` long by construction. y is borrowed mutably, so nothing overlaps it.
            unsafe {
                gemm::gemm(
                    self.output,
                    count,
                    self.input,
                    y.as_mut_ptr().add(start * self.output),
                    self.output as isize,
                    1,
                    accumulate,
                    self.data.as_ptr(),
                    self.output as isize,
                    1,
                    x.as_ptr().add(start * x_stride),
                    x_stride as isize,
                    1,
                    1.0f32,
                    1.0f32,
                    false,
                    false,
                    false,
                    parallelism,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_does_not_depend_on_its_batch() {
        for (input, output) in [(5, 3), (128, 64), (1500, 40), (1500, 200), (96, 129)] {
            let value = |i: usize| ((i * 7919) % 1000) as f32 / 500.0 - 1.0;
            let weight: Vec<f32> = (0..input * output).map(value).collect();
            let matrix = Matrix::new(input, &[(output, &weight)]);
            let x: Vec<f32> = (0..130 * input).map(|i| value(i + 3)).collect();
            let mut whole = vec![0.0; 130 * output];
            matrix.multiply(&x, input, 130, &mut whole, false);
            for rows in [2, 6, 64, 66] {
                let mut part = vec![0.0; rows * output];
                matrix.multiply(&x, input, rows, &mut part, false);
                assert!(part == whole[..part.len()], "{input}x{output}, {rows} rows");
            }
            let exact: f64 = (0..input).map(|i| f64::from(x[input + i]) * f64::from(weight[i])).sum();
            assert!((f64::from(whole[output]) - exact).abs() < 1e-3);
            let mut row = vec![0.0; input];
            matrix.weight_row(2, &mut row);
            assert_eq!(row, weight[2 * input..3 * input]);
        }
    }
}
