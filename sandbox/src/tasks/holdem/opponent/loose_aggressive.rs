//! Plays most hands, and raises many of them.

use echo_protocol::wire::rng::Draws;

use super::{Opponent, OpponentChoice, alone};
use crate::tasks::holdem::action::Action;
use crate::tasks::holdem::view::TableView;

/// The equity that is worth a call: all but the worst third of the hands.
const CALLS: f64 = 0.42;

/// The equity from which every second decision is a raise.
const RAISES: f64 = 0.52;

/// One of so many decisions with less is a bluff.
const BLUFF: u64 = 6;

/// Raises are for half the pot to one and a half times the pot, in percent.
const SIZES: [u64; 3] = [50, 100, 150];

/// Loose-aggressive: calls with nearly anything, bets and raises often and large, bluffs.
#[derive(Debug, Clone, Copy)]
pub struct LooseAggressive;

impl Opponent for LooseAggressive {
    fn name(&self) -> &'static str {
        "loose_aggressive"
    }

    fn decide(&self, view: &TableView, draws: &mut Draws) -> OpponentChoice {
        let equity = alone(view, draws);
        let raises = draws.below(if equity >= RAISES { 2 } else { BLUFF }) == 0;
        OpponentChoice::Act(if raises {
            view.raise_by_pot(draws.pick(&SIZES).copied().unwrap_or(100))
        } else if equity >= CALLS {
            Action::Call
        } else {
            view.legal.check_or_fold()
        })
    }
}
