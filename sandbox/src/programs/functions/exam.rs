//! A task that has been tried on its reference, and judges programs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use echo_protocol::wire::content_id::ContentId;

use super::frames;
use super::task::{FunctionTask, MAX_CHECKS, MAX_TASK_BYTES};
use super::wire;
use crate::isolation::{End, RunLimits, Usage};
use crate::programs::harness::Harness;
use crate::programs::judge::Judge;
use crate::programs::program::{Given, MAX_SOURCE_BYTES};
use crate::programs::verdict::{ProgramVerdict, TestReport};

/// Times that the checks of one program are begun. One is enough unless they ask for
/// what depends on outcomes.
pub const MAX_ROUNDS: usize = 16;

/// Operations that the checks of one task may ask for.
pub const MAX_OPERATIONS: usize = 10_000;

/// Processor time of a judged program for all operations of a task.
const SUBJECT_CPU: Duration = Duration::from_secs(3);

/// Processor time of the checks, which compare what programs return.
const EXAMINER_CPU: Duration = Duration::from_secs(3);

/// Time on the clock after which no further round is begun.
const ROUNDS_WITHIN: Duration = Duration::from_secs(20);

/// A task by which nothing can be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExamError {
    /// More than a task may have, or nothing.
    #[error("the task has {found} {what}; give it 1 to {limit}")]
    Size {
        /// What is counted: the task's `checks`, or its `bytes`.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The author's code fails by itself.
    #[error("the task's own code is broken: {reason}; its author has to mend it")]
    Broken {
        /// How it fails, or what the interpreter says.
        reason: String,
    },
    /// The checks call nothing that is judged: they would accept every program.
    #[error(
        "the checks call none of the functions to be judged: let a check call one (`subjects`, where a request names them)"
    )]
    NothingAsked,
    /// The author's code imports what is not installed here.
    #[error(
        "the task imports {module}, which judged programs have not: they have the standard library alone; leave the task out"
    )]
    Lacks {
        /// The module's name.
        module: String,
    },
    /// The reference is not accepted.
    #[error("the task's own reference gets {verdict} ({message}); its author has to mend it")]
    Reference {
        /// The first verdict on the reference that is not accepted.
        verdict: ProgramVerdict,
        /// What led to it.
        message: String,
    },
    /// The judging failed. Says nothing about the task.
    #[error("the task could not be tried: {reason}; try it again, here or elsewhere")]
    Internal {
        /// The harness's failure, for people to read.
        reason: String,
    },
}

/// A task that accepts its own reference.
#[derive(Debug)]
pub struct Exam {
    judge: Arc<Judge>,
    task: FunctionTask,
    /// What the checks draw random numbers from: the same on every node.
    seed: u32,
    /// Whether the checks see what functions do to their arguments. Only where the reference needs
    /// it: a program that empties its argument would else pass `assert f(x) == sorted(x)`.
    in_place: bool,
    /// What the checks ask for before anything depends on an outcome, encoded: the same of every
    /// program. What they ask after it holds outcomes, and a judged program, which sees its
    /// operations, is shown no other's than its own.
    operations: Vec<Vec<u8>>,
}

/// The examiner's letter for a check that imports what is not installed.
const LACKS: u8 = b'I';

/// The examiner's letter for a check that asks for what was not performed.
const UNDECIDED: u8 = b'?';

/// What the examiner says after one round.
struct Round {
    /// A letter for each check, or a single one when what prepares them has failed.
    grades: Vec<u8>,
    /// The operations of the next round, if a check is undecided; with [`LACKS`] the module's name.
    asked: Vec<Vec<u8>>,
}

impl Round {
    fn is_decided(&self) -> bool {
        !self.grades.contains(&UNDECIDED)
    }
}

impl Exam {
    /// Records what the checks ask for, and tries them on the reference. It is run on our own
    /// account: what then happens otherwise is the judged program's doing.
    ///
    /// # Errors
    /// When the task judges nothing, is broken, or could not be tried.
    pub fn prepare(judge: &Arc<Judge>, task: FunctionTask) -> Result<Self, ExamError> {
        let sizes = [("checks", task.checks.len(), MAX_CHECKS), ("bytes", task.bytes(), MAX_TASK_BYTES)];
        if let Some((what, found, limit)) =
            sizes.into_iter().find(|(_, found, limit)| !(1..=*limit).contains(found))
        {
            return Err(ExamError::Size { what, found, limit });
        }
        let seed = ContentId::of(task.checks.concat().as_bytes());
        let seed = u32::from_le_bytes([0, 1, 2, 3].map(|at| seed.as_bytes()[at]));
        let judge = Arc::clone(judge);
        let mut exam = Self { judge, task, seed, in_place: false, operations: Vec::new() };
        match exam.record() {
            Err(ExamError::Reference { .. }) => {
                exam.in_place = true;
                exam.operations = Vec::new();
                exam.record()?;
            }
            recorded => recorded?,
        }
        Ok(exam)
    }

