//! Plays few hands, and seldom raises them.

use echo_protocol::wire::rng::Draws;

use super::{Opponent, OpponentChoice, alone};
use crate::tasks::holdem::action::Action;
use crate::tasks::holdem::table::Street;
use crate::tasks::holdem::view::TableView;

/// The equity that is worth a call before the flop: about the best quarter of all hands.
const ENTERS: f64 = 0.58;

/// The equity that is worth a call later.
const STAYS: f64 = 0.62;

/// The equity that is worth a raise, the smallest one.
const RAISES: f64 = 0.88;

/// Tight-passive: waits for good hands and calls with them; raises the least with nearly
/// certain ones; never bluffs.
#[derive(Debug, Clone, Copy)]
pub struct TightPassive;

impl Opponent for TightPassive {
    fn name(&self) -> &'static str {
        "tight_passive"
    }

    fn decide(&self, view: &TableView, draws: &mut Draws) -> OpponentChoice {
        let equity = alone(view, draws);
        let worth_a_call = if view.street == Street::Preflop { ENTERS } else { STAYS };
        OpponentChoice::Act(if equity >= RAISES {
            view.legal.raise_near(0)
        } else if equity >= worth_a_call {
            Action::Call
        } else {
            view.legal.check_or_fold()
        })
    }
}
