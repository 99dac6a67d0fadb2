//! Cards and the deck.

use std::fmt;

use echo_protocol::wire::rng::Draws;

/// Cards of a deck.
pub const DECK: usize = 52;

const RANKS: &[u8; 13] = b"23456789TJQKA";
const SUITS: &[u8; 4] = b"cdhs";

/// One of the 52 cards, written as a rank of `23456789TJQKA` and a suit of `cdhs`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Card(u8);

/// A text that is no card.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cards at byte {at} of {bytes}: write each as a rank of 23456789TJQKA and a suit of cdhs, without spaces"
)]
pub struct CardError {
    /// Where the pair starts that is no card.
    pub at: usize,
    /// How long the text is.
    pub bytes: usize,
}

impl Card {
    /// All cards, in the order of their indices: by rank, then by suit.
    pub fn all() -> impl Iterator<Item = Card> {
        (0..DECK as u8).map(Card)
    }

    /// The card's rank, 0 for a deuce to 12 for an ace.
    pub fn rank(self) -> u8 {
        self.0 / 4
    }

    /// The card's suit, 0 to 3; suits have no order.
    pub fn suit(self) -> u8 {
        self.0 % 4
    }

    /// The card's place in [`Card::all`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    fn from_pair(pair: &[u8]) -> Option<Self> {
        let &[rank, suit] = pair else { return None };
        let rank = RANKS.iter().position(|&one| one == rank)?;
        let suit = SUITS.iter().position(|&one| one == suit)?;
        Some(Self((rank * 4 + suit) as u8))
    }

    /// Reads cards that are written without anything between them, such as `AhKd`; `??` is a
    /// card that nobody saw.
    ///
    /// # Errors
    /// When a pair of characters is no card.
    pub fn parse_run(text: &str) -> Result<Vec<Option<Self>>, CardError> {
        let pair = |(index, pair): (usize, &[u8])| match pair {
            b"??" => Ok(None),
            _ => Self::from_pair(pair).map(Some).ok_or(CardError { at: 2 * index, bytes: text.len() }),
        };
        text.as_bytes().chunks(2).enumerate().map(pair).collect()
    }
}

/// How a card's rank is written.
pub(crate) fn rank_name(rank: u8) -> char {
    char::from(RANKS[usize::from(rank)])
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", rank_name(self.rank()), char::from(SUITS[usize::from(self.suit())]))
    }
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The cards that are still to be dealt, in their order.
#[derive(Debug, Clone)]
pub struct Deck {
    cards: Vec<Card>,
}

impl Deck {
    /// All 52 cards in the order that `draws` shuffles them into.
    pub fn shuffled(draws: &mut Draws) -> Self {
        let mut cards: Vec<Card> = Card::all().collect();
        draws.shuffle(&mut cards);
        Self { cards }
    }

    /// The cards that are not in `known`, ordered.
    pub fn without(known: &[Card]) -> Self {
        Self { cards: Card::all().filter(|card| !known.contains(card)).collect() }
    }

    /// Takes the next card; `None` from an empty deck.
    pub fn deal(&mut self) -> Option<Card> {
        self.cards.pop()
    }

    /// Moves `count` cards, drawn at random, to the front of the rest, and shows them.
    /// The deck keeps all its cards, so that many hands can be tried on it. Shows fewer
    /// when there are fewer.
    pub fn sample(&mut self, count: usize, draws: &mut Draws) -> &[Card] {
        let count = count.min(self.cards.len());
        for i in 0..count {
            let chosen = i + draws.below((self.cards.len() - i) as u64) as usize;
            self.cards.swap(i, chosen);
        }
        &self.cards[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_reads_as_it_is_written() {
        let text: String = Card::all().map(|card| card.to_string()).collect();
        let read = Card::parse_run(&text).unwrap();
        assert_eq!(read, Card::all().map(Some).collect::<Vec<_>>());
        assert_eq!(Card::parse_run("Ah??").unwrap()[1], None);
    }

    #[test]
    fn what_is_no_card_is_refused_with_its_place() {
        for (text, at) in [("AhK", 2), ("1h", 0), ("Ahkd", 2), ("10c", 0), ("Ahé", 2)] {
            assert_eq!(Card::parse_run(text).unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn a_deck_has_every_card_once() {
        let mut draws = Draws::new([4; 32]);
        let mut deck = Deck::shuffled(&mut draws);
        let mut dealt: Vec<Card> = std::iter::from_fn(|| deck.deal()).collect();
        assert_ne!(dealt, Card::all().collect::<Vec<_>>());
        dealt.sort_unstable();
        assert_eq!(dealt, Card::all().collect::<Vec<_>>());

        let known = [dealt[0], dealt[51]];
        let mut rest = Deck::without(&known);
        for _ in 0..100 {
            let mut sample = rest.sample(7, &mut draws).to_vec();
            sample.sort_unstable();
            sample.dedup();
            assert!(sample.len() == 7 && !sample.contains(&known[0]) && !sample.contains(&known[1]));
        }
        assert_eq!(rest.sample(60, &mut draws).len(), 50);
    }
}
