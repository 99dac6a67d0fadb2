//! The rows of the file: a problem each, in one of three forms or in one of a [published
//! set](super::published).
//!
//! | form | marked by | prompt | reward |
//! |---|---|---|---|
//! | HumanEval | `entry_point` | a program's beginning | `test` with `check(candidate)` |
//! | MBPP | `test_list` | `text` or `prompt`, and the first assert | `test_list`, after `test_setup_code` |
//! | tests | `tests` | `prompt` | output equals `output`, or a checker accepts it |
//!
//! Further keys are passed over.

use std::fmt;
use std::iter;

use super::packed::MAX_UNPACKED_BYTES;
use super::tests_row::TestsRow;
use super::{call, extract, published};
use crate::programs::functions::{HumanEval, Mbpp};
use crate::programs::{Checking, Language, Suite};
use crate::task::data_set;
use crate::task::data_set::fields::{Fields, asked};
use crate::task::data_set::{DataError, ReadRows, Unusable};
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
    Tests {
        language: Language,
        suite: Suite,
        /// The function that the program is to define, where the tests call one.
        function: Option<String>,
    },
}

/// What a program is judged by, in a few words.
impl fmt::Display for JudgingMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HumanEval(row) => write!(f, "check({})", row.entry_point),
            Self::Mbpp(row) => write!(f, "{} asserts", row.test_list.len()),
            Self::Tests { suite, function: Some(function), .. } => {
                write!(f, "{} tests of the function {}", suite.tests.len(), function)
            }
            Self::Tests { suite, function: None, .. } => {
                write!(f, "{} tests with input and output", suite.tests.len())
            }
        }
    }
}

/// Reads a file: its problems, and the data of their tests.
///
/// # Errors
/// All rows that are no problem.
pub(super) fn read(bytes: &[u8]) -> Result<(ReadRows<CodeProblem>, TaskFiles), DataError> {
    let mut data = TaskFiles::none();
    let mut left = MAX_UNPACKED_BYTES;
    let read = |row, fields: Fields| CodeProblem::of(row, &fields, &mut data, &mut left);
    let rows = data_set::read(bytes, read)?;
    Ok((rows, data))
}

impl CodeProblem {
    fn of(line: usize, fields: &Fields, data: &mut TaskFiles, left: &mut u64) -> Result<Self, Unusable> {
        let forms = ["entry_point", "test_list", "tests"];
        let given: Vec<&str> = forms.into_iter().filter(|form| fields.get(form).is_some()).collect();
        let row = match given.as_slice() {
            ["entry_point"] => Self::human_eval(line, fields)?,
            ["test_list"] => Self::mbpp(line, fields)?,
            ["tests"] => Self::tests(line, TestsRow::of(fields)?, data)?,
            [] => match published::read(fields, left)? {
                Some(row) => Self::tests(line, row, data)?,
                None => {
                    return Err(Unusable::Wrong(format!(
                        "it has neither `tests`, nor the `entry_point` of HumanEval, nor the `test_list` of MBPP: \
                         nothing says what is right (its keys are {})",
                        fields.keys()
                    )));
                }
            },
            several => {
                return Err(Unusable::Wrong(format!(
                    "it has `{}`: a row has one of them",
                    several.join("` and `")
                )));
            }
        };
        if row.prompt.trim().is_empty() {
            return Err("the prompt is empty".into());
        }
        if let Some(solution) = &row.solution
            && extract::program(solution, row.language()).len() != solution.len()
        {
            return Err(
                "its solution has fences (```) or sentences around the program, which are not taken as part of it: \
                 write the program alone"
                    .into(),
            );
        }
        Ok(row)
    }

    fn human_eval(line: usize, fields: &Fields) -> Result<Self, String> {
        if fields.get("test").is_none() && fields.get("base_input").is_some() {
            return Err("it has the inputs of HumanEval+ and no `test`: take the set with tests, evalplus/humanevalplus of the Hub".into());
        }
        let text = |key| fields.required(key).map(str::to_owned);
        let row = HumanEval {
            task_id: fields.get("task_id").map(ToString::to_string).unwrap_or_default(),
            prompt: text("prompt")?,
            entry_point: text("entry_point")?,
            canonical_solution: text("canonical_solution")?,
            test: text("test")?,
        };
        let (prompt, solution) = (row.prompt.clone(), Some(row.canonical_solution.clone()));
        Ok(Self { line, prompt, solution, judged: JudgingMethod::HumanEval(Box::new(row)) })
    }

