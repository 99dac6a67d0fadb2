//! The volunteer's daemon: receives the newest policy, generates and scores rollouts, signs them and sends them to the learner.
//!
//! ```text
//! peer list ─ discovery ─┐                       ┌─ snapshots (chunks in, chunks out)
//!                        session ── manifests ───┤
//! learner ── leases ─────┤                       └─ install ── policy ─┐
//!                        └─ leased orders ──────────────────────── rollout (a thread)
//! learner ── answers ─── uplink ── outbox (durable) ── signed groups ──┘
//! ```
//!
//! - [`config`] and [`preflight`] say what the node runs with, and everything that would keep it from running;
//! - [`hardware`] says which devices there are and how fast the best one is;
//! - [`discovery`] finds the learner, [`session`] keeps talking to it, [`neighbours`] are those that it names;
//! - [`downloads`] follows snapshots, [`install`] makes a policy of one;
//! - [`precision`] says in which numbers it generates, [`ladder`] on which device;
//! - [`rollout`] turns leased orders into signed groups, [`outbox`] keeps them, [`uplink`] delivers them, [`ledger`] keeps what the learner said of them;
//! - [`verifier`] checks the groups of others, where its owner wants it;
//! - [`status`] tells the owner; [`node`] puts it all together and takes it down again.
//!
//! Nothing here limits disk or schedule yet: there is no setting for what is not enforced.

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod backoff;
pub mod board;
pub mod charter_file;
pub mod cli;
pub mod config;
pub mod data_dir;
pub mod discovery;
pub mod downloads;
pub mod gossip;
pub mod hardware;
pub mod install;
pub mod json_file;
pub mod known_peers;
pub mod ladder;
pub mod learner;
pub mod leasing;
pub mod ledger;
pub mod manifest_fetch;
pub mod manifests;
pub mod membership;
pub mod neighbours;
pub mod node;
pub mod orders;
pub mod outbox;
pub mod precision;
pub mod preflight;
pub mod returns;
pub mod rollout;
pub mod session;
mod shown_path;
pub mod status;
pub mod trust;
pub mod uplink;
pub mod verifier;
pub mod verify_server;
pub mod workload;

#[cfg(test)]
mod testing;
