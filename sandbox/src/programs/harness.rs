//! The two Python programs of ours, compiled once for all runs: reading their source would cost
//! a quarter of each.

use super::language::Language;
use super::program::{Program, internal, lacking};
use super::toolchain::Toolchains;
use super::verdict::{ProgramVerdict, TestReport};
use crate::isolation::{Collect, Collected, End, Job, Placed, RunLimits, Sandbox};

const WIRE: &str = include_str!("harness/wire.py");
const SUBJECT: &str = include_str!("harness/subject.py");
const EXAMINER: &str = include_str!("harness/examiner.py");

/// Bytes of a compiled program of ours.
const MAX_COMPILED_BYTES: u64 = 1 << 20;

const COMPILE: &str = "import py_compile; [py_compile.compile(name + '.py', name + '.pyc', doraise=True) for name in ('subject', 'examiner')]";

/// What runs judged programs, and what runs checks.
#[derive(Debug)]
pub(super) struct Harness {
    pub(super) subject: Program,
    pub(super) examiner: Program,
}

impl Harness {
    /// Compiles both with the interpreter that will run them, in the sandbox as everything.
    ///
    /// # Errors
    /// A report of our failure.
    pub(super) fn build(sandbox: &Sandbox, tools: &Toolchains) -> Result<Self, TestReport> {
        let tool = tools.tool(Language::Python).map_err(lacking)?;
        let sources = [SUBJECT, EXAMINER].map(|part| format!("{WIRE}\n\n{part}"));
        let outcome = sandbox.run(&Job {
            program: &tool.program,
            args: &["-s", "-S", "-c", COMPILE].map(Into::into),
            env: &tool.env,
            mounts: &tool.mounts(),
            files: &[
                Placed { name: "subject.py", bytes: sources[0].as_bytes(), executable: false },
                Placed { name: "examiner.py", bytes: sources[1].as_bytes(), executable: false },
            ],
            collect: &["subject.pyc", "examiner.pyc"].map(|name| Collect { name, limit: MAX_COMPILED_BYTES }),
            stdin: &[],
            limits: RunLimits::compile(),
        });
        let outcome = outcome.map_err(|error| internal(&error))?;
        match (outcome.end, <[Collected; 2]>::try_from(outcome.collected)) {
            (End::Exited(0), Ok([Collected::Bytes(subject), Collected::Bytes(examiner)])) => Ok(Self {
                subject: Program::module(tools, "subject.pyc", subject).map_err(|lack| lacking(&lack))?,
                examiner: Program::module(tools, "examiner.pyc", examiner).map_err(|lack| lacking(&lack))?,
            }),
            _ => Err(TestReport::new(ProgramVerdict::Internal, &outcome.stderr)),
        }
    }
}
