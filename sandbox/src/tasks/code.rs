//! `code`: programs that a policy writes, judged by running them against tests.
//!
//! The file has a problem a line, in one of the forms that [`row`] reads, which may be mixed.
//! From the response, [`extract`] takes the program: the last fenced block of the language, or else
//! all of it. It is run in the sandbox, and the reward is 1 when every test is accepted.
//!
//! How far judging by running is pure. Prompts and solutions are functions of the seed like those
//! of any task. A verdict is, as far as the program is: it gets no clock that it may rely on, one
//! seed for Python's hashes, no network and nothing of the machine's files but its libraries. Three
//! things may still differ between machines. Time and memory: a program that one machine runs just
//! within its limits is too much for another. Versions of languages: an old Python refuses what a
//! newer one runs. And what a program does with the random numbers and addresses that it can still
//! come by. The policy chooses what it writes, and not the node: so no claim is a lie
//! ([`Task::runs_programs`]), and what is trained on is the learner's own figure. A failure of
//! ours, or of a problem's author, is [`TaskError::Internal`] and never a reward; what a program
//! does to its checks is a verdict, or programs could have none.

mod call;
mod extract;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod packed;
mod published;
mod row;
mod tests_row;
pub mod vectors;

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use echo_protocol::work::trajectory::MetaValue;
use serde::Deserialize;

use crate::isolation::Lack;
use crate::programs::{
    ExamError, Exams, FunctionTask, Judge, JudgeOptions, Judging, Language, ProgramVerdict, Submission,
    Suite, TestReport,
};
use crate::task::data_set;
use crate::task::data_set::{DataError, NamedRows, ReadRows, Rows};
use crate::task::files::TaskFiles;
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Miss, Prompt, Response, Task, TaskError, TaskSeed, Verdict};
use row::{CodeProblem, JudgingMethod};

/// The task's name in run configurations.
pub const NAME: &str = "code";

/// Bytes of a response to a problem whose author shows no solution.
const UNKNOWN_RESPONSE_BYTES: usize = 2_000;

/// Time on the clock after which no further test of a response is begun.
const TESTS_WITHIN: Duration = Duration::from_secs(60);

/// The entry of the metadata that holds the verdict by its short name, such as `WA`.
const VERDICT: &str = "verdict";

/// The parameters of [`CodeTask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodeConfig {
    /// How many of a hundred rows are kept for evaluation, up to 50. Default 10.
    pub held_out_percent: i64,
    /// 1: the reward is the share of tests that are accepted, all of which are run. Default 0: all
    /// or nothing, and the first test that is not accepted is the last.
    pub partial: i64,
}

impl Default for CodeConfig {
    fn default() -> Self {
        Self { held_out_percent: 10, partial: 0 }
    }
}

/// Problems of a file, each judged by its tests or its author's checks.
#[derive(Debug)]
pub struct CodeTask {
    shared: Arc<Means>,
    rows: Rows<CodeProblem>,
    held_out: Option<Box<CodeTask>>,
    remarks: Vec<String>,
    left_out: NamedRows,
    longest_prompt: usize,
    longest_response: usize,
}

/// What the rows to train on and those that are held out have in common.
#[derive(Debug)]
struct Means {
    judge: Arc<Judge>,
    exams: Exams,
    data: Arc<TaskFiles>,
    partial: bool,
}

/// Whether programs can be judged on this machine, whatever the language; the means for it are then ready.
///
/// # Errors
/// [`SpecError::Machine`] with all that is missing.
pub fn judge() -> Result<Arc<Judge>, SpecError> {
    Judge::shared().map_err(|unfit| SpecError::Machine { task: NAME, lacks: unfit.lacks })
}

impl CodeTask {
    /// Builds the task over the rows of a file. A program of one line is run in each of their languages.
    ///
    /// # Errors
    /// When a parameter is out of its range, a line is no problem, or this machine lacks what judging needs.
    pub fn new(config: CodeConfig, bytes: &[u8]) -> Result<Self, SpecError> {
        spec::within(NAME, "held_out_percent", config.held_out_percent, 0..=50)?;
        spec::within(NAME, "partial", config.partial, 0..=1)?;
        let read = row::read(bytes).map_err(|reason| SpecError::Data { task: NAME, reason })?;
        let (ReadRows { rows, left_out }, data) = read;
        let remarks = left_out.remark(NAME, rows.len()).into_iter().collect();
        let judge = judge()?;
        let languages: BTreeSet<Language> = rows.iter().flat_map(CodeProblem::languages).collect();
        let lacks: Vec<Lack> =
            languages.into_iter().filter_map(|language| judge.probe(language).err()).collect();
        if !lacks.is_empty() {
            return Err(SpecError::Machine { task: NAME, lacks });
        }
        let longest = |length: fn(&CodeProblem) -> usize| rows.iter().map(length).max().unwrap_or_default();
        let longest_prompt = longest(|row| row.prompt.len());
        let longest_response =
            longest(|row| row.solution.as_ref().map_or(UNKNOWN_RESPONSE_BYTES, String::len));
        let (train, held_out) = data_set::split(rows, config.held_out_percent as u32);
        let exams = Exams::new(Arc::clone(&judge));
        let shared = Arc::new(Means { judge, exams, data: Arc::new(data), partial: config.partial == 1 });
        let of = |rows| Self {
            shared: Arc::clone(&shared),
            rows,
            held_out: None,
            remarks: Vec::new(),
            left_out: NamedRows::default(),
            longest_prompt,
            longest_response,
        };
        Ok(Self { held_out: Some(Box::new(of(held_out))), remarks, left_out, ..of(train) })
    }
}

