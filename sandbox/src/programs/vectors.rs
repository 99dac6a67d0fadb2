//! Checks the judging of functions against a file of tasks with solutions, one JSON object a line
//! in the form of HumanEval or MBPP.
//!
//! Every reference must be accepted. Of each, a few wrong versions are made; they must not be.
//! Those that are accepted nevertheless are run once more in one process with their checks, the
//! usual way: when those hold there as well, the mutant is a *survivor*, which the task's own
//! checks do not tell from the reference (most often because it computes the same). Only what is
//! accepted here and fails there speaks against the judge.

mod mutant;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use super::functions::{Exam, ExamError, FunctionTask, HumanEval, Mbpp};
use super::judge::Judge;
use super::verdict::ProgramVerdict;

/// Longest line of a file, in bytes.
pub const MAX_LINE_BYTES: u64 = 1 << 20;

/// Most tasks of a file.
pub const MAX_TASKS: usize = 20_000;

/// Mutants of one task.
pub const MUTANTS: usize = 6;

/// What a check of a file found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FunctionReport {
    /// Tasks of the file, one for each line that is not empty.
    pub tasks: usize,
    /// Tasks whose reference is accepted.
    pub accepted: usize,
    /// Tasks whose reference is not.
    pub refused: Vec<ProgramFinding>,
    /// Tasks that need what is not installed for judged programs.
    pub skipped: Vec<ProgramFinding>,
    /// Mutants made of the accepted references.
    pub mutants: usize,
    /// Mutants that are not accepted.
    pub killed: usize,
    /// Mutants that the checks themselves accept, in one process as well.
    pub survivors: Vec<ProgramFinding>,
    /// Mutants that are accepted here alone, or could not be judged: never to be seen.
    pub wrong: Vec<ProgramFinding>,
}

/// A program and what was found about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramFinding {
    /// The row's name, such as `HumanEval/0` or `MBPP/1`.
    pub task: String,
    /// What was changed, if it is a mutant.
    pub change: Option<String>,
    /// The verdict, or what kept it from being judged.
    pub reason: String,
}

/// Why a file could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum ProgramVectorError {
    /// The file cannot be read.
    #[error("cannot read function tasks {path}: {source}")]
    Read {
        /// The file that was to be read.
        path: PathBuf,
        /// What the system says about it.
        source: std::io::Error,
    },
    /// A line is not a task.
    #[error(
        "{path}, line {line}: neither a row of HumanEval nor of MBPP ({reason}); expected one JSON object a line"
    )]
    Malformed {
        /// The file that the line is in.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The parser's reason why it has neither form.
        reason: String,
    },
    /// The file is larger than the limits allow.
    #[error("{path} has more than {MAX_TASKS} lines: split the file")]
    TooManyTasks {
        /// The file that has too many lines.
        path: PathBuf,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    HumanEval(HumanEval),
    Mbpp(Mbpp),
}

impl Row {
    fn named(self) -> (String, FunctionTask) {
        match self {
            Self::HumanEval(row) => (row.task_id.clone(), row.task()),
            Self::Mbpp(row) => (format!("MBPP/{}", row.task_id), row.task()),
        }
    }
}

/// Judges the reference of every task of a file, and mutants of it, on all processors.
///
/// # Errors
/// When the file cannot be read or a line is no task. What is judged wrongly is in the report.
pub fn check_functions(judge: &Arc<Judge>, path: &Path) -> Result<FunctionReport, ProgramVectorError> {
    Ok(check_all(judge, &read(path, open(path)?)?, MUTANTS))
}

/// Judges the reference of every task of a file alone.
///
/// # Errors
/// As [`check_functions`].
pub fn check_references(judge: &Arc<Judge>, path: &Path) -> Result<FunctionReport, ProgramVectorError> {
    check_reference_lines(judge, path, open(path)?)
}

