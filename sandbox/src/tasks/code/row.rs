//! The lines of the file: a problem each, in one of three forms.
//!
//! | form | marked by | prompt | reward |
//! |---|---|---|---|
//! | HumanEval | `entry_point` | a program's beginning | `test` with `check(candidate)` |
//! | MBPP | `test_list` | `text`, and the first of the asserts | `test_list`, after `test_setup_code` |
//! | tests | `tests` | `prompt` | output equals `output`, or a checker accepts it |

use std::iter;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::extract;
use crate::programs::checkers::Checker;
use crate::programs::functions::{HumanEval, Mbpp};
use crate::programs::suite::{MAX_CPU_MS, MAX_MEMORY};
use crate::programs::{Checking, FileNames, Language, Submission, Suite, Test};
use crate::task::data_set;
use crate::task::data_set::DataError;
use crate::task::files::TaskFiles;

/// One problem of the file, ready to be asked and judged.
#[derive(Debug)]
pub(super) struct CodeProblem {
    /// Its place in the file, from 1.
    pub(super) line: usize,
    pub(super) prompt: String,
    /// A response that is right, if the author shows one.
    pub(super) solution: Option<String>,
    pub(super) judged: JudgingMethod,
}

/// How its programs are judged.
#[derive(Debug)]
pub(super) enum JudgingMethod {
    HumanEval(Box<HumanEval>),
    Mbpp(Box<Mbpp>),
    Tests { language: Language, suite: Suite },
}

/// A line of the third form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestsLine {
    prompt: String,
    tests: Vec<TestLine>,
    #[serde(default = "python")]
    language: Language,
    /// By default, words are compared.
    checker: Option<Checker>,
    checker_program: Option<CheckerLine>,
    input_file: Option<String>,
    output_file: Option<String>,
    cpu_s: Option<f64>,
    memory_mb: Option<u64>,
    solution: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestLine {
    input: String,
    output: String,
}

/// A checker of the author's own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckerLine {
    #[serde(default = "python")]
    language: Language,
    source: String,
}

fn python() -> Language {
    Language::Python
}

/// Reads a file: its problems, and the data of their tests.
///
/// # Errors
/// The first line that is no problem.
pub(super) fn read(bytes: &[u8]) -> Result<(Vec<CodeProblem>, TaskFiles), DataError> {
    let mut data = TaskFiles::none();
    let rows = data_set::read_lines(bytes, |line, fields| CodeProblem::of(line, fields, &mut data))?;
    Ok((rows, data))
}

impl CodeProblem {
    fn of(line: usize, fields: Map<String, Value>, data: &mut TaskFiles) -> Result<Self, String> {
        let forms = ["entry_point", "test_list", "tests"];
        let given: Vec<&str> = forms.into_iter().filter(|form| fields.contains_key(*form)).collect();
        let row = match given.as_slice() {
            ["entry_point"] => Self::human_eval(line, typed(fields)?),
            ["test_list"] => Self::mbpp(line, typed(fields)?)?,
            ["tests"] => Self::tests(line, typed(fields)?, data)?,
            [] => {
                return Err(
                    "it has neither `tests`, nor the `entry_point` of HumanEval, nor the `test_list` of \
                            MBPP: nothing says what is right"
                        .into(),
                );
            }
            several => {
                return Err(format!("it has `{}`: a row has one of them", several.join("` and `")));
            }
        };
        if row.prompt.trim().is_empty() {
            return Err("the prompt is empty".into());
        }
        if let Some(solution) = &row.solution
            && extract::program(solution, row.language()).len() != solution.len()
        {
            return Err(
                "its solution has lines that begin with ```, which would be taken for the program's ends"
                    .into(),
            );
        }
        Ok(row)
    }

    fn human_eval(line: usize, row: HumanEval) -> Self {
        let (prompt, solution) = (row.prompt.clone(), Some(row.canonical_solution.clone()));
        Self { line, prompt, solution, judged: JudgingMethod::HumanEval(Box::new(row)) }
    }

    /// The asserts after the first are not shown: a table of what they ask for would pass.
    fn mbpp(line: usize, row: Mbpp) -> Result<Self, String> {
        let first = row.test_list.first().ok_or("`test_list` is empty: everything would be right")?;
        let prompt = format!("{}\nYour code should pass this test:\n{}\n", row.text.trim(), first.trim());
        Ok(Self {
            line,
            prompt,
            solution: Some(row.code.clone()),
            judged: JudgingMethod::Mbpp(Box::new(row)),
        })
    }

