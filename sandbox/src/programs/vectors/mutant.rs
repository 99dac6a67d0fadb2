//! Wrong versions of a right program, made by the language's own parser in the sandbox.

use crate::isolation::RunLimits;
use crate::programs::functions::{FunctionTask, frames};
use crate::programs::judge::Judge;
use crate::programs::language::Language;
use crate::programs::program::{Given, Program, Submission};
use crate::programs::verdict::{ProgramVerdict, TestReport};

const MUTATE: &str = include_str!("mutate.py");

/// A program that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    /// What was changed, and where.
    pub(super) change: String,
    /// The whole changed program, in Python.
    pub(super) source: String,
}

/// At most `limit` mutants of a task's reference, always the same.
///
/// # Errors
/// A report of our failure, or of a reference that is no Python.
pub(super) fn mutants(judge: &Judge, task: &FunctionTask, limit: usize) -> Result<Vec<Mutant>, TestReport> {
    let names = task.subjects.as_deref().unwrap_or_default().join(" ");
    let stdin = format!("{names}\n{limit}\n{}", task.reference);
    let stdout = run(judge, MUTATE, stdin.as_bytes())?;
    let texts: Vec<_> =
        frames::read(&stdout).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    let mutants = texts.chunks_exact(2);
    Ok(mutants.map(|pair| Mutant { change: pair[0].clone(), source: pair[1].clone() }).collect())
}

/// Whether the checks hold when `source` and they run in one process: the usual way to judge, which
/// is good enough for programs that nobody has made to deceive.
///
/// # Errors
/// A report of what ended the process otherwise.
pub(super) fn holds_in_one_process(
    judge: &Judge,
    task: &FunctionTask,
    source: &str,
) -> Result<(), TestReport> {
    let whole = [source, &task.setup].into_iter().chain(task.checks.iter().map(String::as_str));
    run(judge, &whole.collect::<Vec<_>>().join("\n"), &[]).map(drop)
}

fn run(judge: &Judge, source: &str, stdin: &[u8]) -> Result<Vec<u8>, TestReport> {
    let submission = Submission { language: Language::Python, source: source.into() };
    let program = Program::build(&judge.sandbox, judge.tools(), submission)?;
    let given = Given { stdin, ..Given::default() };
    let outcome = program.run(&judge.sandbox, given, RunLimits::run())?;
    match ProgramVerdict::of_end(outcome.end) {
        None => Ok(outcome.stdout),
        Some(verdict) => Err(TestReport::new(verdict, &outcome.stderr)),
    }
}
