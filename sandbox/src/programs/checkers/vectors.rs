//! Checks the checkers against recorded verdicts of testlib's programs (one JSON object a line).
//!
//! A line carries `checker`, `output`, `answer`, perhaps `input`, and what the program
//! made of them: `exit_code`, `verdict` and `message`. A line for a checker that does
//! not exist here disagrees.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Checker, CheckerVerdict, check};
use crate::conformance;
use crate::conformance::{CaseOutcome, MAX_DESCRIBED, VectorAgreement, VectorReadError};

/// What a check found. A case agrees when the verdict and the exit code do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckerAgreement {
    /// How far verdicts and exit codes agree.
    pub verdicts: VectorAgreement,
    /// Agreeing lines whose message is the same too.
    pub messages_agreed: u64,
    /// The first agreeing lines whose message is another, at most [`MAX_DESCRIBED`].
    pub message_disagreements: Vec<String>,
}

/// How a checker program ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Recorded {
    verdict: CheckerVerdict,
    exit_code: i32,
    /// What the program printed, with the verdict's label.
    message: String,
}

#[derive(Deserialize)]
struct Line {
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
/// When the file cannot be read. A line that is no case is a disagreement.
pub fn check_file(path: &Path) -> Result<CheckerAgreement, VectorReadError> {
    let mut found = CheckerAgreement::default();
    found.verdicts = conformance::check_lines(path, |line| match serde_json::from_slice::<Line>(line) {
        Ok(line) => match line.checker.parse::<Checker>() {
            Ok(checker) => found.compare(checker, line).into(),
            Err(unknown) => CaseOutcome::Disagrees(format!("{:?}: {unknown}", line.checker)),
        },
        Err(error) => CaseOutcome::Disagrees(format!("not a checker vector: {error}")),
    })?;
    Ok(found)
}

impl CheckerAgreement {
    fn compare(&mut self, checker: Checker, line: Line) -> Result<(), String> {
        let Line { input, output, answer, recorded, .. } = line;
        let judgement = check(checker, input.as_bytes(), output.as_bytes(), answer.as_bytes());
        let (verdict, message) = (judgement.verdict, judgement.to_string());
        let found = Recorded { verdict, exit_code: verdict.exit_code(), message };
        let difference = || format!("{}: got {found:?}, want {recorded:?}", checker.name());
        if (recorded.verdict, recorded.exit_code) != (found.verdict, found.exit_code) {
            return Err(difference());
        }
        if recorded.message.trim() == found.message.trim() {
            self.messages_agreed += 1;
        } else if self.message_disagreements.len() < MAX_DESCRIBED {
            self.message_disagreements.push(difference());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &str) -> CheckerAgreement {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        check_file(file.path()).unwrap()
    }

    #[test]
    fn verdicts_and_messages_are_told_apart() {
        let line = |checker: &str, verdict: &str, code: i32, message: &str| {
            format!(
                "{{\"checker\": \"{checker}\", \"output\": \"1\", \"answer\": \"1\\n\", \"exit_code\": {code}, \
                 \"verdict\": \"{verdict}\", \"message\": \"{message}\"}}\n\n"
            )
        };
        let found = check(
            &[
                line("icmp", "ok", 0, "ok answer is 1"),
                line("icmp", "ok", 0, "ok answer is one"),
                line("icmp", "wa", 1, "ok answer is 1"),
                line("icmp", "ok", 2, "ok answer is 1"),
                line("pointscmp", "points", 7, "points 0"),
                "{}".into(),
            ]
            .concat(),
        );
        let VectorAgreement { cases, agreed, disagreements } = &found.verdicts;
        assert_eq!((*cases, *agreed, disagreements.len()), (6, 2, 4));
        assert!(disagreements[2].contains("\"pointscmp\": there is no stock checker"), "{disagreements:?}");
        assert!(disagreements[3].contains("not a checker vector"), "{disagreements:?}");
        assert_eq!((found.messages_agreed, found.message_disagreements.len()), (1, 1));
    }
}