    /// Records what the checks ask for first, and tries them on the reference.
    fn record(&mut self) -> Result<(), ExamError> {
        let internal = |report: TestReport| ExamError::Internal { reason: report.message };
        let judge = Arc::clone(&self.judge);
        let harness = judge.harness().map_err(internal)?;
        match self.examine(harness, &[], &[]) {
            Ok(Round { asked, grades }) if grades.contains(&LACKS) => {
                let module = asked.first().map(|name| String::from_utf8_lossy(name).into_owned());
                return Err(ExamError::Lacks { module: module.unwrap_or_default() });
            }
            Ok(first) if !first.is_decided() => self.operations = first.asked,
            Ok(first) if first.grades.contains(&b'B') => {
                return Err(ExamError::Broken { reason: "it fails before anything is asked".into() });
            }
            Ok(_) => return Err(ExamError::NothingAsked),
            Err(report) => return Err(ExamError::Broken { reason: report.message }),
        }
        let reports = self.rounds(harness, &self.task.reference, ROUNDS_WITHIN);
        match reports.iter().find(|report| report.verdict != ProgramVerdict::Accepted) {
            None => Ok(()),
            Some(report) if report.verdict == ProgramVerdict::Internal => Err(internal(report.clone())),
            Some(report) => {
                Err(ExamError::Reference { verdict: report.verdict, message: report.message.clone() })
            }
        }
    }

    /// The author's task that this exam was prepared from.
    pub fn task(&self) -> &FunctionTask {
        &self.task
    }

    /// Judges `source`: a report for each check, or a single one that is a verdict on the whole program.
    pub fn judge(&self, source: &str) -> Vec<TestReport> {
        self.judge_within(source, ROUNDS_WITHIN)
    }

    /// The same; no round is begun later than so.
    pub(super) fn judge_within(&self, source: &str, within: Duration) -> Vec<TestReport> {
        match self.judge.harness() {
            Ok(harness) => self.rounds(harness, source, within),
            Err(report) => vec![report],
        }
    }

    /// Performs and examines until every check is decided. What decides a check first counts: later
    /// rounds are for the others, and a program that draws lots has one draw for each check.
    ///
    /// The checks have ended well by themselves, with guesses: what keeps them from it now is what
    /// `source` returned. That has a verdict like anything else, or programs could choose to have
    /// none. Should it be the reference, then its author learns of it.
    fn rounds(&self, harness: &Harness, source: &str, within: Duration) -> Vec<TestReport> {
        let begun = Instant::now();
        let mut operations = self.operations.clone();
        let mut decided = vec![None; self.task.checks.len()];
        for _ in 0..MAX_ROUNDS {
            let performed = self.perform(harness, source, &operations);
            let round = performed.and_then(|(outcomes, usage)| {
                let round = self.examine(harness, &operations, &outcomes);
                round.map(|round| (round, usage)).map_err(|report| report.using(usage))
            });
            let (round, usage) = match round {
                Ok(round) => round,
                Err(report) => return vec![report],
            };
            if round.is_decided() && round.grades.len() != decided.len() {
                return round.grades.into_iter().map(|grade| report(grade).using(usage)).collect();
            }
            for (first, grade) in decided.iter_mut().zip(round.grades) {
                if first.is_none() && grade != UNDECIDED {
                    *first = Some(report(grade).using(usage));
                }
            }
            if decided.iter().all(Option::is_some) {
                return decided.into_iter().flatten().collect();
            }
            if begun.elapsed() >= within {
                let message = format!("its checks are not decided within {within:?}");
                return vec![TestReport::new(ProgramVerdict::WallLimit, message).using(usage)];
            }
            operations = round.asked;
        }
        let message = format!("the checks ask for something else each time, {MAX_ROUNDS} times now");
        vec![TestReport::new(ProgramVerdict::WrongAnswer, message)]
    }

