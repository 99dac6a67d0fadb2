//! Benches by turns, medians of several rounds: against outside systems, and against what bounds us.

mod ceilings;
mod crew;
pub mod echo_clip;
pub mod growth;
pub mod ingest;
pub mod install;
pub mod interrupt;
pub(crate) mod machine;
mod memory;
pub mod micro_batches;
pub mod rollout;
pub mod sandbox;
pub mod share;
pub mod step;
pub mod train;