    fn tests(line: usize, row: TestsLine, data: &mut TaskFiles) -> Result<Self, String> {
        let mut test = |test: TestLine| Test {
            input: data.add(test.input.into_bytes()),
            answer: data.add(test.output.into_bytes()),
        };
        let tests = row.tests.into_iter().map(&mut test).collect();
        let checking = match (row.checker, row.checker_program) {
            (checker, None) => Checking::Stock(checker.unwrap_or(Checker::Wcmp)),
            (None, Some(CheckerLine { language, source })) => {
                Checking::Program(Submission { language, source })
            }
            (Some(_), Some(_)) => {
                return Err("it has `checker` and `checker_program`: a row has one of them".into());
            }
        };
        let mut suite = Suite::new(tests, checking);
        suite.files = match (row.input_file, row.output_file) {
            (Some(input), Some(output)) => Some(FileNames { input, output }),
            (None, None) => None,
            _ => {
                return Err("it has one of `input_file` and `output_file`: they go together".into());
            }
        };
        if let Some(seconds) = row.cpu_s {
            let most = f64::from(MAX_CPU_MS) / 1e3;
            if !(0.001..=most).contains(&seconds) {
                return Err(format!("`cpu_s` is {seconds}: it may be 0.001 to {most}"));
            }
            let time = Duration::from_secs_f64(seconds).as_millis();
            suite.cpu_ms = u32::try_from(time).unwrap_or(MAX_CPU_MS);
        }
        if let Some(megabytes) = row.memory_mb {
            let most = MAX_MEMORY >> 20;
            if !(1..=most).contains(&megabytes) {
                return Err(format!("`memory_mb` is {megabytes}: it may be 1 to {most}"));
            }
            suite.memory = megabytes << 20;
        }
        suite.check().map_err(|error| error.to_string())?;
        let (language, prompt) = (row.language, format!("{}\n", row.prompt.trim()));
        Ok(Self { line, prompt, solution: row.solution, judged: JudgingMethod::Tests { language, suite } })
    }

    /// What its programs are written in.
    pub(super) fn language(&self) -> Language {
        match &self.judged {
            JudgingMethod::Tests { language, .. } => *language,
            JudgingMethod::HumanEval(_) | JudgingMethod::Mbpp(_) => Language::Python,
        }
    }

    /// The languages of all programs that judging takes.
    pub(super) fn languages(&self) -> impl Iterator<Item = Language> {
        let checker = match &self.judged {
            JudgingMethod::Tests { suite: Suite { checking: Checking::Program(checker), .. }, .. } => {
                Some(checker.language)
            }
            _ => None,
        };
        iter::once(self.language()).chain(checker)
    }

    /// The program that a response makes. One to HumanEval goes on where the prompt ends; where it
    /// defines the function itself, only what the prompt has before that stays in front of it.
    pub(super) fn program(&self, response: &str) -> String {
        let said = extract::program(response, self.language());
        match &self.judged {
            JudgingMethod::HumanEval(row) if extract::definition(said, &row.entry_point).is_some() => {
                let before = extract::definition(&row.prompt, &row.entry_point).unwrap_or_default();
                row.prompt[..before].to_owned() + said
            }
            JudgingMethod::HumanEval(row) => row.program(said),
            JudgingMethod::Mbpp(_) | JudgingMethod::Tests { .. } => said.to_owned(),
        }
    }
}