/// The same for lines that are read from `lines`. Errors name `path` as their file.
///
/// # Errors
/// As [`check_functions`].
pub fn check_reference_lines(
    judge: &Arc<Judge>,
    path: &Path,
    lines: impl BufRead,
) -> Result<FunctionReport, ProgramVectorError> {
    Ok(check_all(judge, &read(path, lines)?, 0))
}

fn check_all(judge: &Arc<Judge>, tasks: &[(String, FunctionTask)], limit: usize) -> FunctionReport {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some((name, task)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            found.push((name, check(judge, name, task, limit)));
        }
        found
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut found = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let found = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default());
        found.collect::<Vec<_>>()
    });
    found.sort_by_key(|(name, _)| tasks.iter().position(|(task, _)| task == *name));
    found.into_iter().fold(FunctionReport::default(), |sum, (_, one)| sum.and(one))
}

fn open(path: &Path) -> Result<BufReader<File>, ProgramVectorError> {
    let file = File::open(path);
    file.map(BufReader::new).map_err(|source| ProgramVectorError::Read { path: path.to_owned(), source })
}

/// The tasks of all lines with their names, in the order of the lines.
fn read(path: &Path, mut lines: impl BufRead) -> Result<Vec<(String, FunctionTask)>, ProgramVectorError> {
    let mut tasks = Vec::new();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        let read = lines.by_ref().take(MAX_LINE_BYTES).read_line(&mut text);
        if read.map_err(|source| ProgramVectorError::Read { path: path.to_owned(), source })? == 0 {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        if tasks.len() == MAX_TASKS {
            return Err(ProgramVectorError::TooManyTasks { path: path.to_owned() });
        }
        let malformed = |error: serde_json::Error| ProgramVectorError::Malformed {
            path: path.to_owned(),
            line,
            reason: error.to_string(),
        };
        tasks.push(serde_json::from_str::<Row>(&text).map_err(malformed)?.named());
    }
    Ok(tasks)
}

fn check(judge: &Arc<Judge>, name: &str, task: &FunctionTask, limit: usize) -> FunctionReport {
    let mut report = FunctionReport { tasks: 1, ..FunctionReport::default() };
    let finding =
        |change: Option<String>, reason: String| ProgramFinding { task: name.to_owned(), change, reason };
    let exam = match Exam::prepare(judge, task.clone()) {
        Ok(exam) => exam,
        Err(error @ ExamError::Lacks { .. }) => {
            report.skipped.push(finding(None, error.to_string()));
            return report;
        }
        Err(error) => {
            report.refused.push(finding(None, error.to_string()));
            return report;
        }
    };
    report.accepted = 1;
    if limit == 0 {
        return report;
    }
    let mutants = match mutant::mutants(judge, task, limit) {
        Ok(mutants) => mutants,
        Err(failed) => {
            report.wrong.push(finding(None, format!("no mutants could be made: {}", failed.message)));
            return report;
        }
    };
    for mutant in mutants {
        report.mutants += 1;
        let verdict =
            ProgramVerdict::combined(exam.judge(&mutant.source).iter().map(|report| report.verdict));
        let change = Some(mutant.change);
        match verdict.score() {
            Some(false) => report.killed += 1,
            None => report.wrong.push(finding(change, "it could not be judged".into())),
            Some(true) => match mutant::holds_in_one_process(judge, task, &mutant.source) {
                Ok(()) => {
                    let reason =
                        "its checks hold in one process as well: they do not tell it from the reference";
                    report.survivors.push(finding(change, reason.into()));
                }
                Err(failed) => {
                    let reason =
                        format!("accepted here, {} in one process: {}", failed.verdict, failed.message);
                    report.wrong.push(finding(change, reason));
                }
            },
        }
    }
    report
}

impl FunctionReport {
    /// Adds another report's counts and findings to these.
    fn and(mut self, other: Self) -> Self {
        self.tasks += other.tasks;
        self.accepted += other.accepted;
        self.refused.extend(other.refused);
        self.skipped.extend(other.skipped);
        self.mutants += other.mutants;
        self.killed += other.killed;
        self.survivors.extend(other.survivors);
        self.wrong.extend(other.wrong);
        self
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
