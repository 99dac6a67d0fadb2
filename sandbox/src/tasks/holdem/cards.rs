//! Cards and hands: what can be said of them without rules of betting.
//!
//! Imports nothing of the task but its own modules.
//!
//! ```text
//! Draws -> card::Deck -> Card
//! up to seven cards -> evaluator::evaluate -> Strength, which orders hands
//! two cards before the board -> starting_hand::StartingHand, such as AKs
//! two cards and a board -> equity::equity -> the expected share of the pot
//! ```

pub mod card;
pub mod equity;
pub mod evaluator;
pub mod starting_hand;
