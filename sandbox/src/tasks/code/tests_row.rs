//! A row with tests: Echo's own form, and what the published forms come to.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::call;
use crate::programs::checkers::Checker;
use crate::programs::suite::{MAX_CPU_MS, MAX_MEMORY};
use crate::programs::{Checking, FileNames, Language, Submission, Suite, Test};
use crate::task::data_set::fields::{Fields, asked, described};
use crate::task::files::TaskFiles;

/// What a program reads, and what it has to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) input: String,
    pub(super) output: String,
}

/// A problem with tests, before its suite is made.
#[derive(Debug)]
pub(super) struct TestsRow {
    pub(super) prompt: String,
    pub(super) cases: Vec<Case>,
    pub(super) language: Language,
    pub(super) checking: Checking,
    pub(super) files: Option<FileNames>,
    pub(super) cpu_s: Option<f64>,
    pub(super) memory_mb: Option<u64>,
    pub(super) solution: Option<String>,
    /// The function that is called with the values of the input, where the program does not read.
    pub(super) function: Option<String>,
}

/// A checker of the author's own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckerFields {
    #[serde(default = "python")]
    language: Language,
    source: String,
}

fn python() -> Language {
    Language::Python
}

impl TestsRow {
    /// A row of programs in Python whose outputs are compared word by word.
    pub(super) fn new(prompt: String, cases: Vec<Case>) -> Self {
        Self {
            prompt,
            cases,
            language: Language::Python,
            checking: Checking::Stock(Checker::Wcmp),
            files: None,
            cpu_s: None,
            memory_mb: None,
            solution: None,
            function: None,
        }
    }

    /// A row whose function is called with values of JSON, one in a line of the input; each output is a
    /// JSON list of the results that are accepted.
    pub(super) fn calling(prompt: String, cases: Vec<Case>, function: &str) -> Result<Self, String> {
        let named = !function.is_empty() && function.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !named {
            return Err(format!("{function:?} names no function"));
        }
        let source = call::CHECKER.to_owned();
        let checking = Checking::Program(Submission { language: Language::Python, source });
        Ok(Self { checking, function: Some(function.to_owned()), ..Self::new(prompt, cases) })
    }

    /// Reads Echo's own form.
    pub(super) fn of(fields: &Fields) -> Result<Self, String> {
        let prompt = match fields.get("prompt") {
            Some(prompt) => asked("prompt", prompt)?,
            None => return Err(format!("it has no `prompt` (its keys are {})", fields.keys())),
        };
        let cases = cases("tests", &fields.json("tests")?.unwrap_or_default())?;
        let checking = match (fields.typed::<Checker>("checker")?, fields.typed("checker_program")?) {
            (checker, None) => Checking::Stock(checker.unwrap_or(Checker::Wcmp)),
            (None, Some(CheckerFields { language, source })) => {
                Checking::Program(Submission { language, source })
            }
            (Some(_), Some(_)) => {
                return Err("it has `checker` and `checker_program`: a row has one of them".into());
            }
        };
        let files = match (fields.text("input_file")?, fields.text("output_file")?) {
            (Some(input), Some(output)) => {
                Some(FileNames { input: input.to_owned(), output: output.to_owned() })
            }
            (None, None) => None,
            _ => return Err("it has one of `input_file` and `output_file`: they go together".into()),
        };
        Ok(Self {
            language: fields.typed("language")?.unwrap_or(Language::Python),
            checking,
            files,
            cpu_s: fields.typed("cpu_s")?,
            memory_mb: fields.typed("memory_mb")?,
            solution: fields.text("solution")?.map(str::to_owned),
            ..Self::new(prompt, cases)
        })
    }

    /// The tests with their limits; their data goes into `data`.
    pub(super) fn suite(&self, data: &mut TaskFiles) -> Result<Suite, String> {
        let mut test = |case: &Case| Test {
            input: data.add(case.input.as_bytes()),
            answer: data.add(case.output.as_bytes()),
        };
        let tests = self.cases.iter().map(&mut test).collect();
        let mut suite = Suite::new(tests, self.checking.clone());
        suite.files.clone_from(&self.files);
        if let Some(seconds) = self.cpu_s {
            let most = f64::from(MAX_CPU_MS) / 1e3;
            if !(0.001..=most).contains(&seconds) {
                return Err(format!("`cpu_s` is {seconds}: it may be 0.001 to {most}"));
            }
            let time = Duration::from_secs_f64(seconds).as_millis();
            suite.cpu_ms = u32::try_from(time).unwrap_or(MAX_CPU_MS);
        }
        if let Some(megabytes) = self.memory_mb {
            let most = MAX_MEMORY >> 20;
            if !(1..=most).contains(&megabytes) {
                return Err(format!("`memory_mb` is {megabytes}: it may be 1 to {most}"));
            }
            suite.memory = megabytes << 20;
        }
        suite.check().map_err(|error| error.to_string())?;
        Ok(suite)
    }
}

/// The tests under a key: a list of `{"input", "output"}`, or `{"input": […], "output": […]}`.
pub(super) fn cases(key: &str, value: &Value) -> Result<Vec<Case>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(tests) => tests.iter().enumerate().map(|(at, test)| case(key, at + 1, test)).collect(),
        Value::Object(_) => pairs(key, value)?
            .enumerate()
            .map(|(at, (input, output))| {
                Ok(Case { input: text(key, at + 1, input)?, output: text(key, at + 1, output)? })
            })
            .collect(),
        other => Err(format!("`{key}` is {}: write a list of {{\"input\", \"output\"}}", described(other))),
    }
}

/// Inputs and outputs of an object that lists both.
pub(super) fn pairs<'a>(
    key: &str,
    value: &'a Value,
) -> Result<impl Iterator<Item = (&'a Value, &'a Value)>, String> {
    let list = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| value.get(*name)).and_then(Value::as_array);
        found.ok_or_else(|| format!("`{key}` has no list `{}`", names[0]))
    };
    let (inputs, outputs) = (list(["inputs", "input"])?, list(["outputs", "output"])?);
    if inputs.len() != outputs.len() {
        return Err(format!(
            "`{key}` has {} inputs and {} outputs: they go together",
            inputs.len(),
            outputs.len()
        ));
    }
    Ok(inputs.iter().zip(outputs))
}

fn case(key: &str, number: usize, test: &Value) -> Result<Case, String> {
    let Some(object) = test.as_object() else {
        return Err(format!(
            "test {number} of `{key}` is {}: write {{\"input\", \"output\"}}",
            described(test)
        ));
    };
    let value = |names: [&str; 2]| {
        names.iter().find_map(|name| object.get(*name)).ok_or_else(|| {
            let keys = Fields::from(object.clone()).keys();
            format!("test {number} of `{key}` has no `{}` (its keys are {keys})", names[0])
        })
    };
    Ok(Case {
        input: text(key, number, value(["input", "stdin"])?)?,
        output: text(key, number, value(["output", "expected_output"])?)?,
    })
}

/// What a program reads or writes: a text, or its lines.
fn text(key: &str, number: usize, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Array(lines) => {
            let lines: Result<Vec<String>, String> =
                lines.iter().map(|line| text(key, number, line)).collect();
            Ok(lines?.join("\n"))
        }
        other => Err(format!(
            "test {number} of `{key}` has {}: write a text, or a list of lines",
            described(other)
        )),
    }
}
