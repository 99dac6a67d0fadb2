//! echo-lab: everything that looks at Echo as a whole.
//!
//! What all commands share:
//!
//! - `output` is what commands print and draw: the console, a live view, plots.
//! - `harness` builds, finds and starts programs. It has networks of real processes, network
//!   namespaces, and a peer that the lab plays itself (`liar`).
//! - `models` makes policies: random weights, a tiny policy trained in the process, and a
//!   published model.
//!
//! The commands:
//!
//! - `demo` trains two-digit addition or a published model on this machine, and draws the reward curve.
//! - `attack` trains the demo's task among liars, floods and slow lorises, and among honest nodes. Or
//!   it attacks a network in one way.
//! - `trouble` plays kills, wrong clocks, full disks and damaged files on real processes.
//! - `broadcast` times how a snapshot spreads. It also runs dissemination in simulated networks.
//! - `bench` measures speed and memory, against outside systems and against limits.
//! - `study` tries what the papers claim, with a tiny policy.
//! - `conformance` compares Echo's numbers with reference data that others made.
//! - `gpu` packs a kit for machines with an NVIDIA card, and is what runs there.
//! - `results` renders the measured figures as a page, and records new ones.
//! - `suite` prepares a machine, and runs every test of the workspace.
//!
//! ```text
//! a command:  cli ──► demo, bench, … ──► CommandReport ──► output::console ──► exit code
//!                                              └── --record ──► results ──► records.jsonl
//! a network:  harness::cargo ──► binaries ──► network ──► echo-bootstrap, echo-learner, echo-node
//!                                                └──► status.json, metrics.jsonl, logs ──► verdict
//! ```
//!
//! Every command may import the three shared folders. Besides, `attack` imports `demo` and the
//! statistics of `study`, `demo` imports `conformance`, `study` imports `broadcast` and
//! `conformance`, and `gpu` imports `bench` and `demo`.
//! The lab may import every crate of this workspace; no crate imports the lab.

pub mod attack;
pub mod bench;
pub mod broadcast;
pub mod conformance;
pub mod demo;
pub mod gpu;
pub mod harness;
pub mod models;
pub mod output;
pub mod results;
pub mod study;
pub mod suite;
pub mod trouble;
