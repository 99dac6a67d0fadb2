//! From a source to something that runs: compiled once, in the sandbox, for any number of runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::language::{ARTIFACT, JUDGED_ENV, Language, NOT_PYTHON, PYTHON_ARGS};
use super::toolchain::{Tool, Toolchains};
use super::verdict::{ProgramVerdict, TestReport};
use crate::isolation::{
    Collect, Collected, End, IsolateError, Job, Lack, Mount, Placed, RunLimits, RunOutcome, Sandbox, WORK,
};

/// Bytes of a source.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Bytes of a compiled program. Each run gets a copy of it.
pub const MAX_PROGRAM_BYTES: u64 = 32 << 20;

/// A program as it was handed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// The language that `source` is written in.
    pub language: Language,
    /// Its only file, at most [`MAX_SOURCE_BYTES`].
    pub source: String,
}

/// A program that can be run.
#[derive(Debug)]
pub(super) struct Program {
    /// What is started, in the sandbox.
    start: PathBuf,
    args: Vec<OsString>,
    /// The interpreter, for what it wants mounted and in the environment.
    tool: Option<Tool>,
    /// The file that it is started from.
    name: &'static str,
    bytes: Vec<u8>,
}

/// What a run of a program is given besides its limits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given<'a> {
    pub(super) args: &'a [OsString],
    pub(super) files: &'a [Placed<'a>],
    pub(super) collect: &'a [Collect<'a>],
    pub(super) stdin: &'a [u8],
}

impl Program {
    /// Makes `submission` ready to run.
    ///
    /// # Errors
    /// A report that is the verdict on the whole program: it does not compile, or it could
    /// not be compiled here.
    pub(super) fn build(
        sandbox: &Sandbox,
        tools: &Toolchains,
        submission: Submission,
    ) -> Result<Self, TestReport> {
        let recipe = submission.language.recipe();
        let tool = tools.tool(submission.language);
        let tool = tool.map_err(lacking)?;
        if submission.source.len() > MAX_SOURCE_BYTES {
            let message = format!("the source has more than {MAX_SOURCE_BYTES} bytes");
            return Err(TestReport::new(ProgramVerdict::CompileError, message));
        }
        let args: Vec<OsString> = recipe.args.iter().map(OsString::from).collect();
        let bytes = submission.source.into_bytes();
        if recipe.interpreted {
            return Ok(Self {
                start: tool.program.clone(),
                args,
                tool: Some(tool.clone()),
                name: recipe.source,
                bytes,
            });
        }
        let outcome = sandbox.run(&Job {
            program: &tool.program,
            args: &args,
            env: &tool.env,
            mounts: &tool.mounts(),
            files: &[Placed { name: recipe.source, bytes: &bytes, executable: false }],
            collect: &[Collect { name: ARTIFACT, limit: MAX_PROGRAM_BYTES }],
            stdin: &[],
            limits: submission.language.compile_limits(),
        });
        let outcome = outcome.map_err(|error| internal(&error))?;
        let bytes = artifact(outcome)?;
        Ok(Self {
            start: Path::new(WORK).join(ARTIFACT),
            args: Vec::new(),
            tool: None,
            name: ARTIFACT,
            bytes,
        })
    }

    /// Runs the program once, in a new sandbox of its own.
    ///
    /// # Errors
    /// A report when there was no run: of our failure, or of a source that makes no program (a
    /// library compiles as well).
    pub(super) fn run(
        &self,
        sandbox: &Sandbox,
        given: Given<'_>,
        limits: RunLimits,
    ) -> Result<RunOutcome, TestReport> {
        let own = Placed { name: self.name, bytes: &self.bytes, executable: self.tool.is_none() };
        let files: Vec<_> = [own].iter().chain(given.files).copied().collect();
        let judged = [JUDGED_ENV].map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let mounts: Vec<Mount<'_>> = self.tool.as_ref().map(Tool::mounts).unwrap_or_default();
        let outcome = sandbox.run(&Job {
            program: &self.start,
            args: &[self.args.as_slice(), given.args].concat(),
            env: self.tool.as_ref().map_or(judged.as_slice(), |tool| tool.env.as_slice()),
            mounts: &mounts,
            files: &files,
            collect: given.collect,
            stdin: given.stdin,
            limits: RunLimits { scratch: limits.scratch + self.bytes.len() as u64, ..limits },
        });
        outcome.map_err(|error| match error {
            IsolateError::Program { .. } if self.tool.is_none() => {
                TestReport::new(ProgramVerdict::CompileError, error.to_string())
            }
            error => internal(&error),
        })
    }

