//! Benches: the same work by turns, medians of several rounds.

pub mod growth;
mod machine;
mod memory;
pub mod micro_batches;
pub mod step;
pub mod train;
