//! Hold'em as a task: an [`episode`](super::episode) whose policy is asked by one conversation.
//!
//! The prompt is the first state, each answer of the environment the next one. Two ways to write a
//! state: terse, for small policies,
//!
//! ```text
//! ahkd qsth2c p100 c20 s80 v1 r40-80:
//! ```
//!
//! (cards, board, pot, to call, stack, rivals that still play, what a raise may be to), answered
//! with `fold`, `check`, `call` or `raise 60`; or the state of ECHO-2's F.3 after the rules,
//! answered with `action: raise 60`.

use echo_protocol::work::trajectory;
use echo_protocol::work::trajectory::MetaValue;

use super::NAME;
use super::cards::card::Card;
use super::cards::starting_hand::StartingHand;
use super::episode::{EpisodeConfig, EpisodeOutcome, HoldemEpisode as Hands, MAX_TURNS};
use super::opponent::PotOdds;
use super::view::TableView;
use crate::task::episode::{Episode, Reply};
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{self, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

const _: () = assert!(MAX_TURNS as usize <= trajectory::MAX_TURNS, "an episode fits a trajectory");

/// What suggestions leave out where states are terse.
const MARK: &str = "action: ";

/// No-limit hold'em against rule-based opponents.
///
/// r is where the return R, the net profit in chips less the penalties (ECHO-2, eq. 20), lies
/// between the least and the greatest that is possible. That is linear in R, so advantages that are
/// divided by their group's deviation (eq. 21) are those of R itself. An episode that was not cut
/// and has R above 0 counts as right. Ω tells of `chips`, `faults` (bad answers) and
/// `private_hand`, one of the 169 kinds of the first hand.
///
/// A turn that is cut ends the conversation: it and all that would have followed are bad answers.
#[derive(Debug)]
pub struct Holdem {
    config: EpisodeConfig,
}

impl Holdem {
    /// Checks the parameters by [`EpisodeConfig::check`], and builds the task.
    ///
    /// # Errors
    /// When a parameter is out of its range. Opponents that are language models have nobody to ask here.
    pub fn new(config: EpisodeConfig) -> Result<Self, SpecError> {
        config.check()?;
        spec::within(NAME, "opponent", config.opponent, 0..=3)?;
        Ok(Self { config })
    }

    fn game(&self, seed: TaskSeed) -> Game {
        let hands = Hands::new(self.config.clone(), seed).expect("the configuration was checked");
        Game { hands, terse: self.config.terse == 1, seed }
    }

    /// No state has a longer text than this one.
    fn widest(&self) -> TableView {
        let seats = self.config.players as usize;
        let chips = self.config.players.saturating_mul(self.config.stack).unsigned_abs();
        let mut cards = Card::all();
        let mut card = || cards.next().expect("a deck has more than seven cards");
        TableView {
            street: super::table::Street::River,
            hole: [card(), card()],
            board: (0..5).map(|_| card()).collect(),
            pot: chips,
            bets: vec![chips; seats],
            stacks: vec![chips; seats],
            folded: vec![false; seats],
            legal: super::action::Legal {
                actor: seats - 1,
                can_fold: true,
                call: chips,
                raise_to: Some(chips..=chips),
            },
        }
    }

    fn longest_state(&self) -> usize {
        state(&self.widest(), self.config.terse == 1).len()
    }
}

/// An episode, as a conversation.
struct Game {
    hands: Hands,
    terse: bool,
    seed: TaskSeed,
}

impl Game {
    /// The state that the policy is asked about.
    fn state(&self) -> Option<String> {
        self.hands.view().map(|view| state(view, self.terse))
    }

    fn verdict(&self, outcome: &EpisodeOutcome, finished: bool) -> Result<Verdict, TaskError> {
        let correct = finished && outcome.chips > outcome.penalty;
        let hand = self.hands.first_cards().map(|cards| StartingHand::of(cards).to_string());
        Verdict { reward: outcome.reward, correct, metadata: Default::default() }
            .with("chips", MetaValue::Integer(outcome.chips))
            .and_then(|verdict| verdict.with("faults", MetaValue::Integer(i64::from(outcome.faults))))
            .and_then(|verdict| match hand {
                Some(hand) => verdict.with("private_hand", MetaValue::Text(hand)),
                None => Ok(verdict),
            })
            .map_err(|error| TaskError::internal(NAME, error))
    }
}

impl Episode for Game {
    fn hear(&mut self, response: &Response<'_>) -> Result<Reply, TaskError> {
        let internal = |error| TaskError::internal(NAME, error);
        if self.hands.view().is_some() {
            self.hands.answer(response).map_err(internal)?;
        }
        if response.finished
            && let Some(state) = self.state()
        {
            return Ok(Reply::Goes(state));
        }
        // The episode's own bound on turns ends this.
        while self.hands.view().is_some() {
            self.hands.answer(&Response::NOTHING).map_err(internal)?;
        }
        let outcome = self.hands.outcome();
        let outcome = outcome.ok_or_else(|| TaskError::internal(NAME, "an episode has no outcome"))?;
        self.verdict(&outcome, response.finished).map(Reply::Ends)
    }

    /// What the opponent would do that goes by pot odds.
    fn suggestion(&self) -> String {
        let advice = self.hands.advice(&PotOdds, &mut self.seed.draws()).unwrap_or_default();
        match advice.strip_prefix(MARK) {
            Some(action) if self.terse => action.to_owned(),
            _ => advice,
        }
    }
}

/// A state as text; it ends where the answer begins.
fn state(view: &TableView, terse: bool) -> String {
    if !terse {
        return format!("state: {view}\n");
    }
    let cards = |cards: &[Card]| cards.iter().map(Card::to_string).collect::<String>().to_ascii_lowercase();
    let board = if view.board.is_empty() { "-".to_owned() } else { cards(&view.board) };
    let raise = view.legal.raise_to.as_ref();
    let raise = raise.map_or_else(String::new, |range| format!(" r{}-{}", range.start(), range.end()));
    let (hole, pot, call, rivals) = (cards(&view.hole), view.pot, view.legal.call, view.rivals().count());
    format!("{hole} {board} p{pot} c{call} s{} v{rivals}{raise}:", view.stacks[view.legal.actor])
}

impl Task for Holdem {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        let game = self.game(seed);
        // Nobody is asked nothing: in an episode without a decision there is still something to answer.
        let state = game.state().unwrap_or_else(|| "-:".to_owned());
        let text = if game.terse { state } else { format!("{}\n{state}", game.hands.log().rules) };
        Prompt { text }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        task::first_turn_alone(self, seed, response)
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.game(seed).suggestion()
    }

    fn episode(&self, seed: TaskSeed) -> Box<dyn Episode + '_> {
        Box::new(self.game(seed))
    }

    fn max_turns(&self) -> u32 {
        self.config.turns as u32
    }

    fn longest_heard(&self) -> usize {
        (self.config.turns as usize - 1) * self.longest_state()
    }

    fn longest_prompt(&self) -> usize {
        let rules = if self.config.terse == 1 { 0 } else { self.config.rules().len() + 1 };
        rules + self.longest_state()
    }

    fn longest_response(&self) -> usize {
        let chips = self.config.players.saturating_mul(self.config.stack);
        let mark = if self.config.terse == 1 { "" } else { MARK };
        self.config.turns as usize * format!("{mark}raise {chips}").len()
    }
}

#[cfg(test)]
mod tests;
