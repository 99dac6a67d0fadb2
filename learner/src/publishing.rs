//! What leaves the trainer: snapshots for nodes, and checkpoints for the next process.
//!
//! It imports `intake`, `fleet` and `training` for the state that a checkpoint holds, `storage`
//! and `common`. The order of the two ways is kept by `run::release`.
//!
//! ```text
//! weights, optimizer, state ─> checkpoint ─> run directory ─> its copy in a bucket
//! weights in canonical order
//!     └─ snapshots   chunks, and deltas against the version before
//!          └─ manifest, signed ─> announced, once the checkpoint is where it belongs
//! ```

pub mod checkpoint;
pub mod options;
pub mod snapshots;
