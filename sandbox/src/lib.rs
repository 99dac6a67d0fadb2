//! Tasks: what a policy is asked, and what its answers are worth.
//!
//! A [`task::Task`] turns a seed into a prompt and a response into a [`task::Verdict`]. Both are pure functions of the
//! seed, so nobody sends prompts or trusts rewards: a volunteer derives the prompt of its work order, and the learner
//! computes the reward again before it trains on it.
//!
//! ```
//! use echo_protocol::charter::TaskSpec;
//! use echo_sandbox::files::TaskFiles;
//! use echo_sandbox::registry;
//! use echo_sandbox::task::{Response, TaskSeed};
//!
//! let spec = TaskSpec::new("chain_sum").with("digits", 3);
//! let task = registry::build(&spec, &TaskFiles::none())?;
//! let seed = TaskSeed([7; 32]);
//! let answer = task.solution(seed);
//! let verdict = task.reward(seed, &Response { text: &answer, finished: true })?;
//! assert!(verdict.correct);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`task`]: the trait, prompts, responses and verdicts;
//! - [`episode`]: tasks in which policy and environment speak in turn;
//! - [`tasks`]: the procedural tasks, and those that are made of a file;
//! - [`files`], [`data_set`]: what such files are;
//! - [`checkers`]: is a program's output as good as the jury's answer?
//! - [`code`]: programs, judged by tests;
//! - [`isolate`]: runs one untrusted program with limits on all that it can use and reach;
//! - [`wasm`]: verifiers that a task's author ships as WebAssembly;
//! - [`vectors`]: cases recorded elsewhere that all of it is held to;
//! - [`assignment`]: what a work order asks for;
//! - [`replay`], [`judge`]: what a trajectory comes to, by the policy's words alone;
//! - [`spec`], [`registry`], [`mix`]: from a run's configuration to tasks, and from draws to a choice among them.
//!
//! To add a task: one file under `tasks/`, one row in [`registry`]. Prompts and answers of the procedural tasks use
//! only digits, lower-case letters and ` +-*/=(),:`, so that a character tokenizer of 64 tokens suffices.

pub mod assignment;
pub mod checkers;
pub mod code;
pub mod data_set;
pub mod episode;
pub mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod isolate;
pub mod judge;
pub mod mix;
pub mod registry;
pub mod replay;
pub mod spec;
pub mod task;
pub mod tasks;
pub mod vectors;
pub mod wasm;
