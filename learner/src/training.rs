//! From a batch of groups to new weights, and how good these are on held-out orders.
//!
//! It imports `intake` (groups, the filter's options), `storage` (files that are written as a whole)
//! and `common`. Checkpoints and snapshots are not its business: it takes and gives named tensors.
//!
//! ```text
//! stored groups
//!     └─ sequences   tokens as the policy read them, environments' words included
//!          └─ batch   packs without padding, in micro-batches
//!               └─ trainer   decoder: log-probs ─> objective: dL/dlog-prob ─> decoder: gradients
//!                    └─ optimizer   AdamW, with guard and lr_schedule
//!                         └─ evaluation   local_rollouts on held-out orders, and sets of rows
//! ```

pub mod batch;
pub mod device;
pub mod evaluation;
pub mod local_rollouts;
pub mod lr_schedule;
pub mod objective;
pub mod optimizer;
pub mod options;
pub mod precision_weights;
pub mod sequences;
pub mod trainer;
