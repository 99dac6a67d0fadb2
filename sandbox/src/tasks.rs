//! The tasks of Echo. Most are procedural: endless prompts, exact verdicts, no data to ship. Others are
//! made of a file.
//!
//! May import `task`, `programs`, `isolation`, `wasm` and `conformance`. A task imports no other task:
//! what several share is in `denial`, `exact` and `natural`.
//!
//! ```text
//! TaskSpec { name, params, data } -> registry::check   before the file is there
//!                                 -> registry::build   with it
//!   procedural (chain_sum, countdown, guess_number, holdem, ...): parameters alone
//!   of a file  (choice, code, math, wasm): parameters and the file's bytes
//! -> Box<dyn Task>
//! ```

pub mod chain_sum;
pub mod choice;
pub mod code;
pub mod countdown;
mod denial;
mod exact;
pub mod guess_number;
pub mod holdem;
pub mod math;
mod natural;
pub mod number_sorting;
pub mod registry;
pub mod spell_backward;
pub mod wasm;
