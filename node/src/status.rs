//! What the node knows about itself, and how its owner sees that.
//!
//! Every part writes to the one `node_state::NodeState`. The reporter, the progress bar and the heartbeat
//! read it. May import `state`.
//!
//! ```text
//! all parts ── node_state (counts, throughput) ─┬─ reporter ─┬─ screen       lines, progress bar
//!                                               │            └─ status.json  for programs
//!                                               └─ heartbeats to the learner
//! ```

pub mod node_state;
pub mod reporter;
pub mod screen;
mod throughput;
