//! Programs with tests: `language`, `program`, `tests` as pairs of input and output, `checker`, and
//! `expect`, the verdict's short name without its number. `?` depends on the machine.

use super::{Found, Outcome, Row};
use anyhow::bail;
use echo_sandbox::programs::checkers::Checker;
use echo_sandbox::programs::{
    Checking, Judge, JudgeOptions, Language, ProgramVerdict, Submission, Suite, Test, TestReport,
};
use echo_sandbox::task::files::TaskFiles;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What nobody can say without the machine.
const DEPENDS: &str = "?";

/// One case as it is written.
#[derive(Deserialize)]
struct Reported {
    #[serde(default)]
    id: String,
    language: Language,
    program: String,
    tests: Vec<(String, String)>,
    #[serde(default)]
    checker: Option<Checker>,
    expect: String,
}

/// What each program gets, with the limits that the task `code` gives by default. A language that this
/// machine lacks is skipped.
pub(super) fn check(rows: &[Row<'_>]) -> anyhow::Result<Found> {
    let judge = Judge::shared()?;
    let mut found = Found::default();
    let mut lacks: BTreeMap<Language, Option<String>> = BTreeMap::new();
    for row in rows {
        let case: Reported = match serde_json::from_slice(row.text) {
            Ok(case) => case,
            Err(error) => {
                found.count(Outcome::Otherwise(format!(
                    "row {}: not a reported program: {error}",
                    row.number
                )));
                continue;
            }
        };
        let name = format!("row {}: {}", row.number, case.id);
        let probe = || judge.probe(case.language).err().map(|lack| lack.what);
        let lack = lacks.entry(case.language).or_insert_with(probe).clone();
        found.count(match lack {
            _ if case.expect == DEPENDS => Outcome::Skipped(format!("{name}: it depends on the machine")),
            Some(lack) => Outcome::Skipped(format!("{name}: {lack}")),
            None => judged(&judge, &name, case)?,
        });
    }
    Ok(found)
}

fn judged(judge: &Arc<Judge>, name: &str, case: Reported) -> anyhow::Result<Outcome> {
    let mut data = TaskFiles::none();
    let mut add = |text: String| data.add(text.into_bytes());
    let tests = case.tests.into_iter().map(|(input, answer)| Test { input: add(input), answer: add(answer) });
    let suite = Suite::new(tests.collect(), Checking::Stock(case.checker.unwrap_or(Checker::Wcmp)));
    let submission = Submission { language: case.language, source: case.program };
    let options = JudgeOptions { stop_early: true };
    let judging = match Judge::judge(judge, submission, suite, Arc::new(data), options) {
        Ok(judging) => judging,
        Err(error) => return Ok(Outcome::Otherwise(format!("{name}: {error}"))),
    };
    let reports: Vec<TestReport> = judging.collect();
    let verdict = ProgramVerdict::combined(reports.iter().map(|report| report.verdict));
    let message = reports.last().map(|report| report.message.clone()).unwrap_or_default();
    if verdict == ProgramVerdict::Internal {
        bail!("{name} could not be judged: {message}");
    }
    let full = verdict.to_string();
    let short = full.split('(').next().unwrap_or_default();
    Ok(if case.expect == short || case.expect == full {
        Outcome::AsExpected
    } else {
        Outcome::Otherwise(format!("{name}: {full}, expected {}: {message}", case.expect))
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::super::tests::checked;
    use serde_json::{Value, json};

    #[test]
    fn programs_get_the_verdicts_that_are_expected() {
        let case = |program: &str, expect: &str| -> Value {
            json!({"id": "a", "src": "b", "language": "python", "checker": "wcmp", "note": null,
                "tests": [["2", "3"]], "program": program, "expect": expect})
        };
        let right = [
            case("print(int(input()) + 1)", "AC"),
            case("print(2)", "WA"),
            case("exit(1)", "RE"),
            case("print 2", "CE"),
            case("print(3)", "?"),
        ];
        let report = checked(&json!(right).to_string()).unwrap();
        assert!(report.passed, "{}", report.json);
        assert_eq!(
            (&report.json["figures"]["cases"], &report.json["figures"]["skipped"]),
            (&json!(4), &json!(1))
        );
        let wrong = checked(&case("print(2)", "AC").to_string()).unwrap();
        assert!(!wrong.passed && wrong.json["failures"][0].as_str().is_some_and(|line| line.contains("WA")));
    }
}
