//! What the node knows about itself, and how its owner sees that.
//!
//! Every part writes to the one `node_state::NodeState`. The reporter, the progress bar and the heartbeat
//! read it. May import `state`.
//!
//! ```text
//! all parts ── node_state (counts, throughput) ─┬─ reporter ─┬─ screen       lines, progress, status line
//!                                               │            └─ status.json  for programs, and for `show`
//!                                               └─ heartbeats to the learner
//! ```

pub mod node_state;
pub mod reporter;
pub mod screen;
pub mod show;
mod throughput;