    /// A compiled Python module that is run by the interpreter.
    ///
    /// # Errors
    /// What this machine lacks of Python, with its mend.
    pub(super) fn module(tools: &Toolchains, name: &'static str, bytes: Vec<u8>) -> Result<Self, Lack> {
        let tool = tools.tool(Language::Python).map_err(Lack::clone)?.clone();
        let args = PYTHON_ARGS.iter().chain([&name]).map(OsString::from).collect();
        Ok(Self { start: tool.program.clone(), args, tool: Some(tool), name, bytes })
    }

    /// Whether an interpreted program that exited with 1 was ended by its interpreter.
    pub(super) fn crashed(&self, outcome: &RunOutcome) -> bool {
        let opens = |opening| outcome.stderr.starts_with(opening);
        self.tool.is_some() && (opens(NOT_PYTHON.as_bytes()) || opens(TRACEBACK))
    }

    /// What the end of a run alone decides about this program; `None` when its answer does.
    pub(super) fn verdict(&self, outcome: &RunOutcome) -> Option<ProgramVerdict> {
        let refused = self.tool.is_some() && outcome.stderr.starts_with(NOT_PYTHON.as_bytes());
        match outcome.end {
            End::Exited(1) if refused => Some(ProgramVerdict::CompileError),
            end => ProgramVerdict::of_end(end),
        }
    }
}

/// How Python opens what it says about an exception that was not caught.
const TRACEBACK: &[u8] = b"Traceback (most recent call last)";

/// A failure of ours.
pub(super) fn internal(error: &dyn std::error::Error) -> TestReport {
    TestReport::new(ProgramVerdict::Internal, error.to_string())
}

/// A language that is not there is a failure of ours as well.
pub(super) fn lacking(lack: &Lack) -> TestReport {
    TestReport::new(ProgramVerdict::Internal, format!("{}: {}", lack.what, lack.mend))
}

/// What a compiler has made.
fn artifact(outcome: RunOutcome) -> Result<Vec<u8>, TestReport> {
    let refused =
        |message: &[u8]| Err(TestReport::new(ProgramVerdict::CompileError, message).using(outcome.usage));
    match outcome.end {
        End::Exited(0) => {}
        // Diagnostics without end are refused for what they are.
        End::OutputLimit => return refused(b"the compiler wrote more than it may"),
        End::Exited(_) => return refused(&outcome.stderr),
        end => {
            let message =
                ProgramVerdict::of_end(end).map(|verdict| format!("the compiler ended with {verdict}"));
            return refused(message.unwrap_or_default().as_bytes());
        }
    }
    match outcome.collected.into_iter().next() {
        Some(Collected::Bytes(bytes)) => Ok(bytes),
        Some(Collected::TooLarge { bytes }) => {
            let message = format!("the program has {bytes} bytes, more than the {MAX_PROGRAM_BYTES} allowed");
            Err(TestReport::new(ProgramVerdict::CompileError, message).using(outcome.usage))
        }
        // The source decides: some kinds of libraries are dropped with a warning, for what
        // they are linked with.
        Some(Collected::Absent | Collected::NotRegular) | None => {
            refused(b"the compiler made no program of it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{judging, suite, verdicts};
    use super::*;
    use crate::isolation::Usage;

    #[test]
    fn no_source_makes_a_failure_of_ours_by_making_no_program() {
        for collected in [vec![Collected::Absent], vec![Collected::NotRegular], vec![]] {
            let usage = Usage::default();
            let (stdout, stderr) = (Vec::new(), Vec::new());
            let report = artifact(RunOutcome { end: End::Exited(0), stdout, stderr, collected, usage });
            assert_eq!(report.unwrap_err().verdict, ProgramVerdict::CompileError);
        }
        let source = "#![crate_type = \"proc-macro\"]";
        let verdicts = verdicts(judging(Language::Rust, source, suite(&[("", "")]), false));
        assert_eq!(verdicts, [ProgramVerdict::CompileError]);
    }
}
