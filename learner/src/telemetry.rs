//! What a run can be seen by: rows of metrics, the places that show them, samples of what the policy
//! writes, warnings, and the summary.
//!
//! It imports `intake`, `training` and `publishing` for the figures that rows are made
//! of, `storage` and `common`.
//!
//! ```text
//! update, evaluation, publication
//!     └─ exporters   one row each
//!          ├─ metrics        metrics.jsonl: the record, written first
//!          ├─ tensorboard    every row
//!          └─ prometheus     the newest values, when asked
//!     └─ warnings    what is wrong with the run, and its mend
//! groups of an update, answers of an evaluation
//!     └─ samples     samples.jsonl and TensorBoard's texts, on a thread of their own
//! metrics.jsonl ─> summary   when the run ends
//! ```

pub mod exporters;
pub mod metrics;
pub mod options;
pub mod samples;
pub mod summary;
pub mod warnings;
