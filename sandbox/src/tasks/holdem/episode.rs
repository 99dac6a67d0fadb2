//! Episodes: a policy that answers in text plays hands against opponents (ECHO-2, appendix F.3).
//!
//! An episode is a machine without input or output of its own: [`HoldemEpisode::ask`] says whose
//! text is needed and for which messages, [`HoldemEpisode::answer`] takes it and plays on to the
//! next question. A driver can hold as many as it likes and generate for all of them together.
//! Seats, cards and the opponents' choices follow from the seed, so the same answers give the same
//! episode everywhere, and whoever has the answers can compute the reward again.
//!
//! **What a bad answer does.** An answer that is cut, malformed or illegal checks where that is
//! free and folds elsewhere, and the turn's reward is less by the penalty of the configuration. An
//! opponent's bad answer checks or folds and costs nothing.

mod config;
mod log;

use std::sync::Arc;

use echo_protocol::wire::rng::Draws;

use super::action::{Action, Legal};
use super::answer::{self, AnswerFault, MAX_ANSWER_BYTES};
use super::cards::card::{Card, Deck};
use super::opponent::{LanguageModel, Opponent, OpponentChoice, rule_based};
use super::table::{Deal, Table};
use super::view::TableView;
use crate::task::spec::SpecError;
use crate::task::{Response, TaskSeed};

pub use config::{EpisodeConfig, MAX_BIG_BLIND, MAX_HANDS, MAX_STACK_BLINDS, MAX_TURNS};
pub use log::{EpisodeLog, LoggedTurn, Message, MessageRole};

/// Hands in which the policy is never asked do not count and are dealt again, at most so often in a row.
pub const MAX_IDLE_HANDS: u32 = 256;

/// Whose text an episode waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The policy that is trained.
    Policy,
    /// An opponent that is a language model.
    Opponent {
        /// The seat at the table, from 0, left of the button first.
        seat: usize,
    },
}

/// A question of an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The policy, or the opponent whose turn it is.
    pub speaker: Speaker,
    /// What it is shown: to the policy the whole conversation so far, to an opponent the rules
    /// and its own view.
    pub messages: Vec<Message>,
}

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpisodeOutcome {
    /// The net profit of the counted hands, in chips.
    pub chips: i64,
    /// What bad answers cost beside that.
    pub penalty: i64,
    /// How many answers were bad.
    pub faults: u32,
    /// Where the return R = chips - penalty lies between the least and the greatest possible,
    /// 0 to 1. Linear in R, so advantages that are normalised by their standard deviation are
    /// the same for both.
    pub reward: f32,
}

/// An answer that nobody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the episode is over: it takes no answer")]
pub struct NotAsked;

/// A hand that is being played.
#[derive(Debug)]
struct Hand {
    table: Table,
    /// The policy's seat in this hand, from 0.
    seat: usize,
    /// Whether the policy was asked in it.
    counts: bool,
}

#[derive(Debug)]
struct Pending {
    speaker: Speaker,
    view: TableView,
}

/// One episode: some hands at one table, in which the policy is asked.
pub struct HoldemEpisode {
    config: EpisodeConfig,
    /// Who sits 1, 2, ... seats after the policy.
    opponents: Vec<Arc<dyn Opponent>>,
    cards: Draws,
    chances: Draws,
    hand: Hand,
    log: EpisodeLog,
    first_cards: Option<[Card; 2]>,
    /// Profit of the hands that are over and count.
    settled: i64,
    /// Profit when the last turn was taken.
    seen: i64,
    penalty: i64,
    hands: i64,
    idle: u32,
    pending: Option<Pending>,
}