    /// The outcomes of `operations` in a process that holds `source`.
    fn perform(
        &self,
        harness: &Harness,
        source: &str,
        operations: &[Vec<u8>],
    ) -> Result<(Vec<Vec<u8>>, Usage), TestReport> {
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("the source has more than {MAX_SOURCE_BYTES} bytes");
            return Err(TestReport::new(ProgramVerdict::CompileError, message));
        }
        let operated = wire::list(operations.iter().map(|operation| wire::bytes(operation)));
        let stdin = wire::list([wire::text(source), wire::number(self.in_place.into()), operated]);
        let given = Given { stdin: &stdin, ..Given::default() };
        let outcome =
            harness.subject.run(&self.judge.sandbox, given, RunLimits::run().with_cpu(SUBJECT_CPU))?;
        let mut outcomes: Vec<_> = frames::read(&outcome.stdout).map(<[u8]>::to_vec).collect();
        let refused = |verdict, message: &[u8]| Err(TestReport::new(verdict, message).using(outcome.usage));
        if let Some(verdict) = ProgramVerdict::of_end(outcome.end) {
            return refused(verdict, &outcome.stderr);
        }
        match outcomes.first().map(Vec::as_slice) {
            Some([b'x', message @ ..]) => return refused(ProgramVerdict::CompileError, message),
            _ if outcomes.len() < operations.len() => {
                return refused(ProgramVerdict::RuntimeError(0), b"it ended before it had answered");
            }
            _ => outcomes.truncate(operations.len()),
        }
        Ok((outcomes, outcome.usage))
    }

    /// What the checks say to `outcomes`.
    fn examine(
        &self,
        harness: &Harness,
        operations: &[Vec<u8>],
        outcomes: &[Vec<u8>],
    ) -> Result<Round, TestReport> {
        let FunctionTask { reference, subjects, setup, checks } = &self.task;
        let texts = |texts: &[String]| wire::list(texts.iter().map(|text| wire::text(text)));
        let payloads = |payloads: &[Vec<u8>]| wire::list(payloads.iter().map(|payload| wire::bytes(payload)));
        let stdin = wire::list([
            wire::text(reference),
            subjects.as_deref().map_or_else(wire::none, texts),
            wire::text(setup),
            texts(checks),
            wire::number(self.seed),
            wire::number(self.in_place.into()),
            payloads(operations),
            payloads(outcomes),
        ]);
        let given = Given { stdin: &stdin, ..Given::default() };
        let outcome =
            harness.examiner.run(&self.judge.sandbox, given, RunLimits::run().with_cpu(EXAMINER_CPU))?;
        let mut frames = frames::read(&outcome.stdout);
        let message = match (outcome.end, frames.next()) {
            (End::Exited(0), Some(grades)) if grades.len() == checks.len() || grades.len() == 1 => {
                let asked: Vec<_> = frames.map(<[u8]>::to_vec).collect();
                let found = asked.len();
                let round = Round { grades: grades.to_vec(), asked };
                if round.is_decided() || (1..=MAX_OPERATIONS).contains(&found) {
                    return Ok(round);
                }
                format!("the checks ask for {found} operations; 1 to {MAX_OPERATIONS} are allowed")
            }
            (end, _) => {
                format!("the checks ended with {end:?}: {}", String::from_utf8_lossy(&outcome.stderr))
            }
        };
        let verdict = match outcome.end {
            // Nothing was judged yet: this is between the author and us.
            _ if self.operations.is_empty() => ProgramVerdict::Internal,
            End::CpuLimit => ProgramVerdict::CpuLimit,
            End::WallLimit => ProgramVerdict::WallLimit,
            _ => ProgramVerdict::WrongAnswer,
        };
        Err(TestReport::new(verdict, message))
    }
}

/// What the letters of `harness/examiner.py` mean.
fn report(grade: u8) -> TestReport {
    match grade {
        b'A' => TestReport::new(ProgramVerdict::Accepted, ""),
        b'W' => TestReport::new(ProgramVerdict::WrongAnswer, "a check does not hold"),
        b'R' => TestReport::new(ProgramVerdict::RuntimeError(1), "an exception was not caught"),
        // `B`, which the author's code has not got by itself.
        _ => TestReport::new(ProgramVerdict::WrongAnswer, "the author's code fails on what was returned"),
    }
}
