//! The tasks. Most are procedural: endless prompts, exact verdicts, no data to ship. Others are made of a file.

pub mod chain_sum;
pub mod code;
pub mod countdown;
mod exact;
pub mod guess_number;
pub mod holdem;
pub mod math;
mod natural;
pub mod number_sorting;
pub mod spell_backward;
pub mod wasm;
