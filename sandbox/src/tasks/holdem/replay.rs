//! Replays of recorded hands in the notation of the Poker Hand History format (PHH).
//!
//! Seats p1 to pn sit from the left of the button. `d dh pN cards` deals a hand, `d db cards` opens
//! cards of the board; `pN f`, `pN cc` and `pN cbr X` fold, check or call, and bet or raise to X;
//! `pN sm cards` shows and `pN sm` mucks. What follows a `#` is commentary.

use serde::Deserialize;

use super::action::{Action, Illegal};
use super::cards::card::{Card, CardError, Deck};
use super::stakes::{MAX_SEATS, Stakes, StakesError};
use super::table::{Deal, Table};

/// The most entries of one record. Hands between people have at most some hundred.
pub const MAX_ENTRIES: usize = 4096;

/// A recorded hand, with the field names of PHH.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct HandRecord {
    /// The antes by position.
    pub antes: Vec<u64>,
    /// The blinds and straddles by position, the small blind first.
    #[serde(rename = "blinds_or_straddles")]
    pub blinds: Vec<u64>,
    /// The smallest bet, and the least that a raise adds, in chips.
    pub min_bet: u64,
    /// Whether antes are bets; see [`Stakes::trim_antes`].
    #[serde(rename = "ante_trimming_status", default = "trimmed")]
    pub trim_antes: bool,
    /// The stacks before anything was posted.
    pub starting_stacks: Vec<u64>,
    /// Deals and decisions in order, in the notation above.
    pub actions: Vec<String>,
}

fn trimmed() -> bool {
    true
}

/// Why a record is not a hand by the rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandReplayError {
    /// More entries than are read.
    #[error("{entries} entries: a record has at most {MAX_ENTRIES}")]
    TooLong {
        /// How many there are.
        entries: usize,
    },
    /// An entry that is not in the notation.
    #[error("entry {at} is not in the notation: deal with `d dh` and `d db`, act with f, cc, cbr and sm")]
    Notation {
        /// The entry's index among the actions, from 0.
        at: usize,
    },
    /// An entry whose cards are not readable.
    #[error("entry {at}: {source}")]
    Cards {
        /// The entry's index among the actions, from 0.
        at: usize,
        /// Which two characters are no card.
        source: CardError,
    },
    /// Cards that are not two for a hand, or more than five on the board.
    #[error("entry {at} leaves {cards} cards where at most {most} belong")]
    TooManyCards {
        /// The entry's index among the actions, from 0.
        at: usize,
        /// How many there would be.
        cards: usize,
        /// How many there may be.
        most: usize,
    },
    /// Stakes, stacks or cards that no hand is played with.
    #[error(transparent)]
    Stakes(#[from] StakesError),
    /// An action out of turn.
    #[error("entry {at}: p{} acts when it is {}", found + 1, turn(*expected))]
    OutOfTurn {
        /// The entry's index among the actions, from 0.
        at: usize,
        /// The seat that acts.
        found: usize,
        /// The seat that should; `None` when the hand is over.
        expected: Option<usize>,
    },
    /// An action that the rules do not allow.
    #[error("entry {at}: {source}")]
    Illegal {
        /// The entry's index among the actions, from 0.
        at: usize,
        /// What the rules say.
        source: Illegal,
    },
    /// A board that was opened too early, too late, or not at all.
    #[error("at entry {at} the record has opened {found} cards of the board, the rules {expected}")]
    Board {
        /// The index of the entry, or the number of entries at the end.
        at: usize,
        /// Cards in the record so far.
        found: usize,
        /// Cards by the rules.
        expected: usize,
    },
    /// The record ends before the hand does.
    #[error("the record ends when it is {}", turn(Some(*actor)))]
    Unfinished {
        /// Who is to act.
        actor: usize,
    },
}

fn turn(seat: Option<usize>) -> String {
    seat.map_or("nobody's turn".to_owned(), |seat| format!("p{}'s turn", seat + 1))
}

enum Entry {
    Hole(usize, Vec<Option<Card>>),
    Board(Vec<Option<Card>>),
    Act(usize, Action),
    Show(usize, Vec<Option<Card>>),
    Muck(usize),
    Nothing,
}

