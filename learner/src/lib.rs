//! echo-learner: turns the rollouts of volunteers into the next policy.
//!
//! - **the run**: [`config`] (the run file), [`run_dir`], [`preflight`] (what would keep it from starting),
//!   [`workload`] (what the charter means), [`controller`] (what is done when), [`demand`] (what it asks of the
//!   fleet), [`conclusion`] (what it leaves behind), [`export`] (a policy of a run that goes on), [`metrics`] and [`watch`]
//!   (where they are seen);
//! - **intake**: [`leases`] (who may work on what), [`admission`] (everything between "bytes arrived" and "may be trained on"),
//!   [`record`] (what every peer has delivered, and who is heard), [`peers`] (the operator's say in it), [`panel`] (verifiers, and what they
//!   say), [`sequences`] (trajectories as the policy read them), [`sampling_audit`] (were its tokens drawn from the policy?), [`recall`] (its policies after a restart), [`filter`] (what is worth a place in
//!   a batch), [`prefilter`] (which rows are worth asking), [`buffer`] (the durable replay buffer), [`store`] (what survives a crash);
//! - **training**: [`batch`], [`objective`], [`optimizer`], [`schedule`], [`trainer`], [`device`] (where), [`bench`] (how fast),
//!   [`warmup`], [`answers`] (what the policy says to orders), [`evaluation`], [`checkpoint`];
//! - **the fleet**: [`fleet`] (nodes and forwarding chains), [`publisher`] (snapshots), [`rehearsal`] (broadcasts without
//!   training).

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod admission;
pub mod answers;
pub mod batch;
pub mod bench;
pub mod buffer;
pub mod checkpoint;
pub mod cli;
pub mod conclusion;
pub mod config;
pub mod controller;
pub mod daemon;
pub mod demand;
pub mod desk;
pub mod device;
pub mod evaluation;
pub mod export;
pub mod filter;
pub mod fleet;
pub mod learning;
pub mod leases;
mod log;
pub mod metrics;
pub mod objective;
pub mod optimizer;
pub mod option_error;
pub mod panel;
pub mod peers;
pub mod prefilter;
pub mod preflight;
pub mod prepare;
pub mod publisher;
pub mod recall;
pub mod record;
pub mod rehearsal;
pub mod release;
pub mod republished;
pub mod run_dir;
pub mod sampling_audit;
pub mod schedule;
pub mod sequences;
pub mod service;
pub mod store;
pub mod summary;
#[cfg(test)]
mod testing;
mod threads;
pub mod trainer;
mod waits;
pub mod warm_up_only;
pub mod warmup;
pub mod watch;
pub mod workload;