fn typed<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ADD: &str = r#"{"prompt": "Add.", "tests": [{"input": "1 2", "output": "3"}]}"#;

    fn refusal(text: &str) -> String {
        read(text.as_bytes()).map(drop).unwrap_err().to_string()
    }

    /// [`ADD`] with one field more.
    fn with(field: &str) -> String {
        format!("{}, {field}}}", &ADD[..ADD.len() - 1])
    }

    #[test]
    fn rows_that_say_nothing_or_two_things_are_named() {
        read(ADD.as_bytes()).unwrap();
        let refused = |line: &str, why: &str| {
            let refused = refusal(&format!("{ADD}\n\n{line}"));
            assert!(refused.starts_with("line 3: ") && refused.contains(why), "{line}: {refused}");
        };
        for (field, why) in [
            (r#""entry_point": "f""#, "`entry_point` and `tests`"),
            (r#""tests_list": []"#, "tests_list"),
            (r#""language": "cobol""#, "cobol"),
            (r#""checker": "guess""#, "guess"),
            (r#""checker": "wcmp", "checker_program": {"source": "x"}"#, "`checker` and `checker_program`"),
            (r#""checker_program": {"source": ""}"#, "checker's length"),
            (r#""checker_program": {"source": "x", "text": ""}"#, "text"),
            (r#""checker_program": {"language": "cobol", "source": "x"}"#, "cobol"),
            (r#""input_file": "sum.in""#, "they go together"),
            (r#""input_file": "../sum.in", "output_file": "sum.out""#, "cannot name"),
            (r#""cpu_s": 0"#, "`cpu_s` is 0"),
            (r#""cpu_s": 61"#, "`cpu_s` is 61"),
            (r#""memory_mb": 1000000"#, "`memory_mb`"),
            (r#""solution": "```\nprint(3)\n```""#, "```"),
        ] {
            refused(&with(field), why);
        }
        for (line, why) in [
            (r#"{"prompt": "?"}"#, "neither `tests`"),
            (r#"{"prompt": "Add.", "tests": []}"#, "no tests"),
            (r#"{"prompt": " ", "tests": [{"input": "", "output": ""}]}"#, "the prompt is empty"),
            (r#"{"prompt": "Add.", "tests": [{"input": "", "answer": ""}]}"#, "answer"),
            (r#"{"task_id": 1, "text": "Add.", "code": "", "test_list": []}"#, "`test_list` is empty"),
            (r#"{"entry_point": "f", "prompt": "def f():"}"#, "task_id"),
            ("[]", "invalid type"),
        ] {
            refused(line, why);
        }
    }

    #[test]
    fn limits_language_and_checker_are_the_authors() {
        let line = with(
            r#""language": "c++20", "checker": "rcmp6", "cpu_s": 0.5, "memory_mb": 64, "solution": "x""#,
        );
        let (rows, data) = read(line.as_bytes()).unwrap();
        let JudgingMethod::Tests { language, suite } = &rows[0].judged else { panic!("{rows:?}") };
        assert_eq!((*language, suite.cpu_ms, suite.memory), (Language::Cpp20, 500, 64 << 20));
        assert_eq!(suite.checking, Checking::Stock(Checker::Rcmp6));
        assert_eq!(data.get(&suite.tests[0].answer).unwrap().as_ref(), b"3");
        assert_eq!(
            (rows[0].line, rows[0].prompt.as_str(), rows[0].solution.as_deref()),
            (1, "Add.\n", Some("x"))
        );
    }

    #[test]
    fn files_and_a_checker_may_be_the_authors_own() {
        let line = with(
            r#""input_file": "sum.in", "output_file": "sum.out", "checker_program": {"language": "c++17", "source": "x"}"#,
        );
        let (rows, _) = read(line.as_bytes()).unwrap();
        let JudgingMethod::Tests { language, suite } = &rows[0].judged else { panic!("{rows:?}") };
        assert_eq!(*language, Language::Python);
        assert_eq!(suite.files, Some(FileNames { input: "sum.in".into(), output: "sum.out".into() }));
        let checker = Submission { language: Language::Cpp17, source: "x".into() };
        assert_eq!(suite.checking, Checking::Program(checker));
        assert_eq!(rows[0].languages().collect::<Vec<_>>(), [Language::Python, Language::Cpp17]);
    }

    #[test]
    fn a_response_to_humaneval_goes_on_or_begins_anew() {
        let line = r#"{"task_id": "x", "prompt": "import math\n\ndef f(x):\n    '''Doc.'''\n", "entry_point": "f",
            "canonical_solution": "    return x\n", "test": ""}"#;
        let (rows, _) = read(line.replace('\n', " ").as_bytes()).unwrap();
        let row = &rows[0];
        assert_eq!(row.program("    return 1"), "import math\n\ndef f(x):\n    '''Doc.'''\n    return 1");
        let whole = "import math\n\ndef f(x):\n    return 2\n";
        assert_eq!(row.program("def f(x):\n    return 2\n"), whole);
        assert_eq!(row.program("Like this:\n```python\ndef f(x):\n    return 2\n```\nDone."), whole);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(field in "tests|prompt|cpu_s|memory_mb|language", value in "\\PC{0,12}|[0-9.e-]{1,6}|\\[\\]") {
            let _ = read(with(&format!("{field:?}: {value}")).as_bytes());
            let _ = read(format!("{{{field:?}: {value:?}}}").as_bytes());
        }
    }
}
