//! Judges programs of strangers and of models. They are compiled and run in the sandbox; verdicts are
//! formed outside of it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use echo_sandbox::programs::checkers::Checker;
//! use echo_sandbox::programs::{Checking, Judge, JudgeOptions, Language, ProgramVerdict};
//! use echo_sandbox::programs::{Submission, Suite, Test, TestStore};
//! use echo_sandbox::isolation::{Requirements, Sandbox};
//!
//! let sandbox = Arc::new(Sandbox::open(&Requirements::default())?);
//! let store = Arc::new(TestStore::open("tests".as_ref(), 1 << 30)?);
//! let judge = Arc::new(Judge::new(sandbox));
//! let test = Test { input: store.put(b"2 3\n")?, answer: store.put(b"5\n")? };
//! let suite = Suite::new(vec![test], Checking::Stock(Checker::Ncmp));
//! let source = "print(sum(map(int, input().split())))".to_owned();
//! let submission = Submission { language: Language::Python, source };
//! for report in Judge::judge(&judge, submission, suite, store, JudgeOptions::default())? {
//!     assert_eq!(report.verdict, ProgramVerdict::Accepted);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`verdict`]: how a program did on a test;
//! - [`language`], [`toolchain`]: how programs are built and run, and what is installed for it;
//! - [`program`]: from a source to what is run, once for many tests;
//! - [`store`]: the data of tests, by content; [`suite`]: tests and how they are checked;
//! - [`judge`]: verdicts of a program, test after test;
//! - `checkers`: testlib's stock checkers, which compare an output with the answer;
//! - [`functions`]: functions that are called with arguments, and checked by an author's asserts;
//!   `harness` has our two Python programs for that, compiled once;
//! - [`service`]: many judgings at once, fair to each client; `server`: the same over a
//!   local socket, on Linux;
//! - [`vectors`]: reference solutions, and mutants of them.
//!
//! May import `isolation`, `conformance` and, for limits of files, `task`.
//!
//! ```text
//! Submission -> program (build in the sandbox) -> Program
//! for each Test of the Suite:
//!   input (store) -> isolation -> RunOutcome
//!   RunOutcome at a limit, or killed -> ProgramVerdict
//!   RunOutcome that ended well -> answer (store) -> checkers -> ProgramVerdict
//! verdicts of all tests -> ProgramVerdict::combined
//! ```
//!
//! An expected answer is never in a sandbox together with the judged program (invariant 8). A failure
//! of ours is [`ProgramVerdict::Internal`], which has no score (invariant 7).

pub mod checkers;
pub mod functions;
mod harness;
pub mod judge;
pub mod language;
pub mod program;
#[cfg(target_os = "linux")]
pub mod server;
pub mod service;
pub mod store;
pub mod suite;
pub mod toolchain;
pub mod vectors;
pub mod verdict;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod testing;

pub use functions::{Exam, ExamError, Exams, FunctionTask};
pub use judge::{Judge, JudgeOptions, Judging};
pub use language::Language;
pub use program::Submission;
pub use store::{TestData, TestStore, TestStoreError};
pub use suite::{Checking, FileNames, Suite, SuiteError, Test};
pub use toolchain::Toolchains;
pub use verdict::{ProgramVerdict, TestReport};
