//! Matrix products of slices, in any of their transpositions.

use gemm::Parallelism;

/// A matrix in a slice: element (r, c) stands at `r * row_step + c * column_step`.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a> View<'a> {
    /// A row-major matrix without gaps.
    pub(super) fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// A row-major matrix whose rows begin `row_step` apart.
    pub(super) fn strided(values: &'a [f32], rows: usize, columns: usize, row_step: usize) -> Self {
        assert!(values.len() >= extent(rows, columns, row_step), "the slice holds the whole matrix");
        Self { values, rows, columns, row_step, column_step: 1 }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The transposed matrix, without moving anything.
    pub(super) fn t(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }
}

/// Elements from the first to the last of a row-major matrix.
fn extent(rows: usize, columns: usize, row_step: usize) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row_step + columns }
}

/// What becomes of the values that a product meets in its destination.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Onto {
    Replace,
    Add,
}

/// Who works on a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    /// The caller alone: for products that are parallel tasks themselves.
    One,
    All,
}

/// Writes a · b, row-major without gaps, to `y`, or adds it.
pub(super) fn product(a: View<'_>, b: View<'_>, y: &mut [f32], onto: Onto, threads: Threads) {
    assert_eq!(a.columns, b.rows, "the inner sides of a product are equal");
    assert_eq!(y.len(), a.rows * b.columns, "the destination has the product's size");
    let parallelism = match (threads, rayon::current_num_threads()) {
        (Threads::One, _) | (_, 1) => Parallelism::None,
        (Threads::All, threads) => Parallelism::Rayon(threads),
    };
    // SAFETY: views are checked against their slices when made, transposing keeps the addressed elements, and `y` was checked
    // above; it is borrowed mutably, so that it overlaps neither.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            y.as_mut_ptr(),
            1,
            b.columns as isize,
            onto == Onto::Add,
            a.values.as_ptr(),
            a.column_step as isize,
            a.row_step as isize,
            b.values.as_ptr(),
            b.column_step as isize,
            b.row_step as isize,
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transposition_multiplies_the_same() {
        let (m, k, n) = (5, 7, 3);
        let a: Vec<f32> = (0..m * k).map(|i| (i as f32 * 0.7).sin()).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i as f32 * 1.1).cos()).collect();
        let transposed = |x: &[f32], rows: usize, columns: usize| -> Vec<f32> {
            (0..rows * columns).map(|i| x[i % rows * columns + i / rows]).collect()
        };
        let (a_t, b_t) = (transposed(&a, m, k), transposed(&b, k, n));
        let expected: Vec<f32> =
            (0..m * n).map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum()).collect();
        // Rows that begin further apart than they are long.
        let wide: Vec<f32> = a.chunks(k).flat_map(|row| [row, &[9.0; 2][..]].concat()).collect();
        for a in [View::new(&a, m, k), View::new(&a_t, k, m).t(), View::strided(&wide, m, k, k + 2)] {
            for b in [View::new(&b, k, n), View::new(&b_t, n, k).t()] {
                for threads in [Threads::One, Threads::All] {
                    let mut y = vec![1.0; m * n];
                    product(a, b, &mut y, Onto::Replace, threads);
                    product(a, b, &mut y, Onto::Add, threads);
                    assert!(y.iter().zip(&expected).all(|(y, e)| (y - 2.0 * e).abs() < 1e-5));
                }
            }
        }
    }
}
