//! Matrix products of slices, in any of their transpositions.

use gemm::Parallelism;
use rayon::prelude::*;

/// Rows of a product that one thread computes by itself, about.
///
/// Threads that share one product wait for each other at every block of it; those that have
/// rows of their own do not. They pack the right side once each, which counts for little
/// beside so many rows.
const PART_ROWS: usize = 1024;
/// Rows of the smallest part; where there are not as many for every thread, all share the product.
const MIN_PART_ROWS: usize = 64;
/// Parts begin at multiples of this, as rows are multiplied by so many.
const ROW_STEP: usize = 8;

/// A matrix in a slice: element (r, c) stands at `r * row_step + c * column_step`.
#[derive(Clone, Copy)]
pub(super) struct MatrixView<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a> MatrixView<'a> {
    /// A row-major matrix without gaps.
    pub(super) fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// A row-major matrix whose rows begin `row_step` apart.
    pub(super) fn strided(values: &'a [f32], rows: usize, columns: usize, row_step: usize) -> Self {
        assert!(values.len() >= extent(rows, columns, row_step), "the slice holds the whole matrix");
        Self { values, rows, columns, row_step, column_step: 1 }
    }

    /// Number of rows of the view.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// `count` rows from `first`.
    fn part(self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.rows, "a part lies within the matrix");
        Self { values: &self.values[first * self.row_step..], rows: count, ..self }
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
pub(super) fn product(a: MatrixView<'_>, b: MatrixView<'_>, y: &mut [f32], onto: Onto, threads: Threads) {
    let threads = match threads {
        Threads::One => 1,
        Threads::All => rayon::current_num_threads(),
    };
    match part_rows(a.rows, threads) {
        Some(rows) if b.columns > 0 => {
            let parts = y.par_chunks_mut(rows * b.columns).enumerate();
            parts.for_each(|(index, y)| {
                let a = a.part(index * rows, y.len() / b.columns);
                multiply(a, b, y, onto, Parallelism::None);
            });
        }
        _ if threads > 1 => multiply(a, b, y, onto, Parallelism::Rayon(threads)),
        _ => multiply(a, b, y, onto, Parallelism::None),
    }
}

/// Rows of each thread's parts of a product of `rows`; none where the threads share it.
fn part_rows(rows: usize, threads: usize) -> Option<usize> {
    let parts = rows.div_ceil(PART_ROWS).next_multiple_of(threads);
    let part = rows.div_ceil(parts.max(1)).next_multiple_of(ROW_STEP);
    (threads > 1 && part >= MIN_PART_ROWS).then_some(part)
}

fn multiply(a: MatrixView<'_>, b: MatrixView<'_>, y: &mut [f32], onto: Onto, parallelism: Parallelism) {
    assert_eq!(a.columns, b.rows, "the inner sides of a product are equal");
    assert_eq!(y.len(), a.rows * b.columns, "the destination has the product's size");
    // SAFETY: views are checked against their slices when made, transposing keeps the addressed
    // elements, and `y` was checked above; it is borrowed mutably, so that it overlaps neither.
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
    fn parts_are_even_and_cover_all_rows() {
        assert_eq!(part_rows(2048, 1), None);
        assert_eq!(part_rows(2048, 2), Some(1024));
        assert_eq!(part_rows(4096, 2), Some(1024));
        assert_eq!(part_rows(384, 2), Some(192));
        assert_eq!(part_rows(1100, 2), Some(552));
        assert_eq!(part_rows(384, 16), None, "24 rows each are too few");
        assert_eq!(part_rows(0, 2), None);
    }

    #[test]
    fn parts_make_the_whole() {
        let (m, k, n) = (1100, 3, 5);
        let a: Vec<f32> = (0..m * k).map(|i| (i as f32 * 0.7).sin()).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i as f32 * 1.1).cos()).collect();
        for a in [MatrixView::new(&a, m, k), MatrixView::new(&a, k, m).t()] {
            let (mut parts, mut whole) = (vec![1.0; m * n], vec![1.0; m * n]);
            let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            two.install(|| product(a, MatrixView::new(&b, k, n), &mut parts, Onto::Add, Threads::All));
            product(a, MatrixView::new(&b, k, n), &mut whole, Onto::Add, Threads::One);
            assert_eq!(parts, whole);
        }
    }

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
        for a in [
            MatrixView::new(&a, m, k),
            MatrixView::new(&a_t, k, m).t(),
            MatrixView::strided(&wide, m, k, k + 2),
        ] {
            for b in [MatrixView::new(&b, k, n), MatrixView::new(&b_t, n, k).t()] {
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