impl Means {
    /// The reports on a program, and how many there are when it passes.
    fn reports(&self, row: &CodeProblem, response: &str) -> Result<(Vec<TestReport>, usize), TaskError> {
        let source = row.program(response);
        match &row.judged {
            JudgingMethod::Tests { language, suite, .. } => {
                let submission = Submission { language: *language, source };
                let reports = self.run(submission, suite.clone())?;
                Ok((reports, suite.tests.len()))
            }
            JudgingMethod::HumanEval(of) => self.examined(row.line, &of.task(), &source),
            JudgingMethod::Mbpp(of) => self.examined(row.line, &of.task(), &source),
        }
    }

    fn examined(
        &self,
        line: usize,
        task: &FunctionTask,
        source: &str,
    ) -> Result<(Vec<TestReport>, usize), TaskError> {
        let exam = self.exams.get(task).map_err(|error| match error {
            ExamError::Internal { .. } => TaskError::internal(NAME, error),
            broken => TaskError::internal(NAME, format!("row {line} of its file: {broken}")),
        })?;
        Ok((exam.judge(source), task.checks.len()))
    }

    /// Whether a problem's own solution is right, if there is one; in words for its author.
    fn try_solution(&self, row: &CodeProblem) -> Result<(), String> {
        let Some(solution) = &row.solution else { return Ok(()) };
        match &row.judged {
            JudgingMethod::HumanEval(of) => self.exams.get(&of.task()).map(drop).map_err(in_authors_words)?,
            JudgingMethod::Mbpp(of) => self.exams.get(&of.task()).map(drop).map_err(in_authors_words)?,
            JudgingMethod::Tests { .. } => {}
        }
        let not_tried =
            |TaskError::Internal { reason, .. }: TaskError| format!("it could not be tried: {reason}");
        let (reports, tests) = self.reports(row, solution.trim_ascii_end()).map_err(not_tried)?;
        if self.verdict(&reports, tests).map_err(not_tried)?.correct {
            return Ok(());
        }
        let failed = reports.iter().find(|report| report.verdict != ProgramVerdict::Accepted);
        Err(failed.map_or_else(String::new, |TestReport { verdict, message, .. }| {
            format!("its own solution gets {verdict} ({message}): mend it or its tests, or leave the row out")
        }))
    }

    fn run(&self, submission: Submission, suite: Suite) -> Result<Vec<TestReport>, TaskError> {
        let options = JudgeOptions { stop_early: !self.partial };
        let judging = Judge::judge(&self.judge, submission, suite, self.data.clone(), options);
        Ok(within(TESTS_WITHIN, judging.map_err(|error| TaskError::internal(NAME, error))?))
    }

    /// What the reports on all tests come to.
    fn verdict(&self, reports: &[TestReport], tests: usize) -> Result<Verdict, TaskError> {
        let combined = ProgramVerdict::combined(reports.iter().map(|report| report.verdict));
        // A share is only known when every test was judged.
        let unknown = |report: &&TestReport| {
            report.verdict == ProgramVerdict::Internal
                && (self.partial || combined == ProgramVerdict::Internal)
        };
        if let Some(report) = reports.iter().find(unknown) {
            return Err(TaskError::internal(NAME, &report.message));
        }
        let accepted = reports.iter().filter(|report| report.verdict == ProgramVerdict::Accepted).count();
        let verdict = if accepted == tests {
            Verdict::right()
        } else {
            let miss =
                if combined == ProgramVerdict::CompileError { Miss::Malformed } else { Miss::WrongAnswer };
            let reward = if self.partial { accepted as f32 / tests as f32 } else { 0.0 };
            Verdict { reward, ..Verdict::wrong(miss) }
        };
        let named = verdict.with(VERDICT, MetaValue::Text(combined.to_string()));
        named.map_err(|error| TaskError::internal(NAME, error))
    }
}

/// Why nothing can be judged by a problem, for whoever wrote it.
fn in_authors_words(error: ExamError) -> String {
    match error {
        ExamError::Size { what, found, limit } => format!("it has {found} {what}: a row has 1 to {limit}"),
        ExamError::Broken { reason } => {
            format!("its tests fail before anything is asked ({reason}): mend them")
        }
        ExamError::NothingAsked => {
            "its tests call no function that its solution defines: every program would pass".into()
        }
        ExamError::Lacks { module } => format!(
            "it imports {module}, and programs are judged with Python's standard library alone: leave the row out"
        ),
        ExamError::Reference { verdict, message } => format!(
            "its own solution gets {verdict} ({message}): mend it or its tests, or leave the row out. Tests see plain \
             data that a function returns, and no objects of classes"
        ),
        ExamError::Internal { reason } => format!("it could not be tried: {reason}"),
    }
}

