//! Several rows read side by side.

use std::marker::PhantomData;

/// N rows of one length, of which the same place is read in each.
///
/// With a slice for each row the compiler would check each row's bounds at each step, which costs a
/// kernel a third of its rate; here there is one bound.
#[derive(Clone, Copy)]
pub(crate) struct Abreast<'a, T, const N: usize> {
    starts: [*const T; N],
    len: usize,
    rows: PhantomData<&'a [T]>,
}

impl<'a, T, const N: usize> Abreast<'a, T, N> {
    /// Reads the first `len` of each row.
    ///
    /// Panics when a row is shorter.
    #[inline(always)]
    pub(crate) fn new(rows: [&'a [T]; N], len: usize) -> Self {
        Self { starts: rows.map(|row| row[..len].as_ptr()), len, rows: PhantomData }
    }

    /// What is at `index` of each row.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> [&'a T; N] {
        assert!(index < self.len, "the place is within the rows");
        // SAFETY: every row is `len` long, borrowed for 'a, and the index is below it.
        self.starts.map(|start| unsafe { &*start.add(index) })
    }
}
