//! The built-in procedural tasks: endless prompts, exact verdicts, no data to ship.

pub mod chain_sum;
pub mod countdown;
mod exact;
pub mod math;
mod natural;
pub mod number_sorting;
pub mod spell_backward;