    /// The asserts after the first are not shown: a table of what they ask for would pass.
    fn mbpp(line: usize, fields: &Fields) -> Result<Self, String> {
        let (key, asks) = fields.first(&["text", "prompt"]).ok_or("it has neither `text` nor `prompt`")?;
        let row = Mbpp {
            task_id: fields.get("task_id").map(ToString::to_string).unwrap_or_default(),
            text: asked(key, asks)?,
            code: fields.required("code")?.to_owned(),
            test_imports: fields.texts("test_imports")?,
            test_setup_code: fields.text("test_setup_code")?.unwrap_or_default().to_owned(),
            test_list: fields.texts("test_list")?,
            challenge_test_list: Vec::new(),
        };
        let first = row.test_list.first().ok_or("`test_list` is empty: everything would be right")?;
        let prompt = format!("{}\nYour code should pass this test:\n{}\n", row.text.trim(), first.trim());
        Ok(Self {
            line,
            prompt,
            solution: Some(row.code.clone()),
            judged: JudgingMethod::Mbpp(Box::new(row)),
        })
    }

    fn tests(line: usize, row: TestsRow, data: &mut TaskFiles) -> Result<Self, String> {
        let suite = row.suite(data)?;
        let TestsRow { prompt, language, solution, function, .. } = row;
        let prompt = if prompt.trim().is_empty() { prompt } else { format!("{}\n", prompt.trim()) };
        Ok(Self { line, prompt, solution, judged: JudgingMethod::Tests { language, suite, function } })
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
            JudgingMethod::Tests { function: Some(function), .. } => call::program(said, function),
            JudgingMethod::Mbpp(_) | JudgingMethod::Tests { function: None, .. } => said.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::checkers::Checker;
    use crate::programs::{FileNames, Submission};
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
            assert!(refused.starts_with("row 3: ") && refused.contains(why), "{line}: {refused}");
        };
        for (field, why) in [
            (r#""entry_point": "f""#, "`entry_point` and `tests`"),
            (r#""test_list": ["assert f()"]"#, "`test_list` and `tests`"),
            (r#""solution": 3"#, "`solution` is the number 3"),
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
            (r#"{"entry_point": "f", "prompt": "def f():"}"#, "`canonical_solution`"),
            (r#"{"entry_point": "f", "prompt": "def f():", "base_input": [[1]]}"#, "evalplus/humanevalplus"),
            (r#"{"prompt": "Add.", "code": "x", "test_list": "assert f()"}"#, "`test_list`"),
            (
                r#"{"prompt": "Add.", "tests": [{"input": {}, "output": ""}]}"#,
                "test 1 of `tests` has an object",
            ),
            ("[]", "a row is one object"),
        ] {
            refused(line, why);
        }
    }

    #[test]
    fn further_keys_are_passed_over_and_sanitized_mbpp_is_read() {
        let line = with(r#""difficulty": 3, "id": "x", "test_cases": null"#);
        assert_eq!(read(line.as_bytes()).unwrap().0.rows.len(), 1);
        let lines = r#"{"prompt": "Add.", "tests": [{"input": ["1", "2"], "output": ["3"], "testtype": "stdin"}]}
            {"source_file": "x", "task_id": "Mbpp/2", "prompt": "Add.", "code": "def add(a, b):\n    return a + b", "test_imports": ["import math"], "test_list": ["assert add(1, 2) == 3"]}"#;
        let (ReadRows { rows, .. }, data) = read(lines.as_bytes()).unwrap();
        let JudgingMethod::Tests { suite, .. } = &rows[0].judged else { panic!("{rows:?}") };
        assert_eq!(data.get(&suite.tests[0].input).unwrap().as_ref(), b"1\n2");
        let JudgingMethod::Mbpp(sanitized) = &rows[1].judged else { panic!("{rows:?}") };
        assert_eq!(sanitized.task().setup, "import math\n");
        assert_eq!(rows[1].prompt, "Add.\nYour code should pass this test:\nassert add(1, 2) == 3\n");
    }

    #[test]
    fn tests_that_call_a_function_have_its_call_behind_the_program() {
        let line =
            r#"{"question": "Add.", "input_output": {"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}}"#;
        let (ReadRows { rows, .. }, _) = read(line.as_bytes()).unwrap();
        let program = rows[0].program("```python\ndef add(a, b):\n    return a + b\n```");
        assert!(program.contains("\ndef add(a, b):") && program.contains("globals()[\"add\"]"), "{program}");
    }

    #[test]
    fn limits_language_and_checker_are_the_authors() {
        let line = with(
            r#""language": "c++20", "checker": "rcmp6", "cpu_s": 0.5, "memory_mb": 64, "solution": "x""#,
        );
        let (ReadRows { rows, .. }, data) = read(line.as_bytes()).unwrap();
        let JudgingMethod::Tests { language, suite, .. } = &rows[0].judged else { panic!("{rows:?}") };
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
        let (ReadRows { rows, .. }, _) = read(line.as_bytes()).unwrap();
        let JudgingMethod::Tests { language, suite, .. } = &rows[0].judged else { panic!("{rows:?}") };
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
        let (ReadRows { rows, .. }, _) = read(line.replace('\n', " ").as_bytes()).unwrap();
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
