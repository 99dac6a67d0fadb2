//! `holdem`: no-limit Texas hold'em, played in text over several turns (ECHO-2, appendix F).
//!
//! - `cards`: the deck, what a hand is worth, and what it may become;
//! - [`stakes`], [`action`], [`table`], [`pots`]: the rules, as a pure state machine of one hand;
//! - [`view`], [`answer`]: the table as text, and actions from text;
//! - [`opponent`], [`episode`]: who plays against the policy, and their conversation;
//! - [`game`]: the task that runs name;
//! - [`turns`]: which tokens of a log are trained on;
//! - [`replay`], [`vectors`]: recorded hands, and the engine checked against them.
//!
//! ```text
//! seed -> deck -> Table -> TableView -> prompt -> (the policy) -> answer -> Action -> Table
//!   the opponents act until the policy's next turn, or until the hand is over
//! hands -> EpisodeOutcome -> the reward of the episode
//! ```

pub mod action;
pub mod answer;
pub mod cards;
pub mod episode;
pub mod game;
pub mod opponent;
pub mod pots;
pub mod replay;
pub mod stakes;
pub mod table;
pub mod turns;
pub mod vectors;
pub mod view;

/// The task's name in run configurations.
pub const NAME: &str = "holdem";
