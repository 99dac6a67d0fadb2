//! What an episode is played for, and against whom.

use serde::Deserialize;

use crate::task::spec;
use crate::task::spec::SpecError;
use crate::tasks::holdem::NAME;
use crate::tasks::holdem::stakes::{MAX_SEATS, MIN_SEATS, Stakes};

/// The most big blinds that a stack may have. It bounds how often seats can raise each other.
pub const MAX_STACK_BLINDS: i64 = 1000;

/// The largest big blind.
pub const MAX_BIG_BLIND: i64 = 1_000_000;

/// The most hands of one episode.
pub const MAX_HANDS: i64 = 32;

/// The most answers of the policy in one episode.
pub const MAX_TURNS: i64 = 64;

/// The parameters of an episode.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EpisodeConfig {
    /// Seats, the policy's included, 2 to [`MAX_SEATS`]. Default 2.
    pub players: i64,
    /// The small blind, in chips, at most the big blind. Default 1.
    pub small_blind: i64,
    /// The big blind, in chips, 1 to [`MAX_BIG_BLIND`]. Default 2.
    pub big_blind: i64,
    /// Everybody's ante, in chips, at most the big blind. Default 0.
    pub ante: i64,
    /// Everybody's chips at the start of every hand, 2 to [`MAX_STACK_BLINDS`] big blinds. Default 100 chips.
    pub stack: i64,
    /// Hands of an episode, 1 to [`MAX_HANDS`]. Default 1.
    pub hands: i64,
    /// The most answers of the policy, 1 to [`MAX_TURNS`]; the rest of the hand is checked and
    /// folded without a penalty, and no further hand is played. Default 16.
    pub turns: i64,
    /// What a cut, malformed or illegal answer costs beside the check or fold that it becomes, in
    /// chips, at most a stack. The chips go to nobody. Default 2.
    pub penalty: i64,
    /// Who has the other seats: 1 tight-passive, 2 loose-aggressive, 3 pot odds, 4 a language
    /// model; 0 draws one of the first three for each seat. Default 0.
    pub opponent: i64,
    /// How the task writes states: 1 in few characters, for small policies, 0 with the rules and
    /// in words. Default 1.
    pub terse: i64,
}

impl Default for EpisodeConfig {
    fn default() -> Self {
        Self {
            players: 2,
            small_blind: 1,
            big_blind: 2,
            ante: 0,
            stack: 100,
            hands: 1,
            turns: 16,
            penalty: 2,
            opponent: 0,
            terse: 1,
        }
    }
}

impl EpisodeConfig {
    /// Whether every parameter is within its range.
    ///
    /// # Errors
    /// [`SpecError::OutOfRange`] of the first parameter that is not.
    pub fn check(&self) -> Result<(), SpecError> {
        let within = |param, value, range| spec::within(NAME, param, value, range);
        within("players", self.players, MIN_SEATS as i64..=MAX_SEATS as i64)?;
        within("big_blind", self.big_blind, 1..=MAX_BIG_BLIND)?;
        within("small_blind", self.small_blind, 0..=self.big_blind)?;
        within("ante", self.ante, 0..=self.big_blind)?;
        within("stack", self.stack, 2 * self.big_blind..=MAX_STACK_BLINDS * self.big_blind)?;
        within("hands", self.hands, 1..=MAX_HANDS)?;
        within("turns", self.turns, 1..=MAX_TURNS)?;
        within("penalty", self.penalty, 0..=self.stack)?;
        within("opponent", self.opponent, 0..=4)?;
        within("terse", self.terse, 0..=1)
    }

    pub(super) fn seats(&self) -> usize {
        self.players as usize
    }

    pub(super) fn stakes(&self) -> Stakes {
        let chips = |count: i64| count.unsigned_abs();
        Stakes::blinds(self.seats(), chips(self.small_blind), chips(self.big_blind), chips(self.ante))
    }

    pub(super) fn stacks(&self) -> Vec<u64> {
        vec![self.stack.unsigned_abs(); self.seats()]
    }

    /// The least and the greatest return that an episode can have: every stack lost and every
    /// answer at fault, every stack of the others won.
    pub fn returns(&self) -> (i64, i64) {
        let at_stake = self.hands * self.stack;
        (-at_stake - self.turns * self.penalty, at_stake * (self.players - 1))
    }

    /// Global rules, 𝒫_rules of ECHO-2 F.4: the system prompt.
    pub fn rules(&self) -> String {
        let Self { players, small_blind, big_blind, stack, penalty, .. } = self;
        format!(
            "no-limit texas holdem, {players} seats, blinds {small_blind} and {big_blind}, ante {}, {stack} chips each. \
             seats count from the left of the button. answer each state with one of: action: fold, action: check, \
             action: call, action: raise n, where your bet of this round becomes n. \
             any other answer checks or folds and costs {penalty} chips.",
            self.ante
        )
    }
}
