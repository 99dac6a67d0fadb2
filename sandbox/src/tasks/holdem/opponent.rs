//! Opponents: three that follow rules, and a hook for one that is a language model.

mod loose_aggressive;
mod pot_odds;
mod tight_passive;

use std::fmt::Debug;
use std::sync::Arc;

use echo_protocol::wire::rng::Draws;

use super::action::Action;
use super::cards::equity::equity;
use super::view::TableView;

pub use loose_aggressive::LooseAggressive;
pub use pot_odds::PotOdds;
pub use tight_passive::TightPassive;

/// Deals with which a rule-based opponent estimates its equity.
const ROUNDS: u32 = 128;

/// Who sits at the table beside the policy. The same view and the same draws give the same choice.
pub trait Opponent: Debug + Send + Sync {
    /// The name in logs.
    fn name(&self) -> &'static str;

    /// Decides for the seat to act. An illegal action counts as a check where that is free, and
    /// as a fold elsewhere.
    fn decide(&self, view: &TableView, draws: &mut Draws) -> OpponentChoice;
}

/// What an opponent decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpponentChoice {
    /// The action, decided at once by rules.
    Act(Action),
    /// It has to be asked in text: the episode shows its driver the opponent's own view as chat
    /// messages, and takes the answer in text.
    Ask,
}

/// An opponent that is a language model, asked through the episode's driver.
#[derive(Debug, Clone, Copy)]
pub struct LanguageModel;

impl Opponent for LanguageModel {
    fn name(&self) -> &'static str {
        "language_model"
    }

    fn decide(&self, _: &TableView, _: &mut Draws) -> OpponentChoice {
        OpponentChoice::Ask
    }
}

/// The rule-based opponents, in the order in which configurations number them from 1.
pub fn rule_based() -> [Arc<dyn Opponent>; 3] {
    [Arc::new(TightPassive), Arc::new(LooseAggressive), Arc::new(PotOdds)]
}

/// The seat's estimated share of a pot that one unknown hand contests.
fn alone(view: &TableView, draws: &mut Draws) -> f64 {
    equity(view.hole, &view.board, 1, ROUNDS, draws)
}

#[cfg(test)]
mod tests;
