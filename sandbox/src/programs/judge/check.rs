//! Is an output right?

use std::sync::Arc;

use super::super::program::{Given, Program};
use super::super::suite::Checking;
use super::super::verdict::{ProgramVerdict, TestReport};
use super::Judge;
use crate::isolation::{End, Placed, RunLimits, Sandbox};
use crate::programs::checkers;
use crate::programs::checkers::{Checker, CheckerVerdict};

/// Processor time of an author's checker on one test.
const CHECKER_CPU: std::time::Duration = std::time::Duration::from_secs(10);

/// The names of a checker's files, in the order of its arguments.
const NAMES: [&str; 3] = ["input", "output", "answer"];

/// A checker that is ready.
#[derive(Debug)]
pub(super) enum ReadyChecker {
    Stock(Checker),
    Program(Arc<Program>),
}

impl ReadyChecker {
    /// # Errors
    /// A report of a checker that does not compile: the program is not to blame.
    pub(super) fn build(judge: &Judge, checking: &Checking) -> Result<Self, TestReport> {
        match checking {
            Checking::Stock(checker) => Ok(Self::Stock(*checker)),
            Checking::Program(source) => {
                let build = || Program::build(&judge.sandbox, &judge.tools, source.clone());
                judge
                    .checkers
                    .get(source, build)
                    .map(Self::Program)
                    .map_err(|report| broken(format!("in {}: {}", source.language, report.message)))
            }
        }
    }

    pub(super) fn check(&self, sandbox: &Sandbox, input: &[u8], output: &[u8], answer: &[u8]) -> TestReport {
        match self {
            Self::Stock(checker) => {
                let judgement = checkers::check(*checker, input, output, answer);
                TestReport::new(judgement.verdict.into(), judgement.to_string())
            }
            Self::Program(program) => {
                run(program, sandbox, [input, output, answer]).unwrap_or_else(|report| report)
            }
        }
    }
}

/// Any other end of a checker than with one of testlib's codes is its author's fault, and not scored.
fn run(program: &Program, sandbox: &Sandbox, files: [&[u8]; 3]) -> Result<TestReport, TestReport> {
    let length: usize = files.iter().map(|bytes| bytes.len()).sum();
    let args = NAMES.map(Into::into);
    let files = [0, 1, 2].map(|at| Placed { name: NAMES[at], bytes: files[at], executable: false });
    let limits = RunLimits::run().with_cpu(CHECKER_CPU);
    let length = length as u64;
    let limits = RunLimits { scratch: limits.scratch + length, memory: limits.memory + 4 * length, ..limits };
    let given = Given { args: &args, files: &files, ..Given::default() };
    let outcome = program.run(sandbox, given, limits).map_err(|report| broken(report.message))?;
    match outcome.end {
        // Python ends with 1, a checker's "wrong answer", when an exception is not caught or the
        // source is no Python.
        End::Exited(1) if program.crashed(&outcome) => {
            Err(broken(String::from_utf8_lossy(&outcome.stderr).into_owned()))
        }
        End::Exited(code) => {
            let verdict = ProgramVerdict::from(CheckerVerdict::from_exit_code(code));
            Ok(TestReport::new(verdict, &outcome.stderr))
        }
        end => Err(broken(format!("it ended with {end:?}"))),
    }
}

fn broken(reason: String) -> TestReport {
    TestReport::new(ProgramVerdict::Internal, format!("the author's checker is broken: {reason}"))
}
