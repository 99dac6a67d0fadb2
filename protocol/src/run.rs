//! What a run is, and what in it never changes.
//!
//! A run is named by its signed charter. A volunteer finds it by a peer list. Versions count updates,
//! and an epoch is one life of the learner. May import `wire`.
//!
//! ```text
//! peer list ──> the learner's key ──> charter (signed) ──> run id
//!                                        │
//!          ┌──────────────┬──────────────┼──────────────┐
//!      tasks, model   staleness      precisions    tensor type
//!                     S, κ, η       of generation  of snapshots
//! ```

pub mod charter;
pub mod epoch;
pub mod peer_list;
pub mod precision;
pub mod prompt;
pub mod staleness;
pub mod tensor_type;
pub mod version;
