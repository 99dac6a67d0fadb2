//! Verdicts of one program, test after test.

mod check;
mod checker_cache;

use std::sync::{Arc, OnceLock};

use super::harness::Harness;
use super::language::{HELLO, Language};
use super::program::{Given, Program, Submission, internal};
use super::store::TestData;
use super::suite::{Suite, SuiteError, Test};
use super::toolchain::Toolchains;
use super::verdict::{ProgramVerdict, TestReport};
use crate::isolation::{
    Collect, Collected, IsolationReport, Lack, Placed, Requirements, RunLimits, RunOutcome, Sandbox, Unfit,
};
use check::ReadyChecker;
use checker_cache::Built;

/// What judges programs here: a sandbox, and what is installed.
#[derive(Debug)]
pub struct Judge {
    pub(super) sandbox: Arc<Sandbox>,
    tools: Toolchains,
    harness: OnceLock<Harness>,
    checkers: Built,
}

/// How a suite is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JudgeOptions {
    /// End with the first test that is not accepted: for a reward that needs all tests, the rest
    /// costs time and tells nothing.
    pub stop_early: bool,
}

impl Judge {
    /// A judge with what [`Toolchains::find`] finds.
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        let tools = Toolchains::find(sandbox.report());
        Self { sandbox, tools, harness: OnceLock::new(), checkers: Built::new() }
    }

    /// The one judge of this process, made when it is first asked for: to open a sandbox starts a
    /// process, and compilers are asked where they lie. What is missing then stays missing until
    /// the process is started again.
    ///
    /// # Errors
    /// All that the system lacks.
    pub fn shared() -> Result<Arc<Self>, Unfit> {
        static SHARED: OnceLock<Result<Arc<Judge>, Unfit>> = OnceLock::new();
        let open = || Ok(Arc::new(Self::new(Arc::new(Sandbox::open(&Requirements::default())?))));
        SHARED.get_or_init(open).clone()
    }

    /// What enforces the limits of programs here.
    pub fn isolation(&self) -> &IsolationReport {
        self.sandbox.report()
    }

    /// The compilers and interpreters found here, and those that are missing.
    pub fn tools(&self) -> &Toolchains {
        &self.tools
    }

    /// What judges functions. It is made once, when it is first needed; when that fails, it is tried again.
    pub(super) fn harness(&self) -> Result<&Harness, TestReport> {
        if let Some(harness) = self.harness.get() {
            return Ok(harness);
        }
        let harness = Harness::build(&self.sandbox, &self.tools)?;
        Ok(self.harness.get_or_init(|| harness))
    }

    /// Builds and runs a program of one line in `language`.
    ///
    /// # Errors
    /// What is missing for that, or does not work, with its mend.
    pub fn probe(&self, language: Language) -> Result<(), Lack> {
        self.tools.tool(language).map_err(Lack::clone)?;
        let recipe = language.recipe();
        let submission = Submission { language, source: recipe.hello.into() };
        let ended = Program::build(&self.sandbox, &self.tools, submission)
            .and_then(|program| program.run(&self.sandbox, Given::default(), RunLimits::run()));
        let what = match ended {
            Ok(outcome) if outcome.stdout.trim_ascii_end() == HELLO.as_bytes() => return Ok(()),
            Ok(outcome) => format!("{:?}: {}", outcome.end, String::from_utf8_lossy(&outcome.stderr)),
            Err(report) => format!("{}: {}", report.verdict, report.message),
        };
        Err(Lack {
            what: format!("{language} does not work in the sandbox: {what}"),
            mend: recipe.mend.into(),
        })
    }

    /// Judges `submission` by `suite`, whose data is in `data`: each step of the iterator builds
    /// what is not built yet, and runs one test.
    ///
    /// # Errors
    /// When nothing can be judged by the suite.
    pub fn judge(
        judge: &Arc<Self>,
        submission: Submission,
        suite: Suite,
        data: Arc<dyn TestData>,
        options: JudgeOptions,
    ) -> Result<Judging, SuiteError> {
        suite.check()?;
        let judge = Arc::clone(judge);
        Ok(Judging { judge, data, suite, options, next: 0, stage: Stage::Submitted(submission) })
    }
}

