//! The published policy on its way to this node: from a signed manifest to weights that generate.
//!
//! Chunks themselves are fetched, verified and served by `echo_protocol::net::snapshots`. This folder
//! decides which manifests are believed, and installs what is complete. May import `devices`,
//! `learner_link`, `state`, `status` and `workload`.
//!
//! ```text
//! gossip ─────────┐
//!                 ├─ manifests (signature, form, charter) ── snapshot service ── chunk store
//! manifest_fetch ─┘                                               │
//!                          policy in use ── install ── downloads ─┘ complete
//! ```

pub mod downloads;
pub mod gossip;
pub mod install;
pub mod manifest_fetch;
pub mod manifests;
