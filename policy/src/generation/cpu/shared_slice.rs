//! Numbers that the threads of a team write in turns.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::AtomicU32;

use super::simd::{LANES, Line};

/// A slice of which every thread may read and write parts, one phase after another.
///
/// What makes it sound is the same everywhere: within a phase, an element is written by the one
/// thread that took it and touched by no other, or written by nobody. A phase begins when all of
/// the one before is done, and sees what was written there. References are made within a chunk of
/// a phase and not kept beyond it: a thread that comes late is between two phases while others
/// are in one far ahead.
pub(super) struct SharedSlice<'a, T = f32> {
    data: *mut T,
    len: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

impl<T> Clone for SharedSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedSlice<'_, T> {}

// SAFETY: it is a slice of plain numbers, and access is unsafe under the rule above.
unsafe impl<T: Send> Send for SharedSlice<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    pub(super) fn new(data: &'a mut [T]) -> Self {
        Self { data: data.as_mut_ptr(), len: data.len(), lifetime: PhantomData }
    }

    /// Numbers behind a pointer that stays valid for as long as `'a`.
    ///
    /// # Safety
    /// `data` points to `len` numbers that nothing else uses for as long as `'a`, but other
    /// values made from it.
    pub(super) unsafe fn from_raw(data: *mut T, len: usize) -> Self {
        Self { data, len, lifetime: PhantomData }
    }

    /// How many there are.
    pub(super) fn len(self) -> usize {
        self.len
    }

    /// Where it begins: two of the same memory are equal.
    pub(super) fn address(self) -> *mut T {
        self.data
    }

    /// The first `at`, and the rest.
    pub(super) fn split_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.len, "{at} of {}", self.len);
        // SAFETY: within the slice or right after it.
        let behind = unsafe { self.data.add(at) };
        (Self { len: at, ..self }, Self { data: behind, len: self.len - at, ..self })
    }

    /// A part to read.
    ///
    /// # Safety
    /// In a chunk of a phase, for as long as the chunk lasts, in a phase in which nobody writes to it.
    pub(super) unsafe fn read(self, range: Range<usize>) -> &'a [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: within the slice; nobody writes to it, says the caller.
        unsafe { std::slice::from_raw_parts(self.data.add(range.start), range.len()) }
    }

    /// A part to write.
    ///
    /// # Safety
    /// In a chunk of a phase, for as long as the chunk lasts, in a phase in which nobody else
    /// touches it; the caller has no other reference into it.
    pub(super) unsafe fn write(self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: within the slice; nobody else touches it, says the caller.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

impl<'a> SharedSlice<'a, Line> {
    /// The same memory, number by number.
    pub(super) fn numbers(self) -> SharedSlice<'a> {
        SharedSlice { data: self.data.cast(), len: self.len * LANES, lifetime: PhantomData }
    }
}

impl<'a> SharedSlice<'a> {
    /// Writes the number at index `at`.
    ///
    /// # Safety
    /// As [`SharedSlice::write`], for this number.
    #[inline(always)]
    pub(super) unsafe fn set(self, at: usize, value: f32) {
        assert!(at < self.len, "{at} of {}", self.len);
        // SAFETY: within the slice; nobody else touches it, says the caller.
        unsafe { self.data.add(at).write(value) }
    }

    /// Writes numbers, `stride` apart, from `at` on.
    ///
    /// # Safety
    /// As [`SharedSlice::write`], for these numbers.
    #[inline(always)]
    pub(super) unsafe fn spread(self, at: usize, stride: usize, values: &[f32]) {
        let Some(last) = values.len().checked_sub(1) else { return };
        assert!(at + last * stride < self.len, "{at} + {last} * {stride} of {}", self.len);
        for (index, value) in values.iter().enumerate() {
            // SAFETY: not after the last one, which is within the slice; nobody else touches
            // it, says the caller.
            unsafe { self.data.add(at + index * stride).write(*value) }
        }
    }

    /// The same memory for products, which threads share column by column.
    ///
    /// # Safety
    /// As [`SharedSlice::write`], for the numbers that the caller takes from it.
    pub(super) unsafe fn cells(self) -> &'a [AtomicU32] {
        // SAFETY: both types are four bytes of any value with the same alignment; overlaps are
        // excluded as for all access.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.len) }
    }
}
