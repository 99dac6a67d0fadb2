//! Benches against outside systems: the same work, by turns, medians of several rounds.

mod machine;
mod memory;
pub mod train;
