//! What a run can be seen by: rows of metrics, the places that show them, and the summary.
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
//! metrics.jsonl ─> summary   when the run ends
//! ```

pub mod exporters;
pub mod metrics;
pub mod options;
pub mod summary;