/// All reports; or, where a test would have to be begun later than so, those before it, and one
/// that says that time is over.
fn within(limit: Duration, mut judging: Judging) -> Vec<TestReport> {
    let (begun, mut reports) = (Instant::now(), Vec::new());
    while let Some(report) = judging.next() {
        reports.push(report);
        if begun.elapsed() >= limit && !judging.is_done() {
            let message = format!("its tests take longer than {limit:?} together");
            reports.push(TestReport {
                verdict: ProgramVerdict::WallLimit,
                message,
                cpu_us: 0,
                memory_peak: 0,
            });
            break;
        }
    }
    reports
}

impl Task for CodeTask {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        Prompt { text: self.rows.pick(seed).prompt.clone() }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        let Some(answer) = response.answer() else { return Ok(Verdict::wrong(Miss::Cut)) };
        let (reports, tests) = self.shared.reports(self.rows.pick(seed), answer)?;
        self.shared.verdict(&reports, tests)
    }

    fn runs_programs(&self) -> bool {
        true
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.rows.pick(seed).solution.clone().unwrap_or_default()
    }

    fn knows_solutions(&self) -> bool {
        self.rows.iter().all(|row| row.solution.is_some())
    }

    fn answer_read(&self, seed: TaskSeed, response: &Response<'_>) -> Option<String> {
        Some(self.rows.pick(seed).program(response.answer()?))
    }

    fn reference(&self, seed: TaskSeed) -> Option<String> {
        let row = self.rows.pick(seed);
        let solution = row.solution.as_ref().map(|solution| format!("; its own solution:\n{solution}"));
        Some(format!("{}{}", row.judged, solution.unwrap_or_default()))
    }

    fn try_solutions(&self) -> Result<(), SpecError> {
        let held_out = self.held_out.iter().flat_map(|task| task.rows.iter());
        let rows: BTreeMap<usize, &CodeProblem> =
            self.rows.iter().chain(held_out).map(|row| (row.line, row)).collect();
        let rows: Vec<&CodeProblem> = rows.into_values().collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let tried = iter::from_fn(|| rows.get(next.fetch_add(1, Ordering::Relaxed)));
            let failed = |row: &&CodeProblem| Some((row.line, self.shared.try_solution(row).err()?));
            tried.filter_map(failed).collect::<Vec<(usize, String)>>()
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let failed: BTreeMap<usize, String> = thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let failed = threads.into_iter().map(|thread| thread.join().expect("judging does not panic"));
            failed.flatten().collect()
        });
        if failed.is_empty() {
            return Ok(());
        }
        let mut wrong = NamedRows::default();
        failed.iter().for_each(|(row, reason)| wrong.push(*row, reason));
        Err(SpecError::Data { task: NAME, reason: DataError::Rows(wrong) })
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn left_out(&self) -> Option<&NamedRows> {
        Some(&self.left_out)
    }

    fn held_out(&self) -> Option<&dyn Task> {
        self.held_out.as_deref().map(|task| task as &dyn Task)
    }

    fn rows(&self) -> Option<usize> {
        Some(self.rows.iter().len())
    }

    fn held_out_rows(&self) -> Option<usize> {
        self.held_out.as_ref().map(|held_out| held_out.rows.held_out_from(&self.rows))
    }

    fn row(&self, index: usize) -> Option<Box<dyn Task>> {
        let Self { longest_prompt, longest_response, .. } = *self;
        let (shared, rows) = (Arc::clone(&self.shared), self.rows.only(index)?);
        Some(Box::new(Self {
            shared,
            rows,
            held_out: None,
            remarks: Vec::new(),
            left_out: NamedRows::default(),
            longest_prompt,
            longest_response,
        }))
    }

    fn alphabet(&self) -> BTreeSet<char> {
        let texts = |task: &Self| -> BTreeSet<char> {
            let solutions = task.rows.iter().flat_map(|row| &row.solution);
            task.rows.iter().map(|row| &row.prompt).chain(solutions).flat_map(|text| text.chars()).collect()
        };
        let mut characters = texts(self);
        characters.extend(self.held_out.iter().flat_map(|task| texts(task)));
        characters
    }

    fn prompts(&self) -> Vec<String> {
        let held_out = self.held_out.iter().filter(|task| task.rows.held_out_from(&self.rows) > 0);
        let rows = self.rows.iter().chain(held_out.flat_map(|task| task.rows.iter()));
        rows.map(|row| row.prompt.clone()).collect()
    }

    fn longest_prompt(&self) -> usize {
        self.longest_prompt
    }

    fn longest_response(&self) -> usize {
        self.longest_response
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
