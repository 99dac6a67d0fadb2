//! Work orders, and all that comes back for them.
//!
//! An order is derived from the run and a counter, so it is never sent. What travels is the lease, the
//! signed group of trajectories, and the learner's answer. May import `wire` and `run`.
//!
//! ```text
//! learner ── lease (a range of counters) ──> node ── order ──> G trajectories
//!    ^                                                              │
//!    └──────────── trajectory group, signed by the node ────────────┘
//!    │
//!    ├── submission: accepted with a receipt, duplicate, retry or refused ──> node
//!    └── verification: the same group ──> verifier ── signed report ──> learner
//! ```

pub mod lease;
pub mod order;
pub mod receipt;
pub mod rest;
pub mod submission;
pub mod trajectory;
pub mod verification;
