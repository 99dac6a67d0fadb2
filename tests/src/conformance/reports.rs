//! Cases after public reports about programs that judge responses, each with what a careful judge would
//! say. The keys of a file's first row say which form its rows have:
//!
//! | form | keys | as expected when |
//! |---|---|---|
//! | `math` | `answer`, `response` | the response earns, or does not |
//! | `programs` | `program`, `tests` | the program gets the verdict |
//! | `functions` | `entry_point` or `test_list` | the row's own solution is accepted |
//! | `extract` | `response`, `expected` | the program in the response is the one that is meant |

mod extract;
mod functions;
mod math;
mod programs;

use crate::output::console::{CommandReport, Console};
use anyhow::{Context, bail};
use echo_sandbox::task::data_set;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// The form of a file's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Math,
    Programs,
    Functions,
    Extract,
}

impl Form {
    /// The form of a row; `None` where it has the keys of none.
    fn of(row: &Value) -> Option<Self> {
        let has = |key: &str| row.get(key).is_some();
        if has("program") && has("tests") {
            Some(Self::Programs)
        } else if has("entry_point") || has("test_list") {
            Some(Self::Functions)
        } else if has("answer") && has("response") {
            Some(Self::Math)
        } else if has("response") && has("expected") {
            Some(Self::Extract)
        } else {
            None
        }
    }

    /// What is claimed of a file: the least share of its cases that is as expected, and in words what is.
    fn claim(self) -> (f64, &'static str) {
        match self {
            Self::Math => (0.97, "of the reported answers earn as expected"),
            Self::Programs => (0.95, "of the reported programs get the expected verdict"),
            Self::Functions => (0.95, "of the reported functions are accepted"),
            Self::Extract => (0.95, "of the reported responses give the expected program"),
        }
    }
}

/// A row of a file.
struct Row<'a> {
    /// Its place in the file, from 1.
    number: usize,
    /// JSON.
    text: &'a [u8],
}

/// What became of a case.
enum Outcome {
    AsExpected,
    /// In one line, what came instead.
    Otherwise(String),
    /// Not counted, and why.
    Skipped(String),
}

/// What became of the cases of a file.
#[derive(Default)]
struct Found {
    as_expected: u64,
    failures: Vec<String>,
    skipped: Vec<String>,
    /// Figures of one form alone.
    figures: Map<String, Value>,
}

impl Found {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::AsExpected => self.as_expected += 1,
            Outcome::Otherwise(line) => self.failures.push(line),
            Outcome::Skipped(why) => self.skipped.push(why),
        }
    }
}

/// Judges the cases of `file` as a run does. At least the share that their form claims has to be as
/// expected; every other one is shown.
///
/// # Errors
/// When the file cannot be read, its rows have none of the forms, or this machine lacks what judging needs.
pub fn check(file: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let named = || file.display().to_string();
    let bytes = data_set::as_lines(fs::read(file).with_context(named)?).with_context(named)?;
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let rows: Vec<Row<'_>> = lines
        .filter(|(_, text)| !text.trim_ascii().is_empty())
        .map(|(index, text)| Row { number: index + 1, text })
        .collect();
    let Some(first) = rows.first() else { bail!("{} holds no cases", named()) };
    let first: Value = serde_json::from_slice(first.text).with_context(|| format!("{}: row 1", named()))?;
    let Some(form) = Form::of(&first) else {
        bail!(
            "{}: its first row has the keys of no reported case: `answer` and `response`, `program` and `tests`, \
             `entry_point`, `test_list`, or `response` and `expected`",
            named()
        );
    };
    let found = match form {
        Form::Math => math::check(&rows),
        Form::Programs => programs::check(&rows)?,
        Form::Functions => functions::check(file, &bytes)?,
        Form::Extract => extract::check(&rows),
    };
    report(form, found, console)
}

fn report(form: Form, found: Found, console: &Console) -> anyhow::Result<CommandReport> {
    let Found { as_expected, failures, skipped, figures: of_form } = found;
    let cases = as_expected + failures.len() as u64;
    if cases == 0 {
        bail!("none of the {} cases can be judged here: {}", skipped.len(), skipped.join("; "));
    }
    let (wanted, words) = form.claim();
    let share = as_expected as f64 / cases as f64;
    let passed = share >= wanted;
    for line in &failures {
        console.say(format!("  not as expected: {line}"));
    }
    for line in &skipped {
        console.say(format!("  skipped: {line}"));
    }
    console.say(format!(
        "{as_expected} of {cases} as expected: {:.2} % (at least {:.0} %), {} skipped",
        100.0 * share,
        100.0 * wanted,
        skipped.len()
    ));
    let mut figures = Map::new();
    figures.insert("cases".to_owned(), json!(cases));
    figures.insert("as_expected".to_owned(), json!(share));
    figures.insert("skipped".to_owned(), json!(skipped.len()));
    figures.extend(of_form);
    let json = json!({
        "passed": passed,
        "figures": figures,
        "claims": [{"claim": format!("at least {:.0} % {words}", 100.0 * wanted), "holds": passed}],
        "failures": failures,
        "skipped": skipped,
    });
    Ok(CommandReport { passed, json })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report on a file with this text.
    pub(super) fn checked(text: &str) -> anyhow::Result<CommandReport> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        check(file.path(), &Console::new(true))
    }

    #[test]
    fn forms_are_told_apart_by_their_keys() {
        let form = |row: Value| Form::of(&row);
        assert_eq!(form(json!({"answer": "5", "response": "5", "expected": true})), Some(Form::Math));
        assert_eq!(form(json!({"program": "", "tests": [], "expect": "AC"})), Some(Form::Programs));
        assert_eq!(form(json!({"entry_point": "f", "test": ""})), Some(Form::Functions));
        assert_eq!(form(json!({"test_list": [], "code": ""})), Some(Form::Functions));
        assert_eq!(form(json!({"response": "", "expected": ""})), Some(Form::Extract));
        assert_eq!(form(json!({"question": ""})), None);
    }

    #[test]
    fn what_is_no_case_or_none_is_refused_in_words() {
        for (text, words) in [("", "no cases"), ("{\"question\": \"\"}", "its first row"), ("x", "row 1")] {
            let refused = format!("{:#}", checked(text).unwrap_err());
            assert!(refused.contains(words), "{text}: {refused}");
        }
        assert!(check(Path::new("/no/such/file"), &Console::new(true)).is_err());
    }

    #[test]
    fn enough_cases_have_to_be_as_expected_and_skipped_ones_do_not_count() {
        let of = |as_expected: u64, otherwise: usize, skipped: usize| {
            let failures = vec![String::new(); otherwise];
            let skipped = vec!["no compiler".to_owned(); skipped];
            let found = Found { as_expected, failures, skipped, figures: Map::new() };
            report(Form::Programs, found, &Console::new(true))
        };
        assert!(of(19, 1, 5).unwrap().passed && !of(18, 2, 0).unwrap().passed);
        assert_eq!(of(19, 1, 5).unwrap().json["figures"]["skipped"], 5);
        assert!(of(0, 0, 2).is_err());
    }
}