impl Entry {
    fn parse(text: &str, at: usize) -> Result<Self, HandReplayError> {
        let said = text.split('#').next().unwrap_or_default();
        let words: Vec<&str> = said.split_ascii_whitespace().take(5).collect();
        let seat = |word: &str| {
            let number: usize = word.strip_prefix('p')?.parse().ok()?;
            (1..=MAX_SEATS).contains(&number).then(|| number - 1)
        };
        let seat = |word| seat(word).ok_or(HandReplayError::Notation { at });
        let cards = |text| Card::parse_run(text).map_err(|source| HandReplayError::Cards { at, source });
        Ok(match words[..] {
            [] => Self::Nothing,
            ["d", "dh", who, dealt] => Self::Hole(seat(who)?, cards(dealt)?),
            ["d", "db", dealt] => Self::Board(cards(dealt)?),
            [who, "f"] => Self::Act(seat(who)?, Action::Fold),
            [who, "cc"] => Self::Act(seat(who)?, Action::Call),
            [who, "cbr", to] => {
                let to = to.parse().map_err(|_| HandReplayError::Notation { at })?;
                Self::Act(seat(who)?, Action::RaiseTo(to))
            }
            [who, "sm"] => Self::Muck(seat(who)?),
            // The cards that were dealt are shown.
            [who, "sm", "-"] => Self::Show(seat(who)?, Vec::new()),
            [who, "sm", shown] => Self::Show(seat(who)?, cards(shown)?),
            _ => return Err(HandReplayError::Notation { at }),
        })
    }
}

/// The cards of a record: what was dealt, then what was shown. A hand that was mucked or
/// never seen shows nothing.
fn deal(entries: &[Entry], seats: usize) -> Result<Deal, HandReplayError> {
    let mut holes: Vec<Vec<Option<Card>>> = vec![Vec::new(); seats];
    let mut mucked = vec![false; seats];
    let mut board = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let limited = |cards: usize, most| match cards <= most {
            true => Ok(()),
            false => Err(HandReplayError::TooManyCards { at, cards, most }),
        };
        match entry {
            Entry::Hole(seat, _) | Entry::Show(seat, _) | Entry::Muck(seat) if *seat >= seats => {
                return Err(HandReplayError::Notation { at });
            }
            Entry::Hole(seat, cards) => {
                holes[*seat].extend(cards);
                limited(holes[*seat].len(), 2)?;
            }
            Entry::Board(cards) => {
                // Cards of the board are seen by everybody.
                board.extend(cards.iter().flatten());
                limited(board.len(), 5)?;
            }
            Entry::Show(seat, cards) if !cards.is_empty() => {
                limited(cards.len(), 2)?;
                holes[*seat].clone_from(cards);
            }
            Entry::Muck(seat) => mucked[*seat] = true,
            Entry::Show(..) | Entry::Act(..) | Entry::Nothing => {}
        }
    }
    let known: Vec<Card> = holes.iter().flatten().flatten().chain(&board).copied().collect();
    let mut rest = Deck::without(&known);
    let board = std::array::from_fn(|index| board.get(index).copied().or_else(|| rest.deal()));
    // Records have at most 20 cards in hands and 5 on the board: the deck does not end.
    let board = board.map(|card| card.expect("a deck has more cards than ten seats and a board"));
    let shown = |(cards, mucked): (Vec<Option<Card>>, bool)| match cards[..] {
        [Some(one), Some(other)] if !mucked => Some([one, other]),
        _ => None,
    };
    Ok(Deal { holes: holes.into_iter().zip(mucked).map(shown).collect(), board })
}

/// Plays `record` and shows `watch` the table before every decision, with the index of its entry.
///
/// # Errors
/// When the record is not a hand by the rules, up to its end.
pub fn replay(record: &HandRecord, mut watch: impl FnMut(usize, &Table)) -> Result<Table, HandReplayError> {
    if record.actions.len() > MAX_ENTRIES {
        return Err(HandReplayError::TooLong { entries: record.actions.len() });
    }
    let entries = record.actions.iter().enumerate().map(|(at, text)| Entry::parse(text, at));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    let stakes = Stakes {
        antes: record.antes.clone(),
        blinds: record.blinds.clone(),
        min_bet: record.min_bet,
        trim_antes: record.trim_antes,
    };
    stakes.check(&record.starting_stacks)?;
    let deal = deal(&entries, record.starting_stacks.len())?;
    let mut table = Table::new(&stakes, &record.starting_stacks, deal)?;
    let mut opened = 0;
    let same_board = |at, found, table: &Table| match table.board().count() {
        expected if expected == found => Ok(()),
        expected => Err(HandReplayError::Board { at, found, expected }),
    };
    for (at, entry) in entries.into_iter().enumerate() {
        match entry {
            Entry::Board(cards) => opened += cards.len(),
            Entry::Act(found, action) => {
                let expected = table.legal().map(|legal| legal.actor);
                if expected != Some(found) {
                    return Err(HandReplayError::OutOfTurn { at, found, expected });
                }
                same_board(at, opened, &table)?;
                watch(at, &table);
                table.act(action).map_err(|source| HandReplayError::Illegal { at, source })?;
            }
            Entry::Hole(..) | Entry::Show(..) | Entry::Muck(_) | Entry::Nothing => {}
        }
    }
    match table.legal() {
        Some(legal) => Err(HandReplayError::Unfinished { actor: legal.actor }),
        None => same_board(record.actions.len(), opened, &table).map(|()| table),
    }
}

#[cfg(test)]
mod tests;
