//! Compares the price of a call with what it wins.

use echo_protocol::wire::rng::Draws;

use super::{Opponent, OpponentChoice, ROUNDS};
use crate::tasks::holdem::action::Action;
use crate::tasks::holdem::cards::equity::equity;
use crate::tasks::holdem::view::TableView;

/// How many times its fair share of the pot a hand is worth that is raised.
const RAISES: f64 = 1.3;

/// Raises are for two thirds of the pot, in percent.
const SIZE: u64 = 67;

/// Plays by equity: estimates its share of the pot against everybody who is left, calls when that
/// is more than the pot odds ask for, and raises when it is well above a fair share.
#[derive(Debug, Clone, Copy)]
pub struct PotOdds;

impl Opponent for PotOdds {
    fn name(&self) -> &'static str {
        "pot_odds"
    }

    fn decide(&self, view: &TableView, draws: &mut Draws) -> OpponentChoice {
        let rivals = view.rivals().count();
        let equity = equity(view.hole, &view.board, rivals, ROUNDS, draws);
        OpponentChoice::Act(if equity * (rivals + 1) as f64 >= RAISES {
            view.raise_by_pot(SIZE)
        } else if equity >= view.pot_odds() {
            Action::Call
        } else {
            view.legal.check_or_fold()
        })
    }
}
