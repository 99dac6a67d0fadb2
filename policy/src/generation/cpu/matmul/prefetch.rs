//! Memory that is asked for before it is needed.

use super::super::simd::Lanes;
use super::CACHE_LINE;

/// Bytes that are asked for at each step, at most.
const MAX_PACE: usize = 2 * CACHE_LINE;

/// Bytes that will be read next.
#[derive(Clone, Copy)]
pub(super) struct Prefetch<'a> {
    bytes: &'a [u8],
    /// How many of them to ask for at each step. Evenly, as memory that is asked for too much at a
    /// time makes all else wait.
    pace: usize,
}

impl<'a> Prefetch<'a> {
    /// Asked for in so many steps, as far as they suffice.
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], steps: usize) -> Self {
        Self { bytes, pace: bytes.len().div_ceil(steps).min(MAX_PACE) }
    }

    /// What the next so many steps ask for.
    #[inline(always)]
    pub(super) fn take(&mut self, steps: usize) -> Self {
        let (now, later) = self.bytes.split_at((steps * self.pace).min(self.bytes.len()));
        self.bytes = later;
        Self { bytes: now, pace: if now.is_empty() { 0 } else { self.pace } }
    }

    /// Cache lines that a step asks for, at most: 0, 1 or 2.
    #[inline(always)]
    pub(super) fn lines(self) -> usize {
        self.pace.div_ceil(CACHE_LINE)
    }

    /// Asks for A lines at a step: [`Prefetch::lines`].
    #[inline(always)]
    pub(super) fn ask<L: Lanes, const A: usize>(self, lanes: L, step: usize) {
        for line in 0..A {
            lanes.prefetch(self.bytes, step * self.pace + line * CACHE_LINE);
        }
    }
}