/// A judging that goes on by one run a step, and yields a report for each test, in their order. A
/// verdict on the whole program, such as [`ProgramVerdict::CompileError`], is a single report.
#[derive(Debug)]
pub struct Judging {
    judge: Arc<Judge>,
    data: Arc<dyn TestData>,
    suite: Suite,
    options: JudgeOptions,
    /// The test that comes next.
    next: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Submitted(Submission),
    Built(Box<(Program, ReadyChecker)>),
    Ended,
}

impl Iterator for Judging {
    type Item = TestReport;

    fn next(&mut self) -> Option<TestReport> {
        if let Stage::Submitted(submission) = &self.stage {
            match self.build(submission.clone()) {
                Ok(built) => self.stage = Stage::Built(Box::new(built)),
                Err(report) => {
                    self.stage = Stage::Ended;
                    return Some(report);
                }
            }
        }
        let Stage::Built(built) = &self.stage else { return None };
        let (program, check) = &**built;
        let test = *self.suite.tests.get(self.next)?;
        let report = self.test(program, check, test).unwrap_or_else(|report| report);
        self.next += 1;
        let whole = report.verdict == ProgramVerdict::CompileError;
        let stopped = self.options.stop_early && report.verdict != ProgramVerdict::Accepted;
        if whole || stopped || self.next == self.suite.tests.len() {
            self.stage = Stage::Ended;
        }
        Some(report)
    }
}

impl Judging {
    /// Whether all has been reported.
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    fn build(&self, submission: Submission) -> Result<(Program, ReadyChecker), TestReport> {
        let Judge { sandbox, tools, .. } = &*self.judge;
        let program = Program::build(sandbox, tools, submission)?;
        Ok((program, ReadyChecker::build(&self.judge, &self.suite.checking)?))
    }

    fn test(&self, program: &Program, check: &ReadyChecker, test: Test) -> Result<TestReport, TestReport> {
        let read = |id| self.data.read(id).map_err(|error| internal(&error));
        let input = read(test.input)?;
        let limits = self.suite.limits();
        let outcome = match &self.suite.files {
            None => program.run(&self.judge.sandbox, Given { stdin: &input, ..Given::default() }, limits)?,
            Some(names) => {
                let files = [Placed { name: &names.input, bytes: &input, executable: false }];
                let collect = [Collect { name: &names.output, limit: self.suite.output }];
                let given = Given { files: &files, collect: &collect, ..Given::default() };
                let limits = RunLimits { scratch: limits.scratch + input.len() as u64, ..limits };
                program.run(&self.judge.sandbox, given, limits)?
            }
        };
        let usage = outcome.usage;
        if let Some(verdict) = program.verdict(&outcome) {
            return Ok(TestReport::new(verdict, &outcome.stderr).using(usage));
        }
        // Only now, when the program is gone, is the answer read.
        let report = match self.output(outcome) {
            Ok(output) => check.check(&self.judge.sandbox, &input, &output, &read(test.answer)?),
            Err(report) => report,
        };
        Ok(report.using(usage))
    }

    /// What a program that ended well has written.
    fn output(&self, outcome: RunOutcome) -> Result<Vec<u8>, TestReport> {
        let Some(names) = &self.suite.files else { return Ok(outcome.stdout) };
        let name = &names.output;
        match outcome.collected.into_iter().next() {
            Some(Collected::Bytes(bytes)) => Ok(bytes),
            Some(Collected::TooLarge { bytes }) => {
                Err(TestReport::new(ProgramVerdict::OutputLimit, format!("{name} has {bytes} bytes")))
            }
            Some(Collected::NotRegular) => {
                Err(TestReport::new(ProgramVerdict::PresentationError, format!("{name} is no regular file")))
            }
            Some(Collected::Absent) | None => {
                Err(TestReport::new(ProgramVerdict::PresentationError, format!("there is no {name}")))
            }
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
