//! Tasks: what a policy is asked, and what its answers are worth.
//!
//! A [`task::Task`] turns a seed into a prompt, and a response into a [`task::Verdict`]. Both are
//! pure functions of the seed. So prompts are not sent and rewards are not trusted: a volunteer
//! derives the prompt of its work order, and the learner computes the reward again before it trains.
//!
//! ```
//! use echo_protocol::run::charter::TaskSpec;
//! use echo_sandbox::task::files::TaskFiles;
//! use echo_sandbox::tasks::registry;
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
//! # Folders
//!
//! `task`: the contract. It has the trait, seeds, prompts, responses, verdicts and episodes of
//! several turns. It also has what tasks are built of: specifications, files and data sets.
//!
//! `tasks`: the tasks of Echo, one module each, and the `registry` that builds them by name. Most are
//! procedural. `math`, `code` and `wasm` are made of a file.
//!
//! `rollout`: a run's use of tasks. It goes from a task mix and a work order to a prompt, and from a
//! finished trajectory to its verdict.
//!
//! `programs`: judges programs by tests. It has languages, suites, checkers and verdicts, and a
//! service and a local server that judge many at once.
//!
//! `isolation`: runs one untrusted program, with limits on all that it can use and reach. It uses
//! Linux namespaces, control groups, Landlock and seccomp.
//!
//! `wasm`: runs verifiers that a task's author ships as WebAssembly modules.
//!
//! `conformance`: reads cases that were recorded elsewhere, and counts how many come out the same.
//!
//! `fuzzing` (a feature): opens private readers to the fuzz targets.
//!
//! # Two trips
//!
//! ```text
//! an order:    WorkOrder -> rollout::assignment -> rollout::mix -> task and seed -> Prompt
//!              trajectory -> rollout::judge -> rollout::replay -> task::episode -> Verdict
//!
//! a program:   Response -> tasks::code -> programs::judge -> programs::program (build)
//!              -> isolation (one run for each test) -> programs::checkers -> programs::ProgramVerdict
//!              -> task::Verdict, or TaskError where the failure is ours
//! ```
//!
//! # Adding a task
//!
//! Add one file under `tasks/` and one row in its `registry`. Prompts and answers of procedural
//! tasks use only digits, lower-case letters and ` +-*/=(),:`. A character tokenizer of 64
//! tokens suffices for them.

pub mod conformance;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod isolation;
pub mod programs;
pub mod rollout;
pub mod task;
pub mod tasks;
pub mod wasm;
