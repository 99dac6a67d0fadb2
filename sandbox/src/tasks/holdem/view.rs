//! What the seat to act sees, and its text.

use std::fmt;

use super::action::{Action, Legal};
use super::cards::card::Card;
use super::table::{Street, Table};

/// The table as its next seat may know it: no cards but its own and the board's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableView {
    /// The round of betting that goes on.
    pub street: Street,
    /// The seat's own cards.
    pub hole: [Card; 2],
    /// The open cards of the board, none before the flop.
    pub board: Vec<Card>,
    /// All chips that were put in, those of this round included.
    pub pot: u64,
    /// What each seat bet in this round.
    pub bets: Vec<u64>,
    /// The chips that each seat has not put in.
    pub stacks: Vec<u64>,
    /// Which seats have folded.
    pub folded: Vec<bool>,
    /// The seat, and what it may do.
    pub legal: Legal,
}

impl TableView {
    /// What the seat to act sees; `None` when the hand is over or the deal does not tell the seat's cards.
    pub fn of(table: &Table) -> Option<Self> {
        let legal = table.legal()?;
        Some(Self {
            street: table.street(),
            hole: table.hole(legal.actor)?,
            board: table.board().collect(),
            pot: table.pot(),
            bets: table.bets().collect(),
            stacks: table.stacks().collect(),
            folded: table.folded().collect(),
            legal,
        })
    }

    /// The other seats that still play for the pot.
    pub fn rivals(&self) -> impl Iterator<Item = usize> {
        (0..self.stacks.len()).filter(|&seat| seat != self.legal.actor && !self.folded[seat])
    }

    /// The pot odds: which share of the final pot a call would pay, so how often it has to win to
    /// be worth its price.
    pub fn pot_odds(&self) -> f64 {
        let call = self.legal.call;
        if call == 0 { 0.0 } else { call as f64 / (self.pot + call) as f64 }
    }

    /// A raise by `percent` of what the pot will be after a call, as near as the rules allow.
    pub fn raise_by_pot(&self, percent: u64) -> Action {
        let price = self.bets[self.legal.actor] + self.legal.call;
        self.legal.raise_near(price + (self.pot + self.legal.call) * percent / 100)
    }
}

/// Cards as the policy reads them: `(ah, kd)`.
fn cards(cards: &[Card]) -> String {
    let names: Vec<String> = cards.iter().map(|card| card.to_string().to_ascii_lowercase()).collect();
    format!("({})", names.join(", "))
}

/// s_t of ECHO-2 F.3, in one line and in the characters of the built-in tasks. Seats count from 1,
/// left of the button.
impl fmt::Display for TableView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seat = self.legal.actor;
        write!(f, "hand: {}, board: {}, pot: {}", cards(&self.hole), cards(&self.board), self.pot)?;
        write!(f, ", to call: {}, odds: {:.2}", self.legal.call, self.pot_odds())?;
        write!(f, ", seat: {} of {}, bet: {}", seat + 1, self.stacks.len(), self.bets[seat])?;
        write!(f, ", stack: {}", self.stacks[seat])?;
        if let Some(range) = &self.legal.raise_to {
            write!(f, ", raise: {} to {}", range.start(), range.end())?;
        }
        for rival in self.rivals() {
            write!(f, ", seat {} bet {} stack {}", rival + 1, self.bets[rival], self.stacks[rival])?;
        }
        Ok(())
    }
}
