//! Kinds of hands before the board.

use std::fmt;

use crate::tasks::holdem::cards::card::{Card, rank_name};

/// Two cards before the board: their ranks and whether they share a suit. There are 169 kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartingHand {
    high: u8,
    low: u8,
    suited: bool,
}

impl StartingHand {
    /// The kind of hand that two cards are, in whichever order.
    pub fn of([one, other]: [Card; 2]) -> Self {
        let (low, high) = (one.rank().min(other.rank()), one.rank().max(other.rank()));
        Self { high, low, suited: one.suit() == other.suit() }
    }
}

/// Written as players do: `AKs` suited, `72o` offsuit, `TT` a pair.
impl fmt::Display for StartingHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suits = match (self.suited, self.high == self.low) {
            (true, _) => "s",
            (false, true) => "",
            (false, false) => "o",
        };
        write!(f, "{}{}{suits}", rank_name(self.high), rank_name(self.low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn kind(text: &str) -> StartingHand {
        let cards: Vec<Card> = Card::parse_run(text).unwrap().into_iter().flatten().collect();
        StartingHand::of([cards[0], cards[1]])
    }

    #[test]
    fn hands_are_of_a_kind_whatever_their_suits() {
        assert_eq!(kind("AhKh"), kind("KsAs"));
        assert_ne!(kind("AhKh"), kind("AhKd"));
        assert_eq!(kind("7c7d"), kind("7h7s"));
        let names = ["KsAs", "7s2h", "ThTc"].map(|text| kind(text).to_string());
        assert_eq!(names, ["AKs", "72o", "TT"]);
        let all: Vec<Card> = Card::all().collect();
        let pairs = all.iter().flat_map(|&one| all.iter().map(move |&other| [one, other]));
        let kinds: BTreeSet<_> = pairs.filter(|pair| pair[0] != pair[1]).map(StartingHand::of).collect();
        assert_eq!(kinds.len(), 169);
    }
}
