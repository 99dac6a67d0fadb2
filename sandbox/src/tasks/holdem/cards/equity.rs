//! How good a hand is before all cards are known: its share of the pot, estimated by dealing
//! the rest many times.

use echo_protocol::wire::rng::Draws;

use crate::tasks::holdem::cards::card::{Card, Deck};
use crate::tasks::holdem::cards::evaluator::evaluate;

/// The cards of a full board.
const BOARD: usize = 5;

/// The share of the pot, 0 to 1, that `hole` wins on average of `rounds` deals of the missing board
/// cards and of unknown hands for `rivals` others who all stay to the end. A pot that is split
/// counts by the share.
pub fn equity(hole: [Card; 2], board: &[Card], rivals: usize, rounds: u32, draws: &mut Draws) -> f64 {
    let known: Vec<Card> = hole.iter().chain(board).copied().collect();
    let mut deck = Deck::without(&known);
    let missing = BOARD.saturating_sub(board.len());
    let mut won = 0.0;
    for _ in 0..rounds {
        let (rest, hands) = deck.sample(missing + 2 * rivals, draws).split_at(missing);
        let worth = |hand: &[Card]| evaluate(hand.iter().chain(board).chain(rest).copied());
        let own = worth(&hole);
        let mut sharing = 1;
        let beaten = hands.chunks_exact(2).map(worth).any(|other| {
            sharing += u32::from(other == own);
            other > own
        });
        if !beaten {
            won += 1.0 / f64::from(sharing);
        }
    }
    won / f64::from(rounds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(hole: &str, board: &str, rivals: usize) -> f64 {
        let cards = |text| Card::parse_run(text).unwrap().into_iter().flatten().collect::<Vec<_>>();
        let hole = [cards(hole)[0], cards(hole)[1]];
        equity(hole, &cards(board), rivals, 4000, &mut Draws::new([5; 32]))
    }

    #[test]
    fn known_shares_come_out() {
        // Against one unknown hand, from exhaustive tables: aces 85.2 %, 72 offsuit 34.6 %.
        assert!((share("AsAh", "", 1) - 0.852).abs() < 0.02);
        assert!((share("7s2h", "", 1) - 0.346).abs() < 0.025);
        // Against nine: aces 31 %.
        assert!((share("AsAh", "", 9) - 0.31).abs() < 0.025);
    }

    #[test]
    fn a_decided_board_needs_no_luck() {
        assert_eq!(share("AsKs", "QsJsTs2c3d", 3), 1.0);
        // Everybody plays the board.
        assert_eq!(share("2c3d", "AsKsQsJsTs", 1), 0.5);
        assert_eq!(share("2c2d", "", 0), 1.0);
    }
}