impl HoldemEpisode {
    /// Starts the episode of `seed` against the opponents that `config` names.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn new(config: EpisodeConfig, seed: TaskSeed) -> Result<Self, SpecError> {
        config.check()?;
        // Not the stream that seat and cards come from.
        let mut draws = fork(&mut seed.draws());
        let known = rule_based();
        let opponents = (1..config.seats()).map(|_| -> Arc<dyn Opponent> {
            let drawn = draws.below(known.len() as u64) as usize;
            match config.opponent {
                0 => known[drawn].clone(),
                number => match known.get(number as usize - 1) {
                    Some(opponent) => opponent.clone(),
                    None => Arc::new(LanguageModel),
                },
            }
        });
        let opponents = opponents.collect();
        Self::against(opponents, config, seed)
    }

    /// Starts the episode of `seed` against `opponents`, who sit after the policy in this order
    /// and from the first again when they are fewer than the seats. The configuration's own
    /// choice plays no part.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn against(
        mut opponents: Vec<Arc<dyn Opponent>>,
        config: EpisodeConfig,
        seed: TaskSeed,
    ) -> Result<Self, SpecError> {
        config.check()?;
        if opponents.is_empty() {
            opponents.extend(rule_based());
        }
        let mut draws = seed.draws();
        let seat = draws.below(config.seats() as u64) as usize;
        let mut cards = fork(&mut draws);
        let hand = deal(&config, seat, &mut cards);
        let log = EpisodeLog { rules: config.rules(), turns: Vec::new() };
        let mut episode = Self {
            config,
            opponents,
            cards,
            chances: fork(&mut draws),
            hand,
            log,
            first_cards: None,
            settled: 0,
            seen: 0,
            penalty: 0,
            hands: 0,
            idle: 0,
            pending: None,
        };
        episode.advance();
        Ok(episode)
    }

    /// Whose text is needed next; `None` when the episode is over.
    pub fn ask(&self) -> Option<Ask> {
        let pending = self.pending.as_ref()?;
        let state = pending.view.to_string();
        let messages = match pending.speaker {
            Speaker::Policy => self.log.messages_with(&state),
            Speaker::Opponent { .. } => {
                EpisodeLog { rules: self.log.rules.clone(), turns: Vec::new() }.messages_with(&state)
            }
        };
        Some(Ask { speaker: pending.speaker, messages })
    }

    /// What the seat that is asked sees.
    pub fn view(&self) -> Option<&TableView> {
        self.pending.as_ref().map(|pending| &pending.view)
    }

    /// Takes the text that was asked for, and plays on. Of an answer that is too long the log
    /// keeps the first [`MAX_ANSWER_BYTES`].
    ///
    /// # Errors
    /// When the episode is over.
    pub fn answer(&mut self, response: &Response<'_>) -> Result<(), NotAsked> {
        let Pending { speaker, view } = self.pending.take().ok_or(NotAsked)?;
        let read = answer::read(response, &view.legal);
        let action = read.unwrap_or(view.legal.check_or_fold());
        if speaker == Speaker::Policy {
            self.take_turn(response.text, &view, action, read.err());
        }
        self.act(action, &view.legal);
        self.advance();
        Ok(())
    }

    fn take_turn(&mut self, text: &str, view: &TableView, action: Action, fault: Option<AnswerFault>) {
        let penalty = if fault.is_some() { self.config.penalty } else { 0 };
        self.penalty += penalty;
        let kept = text.floor_char_boundary(MAX_ANSWER_BYTES);
        self.log.turns.push(LoggedTurn {
            state: view.to_string(),
            answer: text[..kept].to_owned(),
            action,
            fault,
            reward: -penalty,
        });
    }

    /// Does `action` at the table, or checks or folds when it is not allowed.
    fn act(&mut self, action: Action, legal: &Legal) {
        if self.hand.table.act(action).is_err() {
            let otherwise = self.hand.table.act(legal.check_or_fold());
            debug_assert!(otherwise.is_ok(), "whoever is to act may check or fold");
        }
    }

    /// Plays until text is needed or the episode is over.
    fn advance(&mut self) {
        loop {
            let Some(view) = TableView::of(&self.hand.table) else {
                if self.finish_hand() {
                    return;
                }
                continue;
            };
            let seat = view.legal.actor;
            if seat == self.hand.seat {
                if !self.may_speak() {
                    self.act(view.legal.check_or_fold(), &view.legal);
                    continue;
                }
                self.hand.counts = true;
                self.first_cards.get_or_insert(view.hole);
                self.reward_turn();
                self.pending = Some(Pending { speaker: Speaker::Policy, view });
                return;
            }
            let after = (seat + self.config.seats() - self.hand.seat) % self.config.seats();
            let opponent = &self.opponents[(after - 1) % self.opponents.len()];
            match opponent.decide(&view, &mut self.chances) {
                OpponentChoice::Act(action) => self.act(action, &view.legal),
                OpponentChoice::Ask => {
                    self.pending = Some(Pending { speaker: Speaker::Opponent { seat }, view });
                    return;
                }
            }
        }
    }

    fn may_speak(&self) -> bool {
        (self.log.turns.len() as i64) < self.config.turns
    }

    /// Ends a hand and starts the next one; true when there is none.
    fn finish_hand(&mut self) -> bool {
        if self.hand.counts {
            self.settled += self.profit();
            self.hand.counts = false;
            self.hands += 1;
            self.idle = 0;
        } else {
            self.idle += 1;
        }
        if self.hands == self.config.hands || !self.may_speak() || self.idle == MAX_IDLE_HANDS {
            self.reward_turn();
            return true;
        }
        // The button moves on by one seat.
        let seat = (self.hand.seat + self.config.seats() - 1) % self.config.seats();
        self.hand = deal(&self.config, seat, &mut self.cards);
        false
    }

    /// What the policy has won in the hand so far; chips that it bet are lost until it wins them back.
    fn profit(&self) -> i64 {
        let stack = self.hand.table.stacks().nth(self.hand.seat).unwrap_or(0);
        stack as i64 - self.config.stack
    }

    /// Gives the last turn the chips that changed hands since it was taken.
    fn reward_turn(&mut self) {
        let current = if self.hand.counts { self.profit() } else { 0 };
        let now = self.settled + current;
        if let Some(turn) = self.log.turns.last_mut() {
            turn.reward += now - self.seen;
            self.seen = now;
        }
    }

    /// What happened so far, from the policy's side.
    pub fn log(&self) -> &EpisodeLog {
        &self.log
    }

    /// The policy's cards in the first hand in which it was asked, for grouping; `None` when it never was.
    pub fn first_cards(&self) -> Option<[Card; 2]> {
        self.first_cards
    }

    /// How the episode ended; `None` while it waits for text.
    pub fn outcome(&self) -> Option<EpisodeOutcome> {
        if self.pending.is_some() {
            return None;
        }
        let (least, most) = self.config.returns();
        let above = (self.settled - self.penalty - least) as f64;
        Some(EpisodeOutcome {
            chips: self.settled,
            penalty: self.penalty,
            faults: self.log.turns.iter().filter(|turn| turn.fault.is_some()).count() as u32,
            reward: (above / (most - least) as f64) as f32,
        })
    }

    /// What `adviser` would answer in the place of who is asked, as the text of an action; `None`
    /// when the episode is over or the adviser is itself a language model. For supervised
    /// warm-ups and for tests.
    pub fn advice(&self, adviser: &dyn Opponent, draws: &mut Draws) -> Option<String> {
        let view = self.view()?;
        match adviser.decide(view, draws) {
            OpponentChoice::Act(action) => Some(answer::write(action, &view.legal)),
            OpponentChoice::Ask => None,
        }
    }
}

/// A stream of its own, so that how much one reader draws does not change what another gets.
fn fork(draws: &mut Draws) -> Draws {
    let mut seed = [0; 32];
    for word in seed.chunks_exact_mut(8) {
        word.copy_from_slice(&draws.next_u64().to_le_bytes());
    }
    Draws::new(seed)
}

fn deal(config: &EpisodeConfig, seat: usize, cards: &mut Draws) -> Hand {
    let mut deck = Deck::shuffled(cards);
    let mut next = || deck.deal().expect("a deck has more cards than ten seats and a board");
    let holes = (0..config.seats()).map(|_| Some([next(), next()])).collect();
    let board = std::array::from_fn(|_| next());
    let table = Table::new(&config.stakes(), &config.stacks(), Deal { holes, board });
    Hand { table: table.expect("a checked configuration gives sound stakes"), seat, counts: false }
}

#[cfg(test)]
mod tests;
