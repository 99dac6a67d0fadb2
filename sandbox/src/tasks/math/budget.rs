//! Steps instead of time: what one judgement may spend.

use std::cell::Cell;

/// Steps that reading one text may take, and comparing two: some tens of milliseconds where every
/// step costs the most.
pub const MAX_STEPS: u32 = 100_000;

/// The steps that are left.
#[derive(Debug)]
pub(crate) struct StepBudget(Cell<u32>);

impl StepBudget {
    /// `steps` for one piece of work.
    pub(crate) fn new(steps: u32) -> Self {
        Self(Cell::new(steps))
    }

    /// Takes `steps`; `None` when fewer are left, and then nothing is left for anybody.
    pub(crate) fn charge(&self, steps: u32) -> Option<()> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ())
    }

    /// Takes the steps of arithmetic with numbers of `words` machine words together: reducing a
    /// fraction takes time in the square of its length, and some even where it is short.
    pub(crate) fn charge_words(&self, words: u32) -> Option<()> {
        const SHORT: u32 = 2;
        self.charge(words.saturating_mul(words).saturating_add(SHORT))
    }

    /// Steps that are still to be had; 0 after a charge that failed.
    pub(crate) fn left(&self) -> u32 {
        self.0.get()
    }
}
