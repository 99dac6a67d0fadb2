//! What a seat may do and does.

use std::ops::RangeInclusive;

/// What a seat decides when it is its turn to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Gives the hand up.
    Fold,
    /// Matches the bet, with all its chips when it has not enough; checks when there is nothing to match.
    Call,
    /// Bets or raises until its bet of this round is this many chips.
    RaiseTo(u64),
}

/// What the seat to act may do. Matching the bet is always allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Legal {
    /// The seat to act.
    pub actor: usize,
    /// Whether it may fold: not when checking is free.
    pub can_fold: bool,
    /// What matching the bet costs it, 0 for a check.
    pub call: u64,
    /// What it may raise its bet of this round to; `None` when it may not raise. An all-in below
    /// the usual least raise is a range of one.
    pub raise_to: Option<RangeInclusive<u64>>,
}

impl Legal {
    /// Checks where that is free and folds elsewhere.
    pub fn check_or_fold(&self) -> Action {
        if self.can_fold { Action::Fold } else { Action::Call }
    }

    /// A raise to the amount that is nearest to `chips`; a call where no raise is allowed.
    pub fn raise_near(&self, chips: u64) -> Action {
        match &self.raise_to {
            Some(range) => Action::RaiseTo(chips.clamp(*range.start(), *range.end())),
            None => Action::Call,
        }
    }
}

/// An action that the rules do not allow; the table has not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// Nobody is to act.
    #[error("the hand is over: start another")]
    Over,
    /// A fold that would save nothing.
    #[error("seat {seat} may not fold when checking is free: check")]
    FreeFold {
        /// The seat to act.
        seat: usize,
    },
    /// A raise where none is allowed.
    #[error("seat {seat} may not raise: call, check or fold")]
    NoRaise {
        /// The seat to act.
        seat: usize,
    },
    /// A raise that is too small or more than the stack.
    #[error("seat {seat} may not raise to {to}: raise to {least}, at most to {most}")]
    RaiseSize {
        /// The seat to act.
        seat: usize,
        /// What it asked for.
        to: u64,
        /// The least that it may raise to.
        least: u64,
        /// The most that it may raise to.
        most: u64,
    },
}
