//! What happens at a table.

use std::fmt;
use std::ops::Range;

use crate::tasks::holdem::action::Action;
use crate::tasks::holdem::cards::card::Card;

/// The rounds of a hand, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Street {
    /// The first round, before any card of the board.
    Preflop,
    /// The second round, with three cards on the board.
    Flop,
    /// The third round, with four cards on the board.
    Turn,
    /// The last round, with all five cards on the board.
    River,
    /// The end of the hand: all pots are paid.
    Over,
}

impl Street {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Preflop => Self::Flop,
            Self::Flop => Self::Turn,
            Self::Turn => Self::River,
            Self::River | Self::Over => Self::Over,
        }
    }

    /// Which cards of the board the street opens with.
    pub(super) fn dealt(self) -> Range<usize> {
        match self {
            Self::Preflop | Self::Over => 0..0,
            Self::Flop => 0..3,
            Self::Turn => 3..4,
            Self::River => 4..5,
        }
    }
}

impl fmt::Display for Street {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preflop => "preflop",
            Self::Flop => "flop",
            Self::Turn => "turn",
            Self::River => "river",
            Self::Over => "over",
        })
    }
}

/// An entry of a hand's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandEvent {
    /// A seat posted its ante, or what it had of it.
    Ante {
        /// The seat that posts, from 0.
        seat: usize,
        /// The chips that it posts, all it has at most.
        chips: u64,
    },
    /// A seat posted its blind or straddle, or what it had of it.
    Blind {
        /// The seat that posts, from 0.
        seat: usize,
        /// The chips that it posts, all it has at most.
        chips: u64,
    },
    /// A seat folded, checked, called, bet or raised.
    Acted {
        /// The seat that decides, from 0.
        seat: usize,
        /// The decision, as the rules allowed it.
        action: Action,
        /// What it put in.
        chips: u64,
    },
    /// A bet was not matched, and the excess went back.
    Returned {
        /// The seat that gets them back, from 0.
        seat: usize,
        /// The chips that nobody matched.
        chips: u64,
    },
    /// Cards of the board were opened.
    Board {
        /// The street that they open.
        street: Street,
        /// The cards that were opened, in their order.
        cards: Vec<Card>,
    },
    /// A seat showed its cards at the showdown.
    Shown {
        /// The seat that shows, from 0.
        seat: usize,
        /// Both cards of its hand.
        cards: [Card; 2],
    },
    /// A seat got a pot or a share of one.
    Won {
        /// The seat that wins, from 0.
        seat: usize,
        /// 0 for the main pot, then the side pots as they were formed.
        pot: usize,
        /// The chips of its share.
        chips: u64,
    },
}
