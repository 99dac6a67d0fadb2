//! From a lease to a signed group: the node's work for the run.
//!
//! One thread generates; the rest are tasks. An order that comes to nothing goes back
//! to the learner at once. May import `delivery`, `devices`, `learner_link`,
//! `settings`, `snapshots`, `status` and `workload`.
//!
//! ```text
//! learner ── leasing ── orders ── worker ── in_flight (one sample each) ── signed group ── outbox
//!                                    │          │
//!                       newer policy ┘       given_up ── returns ── learner
//! ```

mod error;
mod given_up;
mod in_flight;
pub mod leasing;
pub mod orders;
pub mod pauses;
pub mod returns;
mod sample;
pub mod worker;
