//! The volunteer's daemon: receives the newest policy, generates and scores rollouts, signs them and
//! sends them to the learner.
//!
//! ```text
//! peer list ── discovery ─┐                       ┌─ snapshot service (chunks in, chunks out)
//!                      session ──── manifests ────┤
//! learner ─── leasing ────┤                       └─ install ── policy ──┐
//!                         └─ orders ───────────────────────────────── worker (a thread)
//! learner ─── answers ─── sender ─── outbox (durable) ─── signed groups ─┘
//! ```
//!
//! Each folder's front page says what it is for, what it may import, and draws its one way through.
//! From the bottom up:
//!
//! - `state` is what lies on disk: data directory, peer list, known peers, charter.
//! - `settings` puts flags, environment, file and defaults together.
//! - `status` holds what the node knows about itself, and shows it to the owner.
//! - `devices` says what is computed on, and in which precision.
//! - `preflight` lists everything that would keep the node from running.
//! - `workload` is what a run asks of a node, read from its charter.
//! - `learner_link` finds the learner and keeps talking to it.
//! - `snapshots` follows published policies and installs them.
//! - `delivery` keeps finished groups until the learner has answered, and keeps its receipts.
//! - `rollout` turns leased orders into signed groups.
//! - `verifier` checks the groups of others, where its owner wants it.
//! - `runtime` starts all of these for a run, and takes them down in order.
//! - `cli` is the command line, with the commands that join no network: `verify-server`, `install-service`.
//!
//! # A group
//!
//! `rollout::leasing` asks for a lease and `rollout::orders` opens it. `rollout::worker` takes an order
//! and generates its samples, which `echo_sandbox` judges. `delivery::outbox` puts the signed group on
//! disk, `delivery::sender` delivers it, and `delivery::receipts` keeps the answer.
//!
//! # A snapshot
//!
//! `snapshots::gossip` or `snapshots::manifest_fetch` brings a manifest, and `snapshots::manifests`
//! checks it. The snapshot service fetches its chunks. `snapshots::install` makes a policy of them on
//! the best of `devices::fallback`, and the worker goes on under it between two tokens.
//!
//! There is no setting for what is not enforced.

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
pub mod delivery;
pub mod devices;
pub mod learner_link;
pub mod preflight;
pub mod rollout;
pub mod runtime;
pub mod settings;
pub mod snapshots;
pub mod state;
pub mod status;
pub mod verifier;
pub mod workload;

#[cfg(test)]
mod testing;
