//! The process that works on a run: its parts in the order of their start, and the training loop.
//!
//! It imports every folder but `commands`. Nothing below imports it.
//!
//! ```text
//! daemon
//!   ├─ banner           what the run is, in a few lines
//!   ├─ resumption       checkpoint and metrics of earlier processes
//!   ├─ network          host, chunk store, source of snapshots
//!   ├─ shared_state     leases, buffer, fleet, audit; restore_audit: policies of checkpoints
//!   ├─ server, moderation, rendezvous     from here on nodes are let in
//!   ├─ provisioning     asks the operator's program for rented nodes
//!   ├─ evaluations      a thread: sets of rows, answered beside training
//!   ├─ release          a thread: checkpoint, its copy, publication
//!   └─ training_loop    a thread: does what the controller says
//! finalize: the exported policy and summary.json of a finished run
//! ```

pub mod banner;
pub mod capacity;
pub mod controller;
pub mod daemon;
pub mod evaluations;
pub mod finalize;
pub mod network;
pub mod provisioning;
pub mod release;
pub(crate) mod rendezvous;
pub mod restore_audit;
mod resumption;
pub(crate) mod shared_state;
pub mod training_loop;
