//! What a node asks its learner, and what it reports about itself.
//!
//! Requests and responses are small and go over `/echo/control/5`. A heartbeat is one
//! of the requests. The driver for the bytes is in `net`. May import `wire`, `run`,
//! `work`, `snapshot` and `dissemination`.
//!
//! ```text
//! node ── heartbeat: version, speed, what each neighbour delivered ──> learner
//! node <── news: newest version, neighbourhood if it changed, end ──── learner
//!
//! node ── charter? manifest? lease? neighbours? return of orders ────> learner
//! node <── the matching response, or a refusal in words ────────────── learner
//! ```

#[cfg(test)]
mod earlier_versions;
pub mod heartbeat;
pub mod requests;
