//! What a hand is worth: the best five of up to seven cards.
//!
//! Exact, without tables: the four suits are four sets of ranks, and which ranks occur twice, three
//! and four times follows from a few operations on them.

use crate::tasks::holdem::cards::card::Card;

/// The kinds of hands, from the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Nothing of the below.
    HighCard,
    /// Two of one rank.
    Pair,
    /// Two different ranks twice each, and a fifth card.
    TwoPair,
    /// Three of one rank.
    Trips,
    /// Five ranks in sequence; an ace may stand below the deuce.
    Straight,
    /// Five of one suit.
    Flush,
    /// Three of one rank and two of another.
    FullHouse,
    /// Four of one rank.
    Quads,
    /// A straight of one suit.
    StraightFlush,
}

/// A set of ranks: bit r for rank r.
type Ranks = u32;

const RANKS: u32 = 13;

/// The worth of a hand. The greater wins, equal ones split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strength {
    category: Category,
    /// The ranks that make the category, then those that decide between equal ones. Sets of equal
    /// size compare as the sequences of their ranks from the highest.
    ranks: u32,
}

impl Strength {
    fn new(category: Category, made: Ranks, kickers: Ranks) -> Self {
        Self { category, ranks: made << RANKS | kickers }
    }

    /// The kind of hand.
    pub fn category(self) -> Category {
        self.category
    }
}

/// The `count` highest ranks of `ranks`, or all when there are fewer.
fn highest(mut ranks: Ranks, count: u32) -> Ranks {
    while ranks.count_ones() > count {
        ranks &= ranks - 1;
    }
    ranks
}

/// The rank that the highest straight in `ranks` ends with, as a set.
fn straight(ranks: Ranks) -> Option<Ranks> {
    let with_low_ace = ranks << 1 | ranks >> (RANKS - 1);
    let starts = with_low_ace & with_low_ace >> 1 & with_low_ace >> 2 & with_low_ace >> 3 & with_low_ace >> 4;
    // The start's bit is one too high for the low ace, and the end is four ranks above.
    (starts != 0).then(|| highest(starts, 1) << 3)
}

/// The best five cards of `cards`, usually two of a seat's own and five of the board. Of fewer than
/// five, what they make.
pub fn evaluate(cards: impl IntoIterator<Item = Card>) -> Strength {
    let mut suits: [Ranks; 4] = [0; 4];
    for card in cards {
        suits[usize::from(card.suit())] |= 1 << card.rank();
    }
    let [a, b, c, d] = suits;
    let any = a | b | c | d;
    let flush = suits.into_iter().find(|suit| suit.count_ones() >= 5);
    if let Some(top) = flush.and_then(straight) {
        return Strength::new(Category::StraightFlush, top, 0);
    }
    let four = a & b & c & d;
    if four != 0 {
        let quads = highest(four, 1);
        return Strength::new(Category::Quads, quads, highest(any & !quads, 1));
    }
    let three = a & b & (c | d) | c & d & (a | b);
    let trips = highest(three, 1);
    let two = a & b | c & d | (a | b) & (c | d);
    let pairs = two & !trips;
    if trips != 0 && pairs != 0 {
        return Strength::new(Category::FullHouse, trips, highest(pairs, 1));
    }
    if let Some(suit) = flush {
        return Strength::new(Category::Flush, highest(suit, 5), 0);
    }
    if let Some(top) = straight(any) {
        return Strength::new(Category::Straight, top, 0);
    }
    if trips != 0 {
        return Strength::new(Category::Trips, trips, highest(any & !trips, 2));
    }
    let made = highest(pairs, 2);
    let kickers = |count| highest(any & !made, count);
    match made.count_ones() {
        0 => Strength::new(Category::HighCard, highest(any, 5), 0),
        1 => Strength::new(Category::Pair, made, kickers(3)),
        _ => Strength::new(Category::TwoPair, made, kickers(1)),
    }
}

#[cfg(test)]
mod tests;
