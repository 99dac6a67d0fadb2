//! What a hand is played for: forced bets and starting stacks, and what may be wrong with them.

/// The fewest seats of a table.
pub const MIN_SEATS: usize = 2;

/// The most seats of a table.
pub const MAX_SEATS: usize = 10;

/// The most chips of one stack or forced bet: sums over a table stay far from the limits of 64 bits.
pub const MAX_CHIPS: u64 = 1 << 48;

/// The forced bets, by position: first the seat left of the button, last the button. With two seats
/// the button posts the first blind, as heads-up rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stakes {
    /// The ante of each position, posted before the blinds.
    pub antes: Vec<u64>,
    /// The small blind, the big blind, then straddles, 0 for positions that post none.
    pub blinds: Vec<u64>,
    /// The smallest bet, and the least that any raise adds: the big blind, as a rule.
    pub min_bet: u64,
    /// Whether antes are bets: what nobody can match goes back, and a short stack competes for as
    /// much of each as its own. Otherwise they are dead chips of the main pot, whoever posted them;
    /// a big blind that antes for all needs this.
    pub trim_antes: bool,
}

impl Stakes {
    /// A small and a big blind, the same ante for everybody.
    pub fn blinds(seats: usize, small: u64, big: u64, ante: u64) -> Self {
        let mut blinds = vec![0; seats];
        for (posted, blind) in blinds.iter_mut().zip([small, big]) {
            *posted = blind;
        }
        Self { antes: vec![ante; seats], blinds, min_bet: big, trim_antes: true }
    }

    /// Whether a hand can be played for these stakes with these stacks.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, stacks: &[u64]) -> Result<(), StakesError> {
        let seats = stacks.len();
        if !(MIN_SEATS..=MAX_SEATS).contains(&seats) {
            return Err(StakesError::Seats { seats });
        }
        for (what, found) in [("antes", self.antes.len()), ("blinds", self.blinds.len())] {
            if found != seats {
                return Err(StakesError::Length { what, found, seats });
            }
        }
        let posted = self.antes.iter().chain(&self.blinds);
        if let Some(&chips) = stacks.iter().chain(posted).find(|&&chips| chips > MAX_CHIPS) {
            return Err(StakesError::TooMuch { chips });
        }
        if let Some(seat) = stacks.iter().position(|&chips| chips == 0) {
            return Err(StakesError::Empty { seat });
        }
        match self.min_bet {
            1..=MAX_CHIPS => Ok(()),
            min_bet => Err(StakesError::MinBet { min_bet }),
        }
    }

    /// What `list` asks of a seat.
    fn of(list: &[u64], seat: usize) -> u64 {
        list[if list.len() == 2 { 1 - seat } else { seat }]
    }

    /// The ante of a seat, however small its stack.
    pub(super) fn ante(&self, seat: usize) -> u64 {
        Self::of(&self.antes, seat)
    }

    /// The blind or straddle of a seat, however small its stack.
    pub(super) fn blind(&self, seat: usize) -> u64 {
        Self::of(&self.blinds, seat)
    }

    /// The largest blind or straddle.
    pub(super) fn largest_blind(&self) -> u64 {
        self.blinds.iter().copied().max().unwrap_or(0)
    }
}

/// Stakes and stacks that no hand can be played with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StakesError {
    /// Too few or too many stacks.
    #[error("{seats} stacks: a table seats {MIN_SEATS} to {MAX_SEATS}")]
    Seats {
        /// How many there are.
        seats: usize,
    },
    /// A list that is not as long as there are seats.
    #[error("{found} {what} for {seats} seats: give one each, 0 where nothing is posted")]
    Length {
        /// The list by name: `antes` or `blinds`.
        what: &'static str,
        /// How many entries the list has.
        found: usize,
        /// How many seats there are.
        seats: usize,
    },
    /// More chips than are counted.
    #[error("{chips} chips: give at most {MAX_CHIPS}")]
    TooMuch {
        /// The first stack or forced bet above [`MAX_CHIPS`].
        chips: u64,
    },
    /// A seat that has nothing to play for.
    #[error("seat {seat} has no chips: leave it out of the hand")]
    Empty {
        /// The first seat without chips, from 0.
        seat: usize,
    },
    /// A least bet that no bet could follow.
    #[error("a least bet of {min_bet} chips: give the big blind, at least 1")]
    MinBet {
        /// The least bet that was given: 0, or above [`MAX_CHIPS`].
        min_bet: u64,
    },
    /// The same card in two places, or a board that is not complete.
    #[error(
        "the deal has {found} different cards where it needs {needed}: deal every card once, and five to the board"
    )]
    Cards {
        /// How many different cards there are.
        found: usize,
        /// How many there should be.
        needed: usize,
    },
}
