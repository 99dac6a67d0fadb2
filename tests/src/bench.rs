//! Benches: medians of several rounds, in which the compared systems take turns.
//!
//! They compare Echo with outside systems, and with what bounds it. A run whose memory or speed
//! another one could disturb is a process of its own.
//!
//! May import `harness`, `models` and `output`.
//!
//! ```text
//! options ──► rounds: ours, theirs, ours, theirs, … ──► medians ──► claims ──► CommandReport
//!                │
//!                ├── echo-lab train-step, rollout-run (ours, as JSON in and out)
//!                ├── tests/peers: candle, llama.cpp, PyTorch
//!                └── signed_clients ──► a real learner
//! ```

pub mod centre;
pub mod echo_clip;
pub mod ingest;
pub mod install;
pub mod interrupt;
pub mod learner_share;
mod memory;
pub mod memory_growth;
pub mod micro_batches;
pub mod rollout;
mod roofline;
pub mod sandbox;
mod signed_clients;
pub mod step;
pub mod train;
