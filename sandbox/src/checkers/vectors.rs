//! Checks the checkers against recorded verdicts of testlib's programs (one JSON object a line).
//!
//! A line carries `checker`, `output`, `answer`, perhaps `input`, and what the program made of them: `exit_code`, `verdict`
//! and `message`. Lines for checkers that do not exist here are counted as skipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Checker, CheckerVerdict, check};

/// Longest line read from a case file, in bytes.
pub const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;
/// Most lines read from a case file.
pub const MAX_CASES: usize = 100_000;
/// Most disagreements that a report describes, of verdicts and of messages each; further ones are only counted.
pub const MAX_DESCRIBED: usize = 32;

/// What a check found. A case agrees when the verdict and the exit code do.
///
/// `cases = agreed + disagreeing + skipped`, and of the agreeing cases `messages_agreed` have the same message too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VectorReport {
    /// Lines read.
    pub cases: usize,
    /// Lines whose verdict and exit code agree.
    pub agreed: usize,
    /// Lines whose verdict or exit code disagrees.
    pub disagreeing: usize,
    /// Lines for checkers that do not exist here.
    pub skipped: usize,
    /// Agreeing lines whose message is the same.
    pub messages_agreed: usize,
    /// The first lines whose verdict or exit code disagrees.
    pub disagreements: Vec<Disagreement>,
    /// The first lines that agree, but for the message.
    pub message_disagreements: Vec<Disagreement>,
}

/// A case that is judged differently here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// Line number, from 1.
    pub line: usize,
    /// The checker.
    pub checker: Checker,
    /// What was recorded.
    pub expected: Recorded,
    /// What comes out here.
    pub found: Recorded,
}

/// How a checker program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The verdict.
    pub verdict: CheckerVerdict,
    /// The program's exit code.
    pub exit_code: i32,
    /// What the program printed, with the verdict's label.
    pub message: String,
}

/// Why a case file could not be checked.
#[derive(Debug, Error)]
pub enum VectorError {
    /// The file cannot be read.
    #[error("cannot read checker vectors {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not a case.
    #[error("{path}, line {line}: not a checker vector ({source}); expected one JSON object a line")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The file is larger than the limits allow.
    #[error("{path} has more than {MAX_CASES} lines: split the file")]
    TooManyCases {
        /// The file.
        path: PathBuf,
    },
}

#[derive(Deserialize)]
struct Case {
    checker: String,
    #[serde(default)]
    input: String,
    output: String,
    answer: String,
    #[serde(flatten)]
    recorded: Recorded,
}

/// Judges every line of a file, and compares with what was recorded.
///
/// # Errors
/// [`VectorError`] when the file cannot be read or a line is not a case. A disagreement is no error: it is
/// counted in the report.
pub fn check_file(path: &Path) -> Result<VectorReport, VectorError> {
    let read_error = |source| VectorError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(read_error)?);
    let mut report = VectorReport::default();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut text).map_err(read_error)? == 0 {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        if report.cases == MAX_CASES {
            return Err(VectorError::TooManyCases { path: path.to_owned() });
        }
        let case = serde_json::from_str(&text).map_err(|source| VectorError::Malformed {
            path: path.to_owned(),
            line,
            source,
        })?;
        report.add(line, case);
    }
    Ok(report)
}

impl VectorReport {
    fn add(&mut self, line: usize, case: Case) {
        self.cases += 1;
        let Ok(checker) = case.checker.parse() else {
            self.skipped += 1;
            return;
        };
        let judgement = check(checker, case.input.as_bytes(), case.output.as_bytes(), case.answer.as_bytes());
        let (verdict, message) = (judgement.verdict, judgement.to_string());
        let found = Recorded { verdict, exit_code: verdict.exit_code(), message };
        let expected = case.recorded;
        let same_verdict = (expected.verdict, expected.exit_code) == (found.verdict, found.exit_code);
        let differences = if same_verdict {
            self.agreed += 1;
            if expected.message.trim() == found.message.trim() {
                self.messages_agreed += 1;
                return;
            }
            &mut self.message_disagreements
        } else {
            self.disagreeing += 1;
            &mut self.disagreements
        };
        if differences.len() < MAX_DESCRIBED {
            differences.push(Disagreement { line, checker, expected, found });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn report(lines: &str) -> Result<VectorReport, VectorError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        check_file(file.path())
    }

    #[test]
    fn verdicts_and_messages_are_told_apart() {
        let line = |checker: &str, verdict: &str, code: i32, message: &str| {
            format!(
                "{{\"checker\": \"{checker}\", \"output\": \"1\", \"answer\": \"1\\n\", \"exit_code\": {code}, \
                 \"verdict\": \"{verdict}\", \"message\": \"{message}\"}}\n\n"
            )
        };
        let report = report(
            &[
                line("icmp", "ok", 0, "ok answer is 1"),
                line("icmp", "ok", 0, "ok answer is one"),
                line("icmp", "wa", 1, "ok answer is 1"),
                line("icmp", "ok", 2, "ok answer is 1"),
                line("pointscmp", "points", 7, "points 0"),
            ]
            .concat(),
        )
        .unwrap();
        assert_eq!((report.cases, report.agreed, report.disagreeing, report.skipped), (5, 2, 2, 1));
        assert_eq!(report.messages_agreed, 1);
        assert_eq!(report.message_disagreements[0].line, 3);
        let first = &report.disagreements[0];
        assert_eq!((first.line, first.found.exit_code), (5, 0));
        assert_eq!(first.expected.verdict, CheckerVerdict::WrongAnswer);
    }

    #[test]
    fn other_lines_are_refused() {
        let missing = report("{\"checker\": \"icmp\", \"output\": \"1\"}\n").unwrap_err();
        assert!(matches!(missing, VectorError::Malformed { line: 1, .. }));
        assert!(matches!(check_file(Path::new("/nowhere")), Err(VectorError::Read { .. })));
    }
}
