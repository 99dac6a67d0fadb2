//! echo-learner: turns the rollouts of volunteers into the next policy.
//!
//! ```
//! use echo_learner::training::objective::{Preset, RewardedResponse};
//!
//! // Of two responses to one prompt, one is right. GEPO subtracts the mean of the group.
//! let group = [1.0, 0.0].map(|reward| RewardedResponse { reward, length: 5, group: 0 });
//! let advantages = Preset::Gepo.objective().advantage.of(&group)?;
//! assert_eq!(advantages, [0.5, -0.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each folder imports only folders further down in this list.
//!
//! - `commands`: the command line, and what it offers besides training: broadcasts of policies that
//!   are there already, export, evaluation, warm-up, pre-filter, bench, peers, samples, check, plan.
//! - `run`: the process that works on a run. It starts all parts, trains in the order that its
//!   controller gives, releases versions and writes what a finished run leaves.
//! - `founding`: makes a run before its first update (key, model, starting policy, charter),
//!   and finds it again.
//! - `config`: the run file. It composes the options that stand beside their parts.
//! - `telemetry`: rows of metrics, their export to `metrics.jsonl`, Prometheus and
//!   TensorBoard, samples of what the policy writes, warnings, and the summary.
//! - `server`: the learner on the network. It answers nodes, takes their groups in and follows the
//!   operator's decisions about peers.
//! - `verification`: were a group's tokens drawn from the policy? The learner's own audit says so,
//!   and panels of verifiers.
//! - `publishing`: snapshots for nodes, checkpoints for the next process.
//! - `fleet`: all nodes of a run, and who receives snapshots from whom.
//! - `training`: batches, objectives, optimizer, trainer, evaluation.
//! - `intake`: leases, admission, filter and the durable replay buffer, under one lock.
//! - `reputation`: what every key delivered and lied about, and whether its groups are accepted.
//! - `storage`: what survives a crash, the run directory, and files of the Hugging Face Hub.
//! - `common`: what a charter means in tokens and rewards, errors of options, paced log lines.
//!
//! Two trips go through all of it. A trajectory group:
//!
//! ```text
//! node ─> server::delivery ─> intake::admission ─> verification ─> intake::coordinator
//!                                                      intake::buffer: durable, acknowledged
//!      run::training_loop <─ batch of stored groups <─────────┘
//!          └─> training::trainer ─> training::optimizer: the next version
//! ```
//!
//! And a version:
//!
//! ```text
//! run::training_loop ─> run::release ─> publishing::checkpoint: durable
//!                            └─> publishing::snapshots: chunks, deltas, signed manifest
//!                                    └─> server: announced ─> nodes, in fleet's chains and mesh
//! ```

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod commands;
pub mod common;
pub mod config;
pub mod fleet;
pub mod founding;
pub mod intake;
pub mod publishing;
pub mod reputation;
pub mod run;
pub mod server;
pub mod storage;
pub mod telemetry;
pub mod training;
pub mod verification;
