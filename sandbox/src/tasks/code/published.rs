//! Rows as published sets of programming problems have them.
//!
//! | set | marked by | tests |
//! |---|---|---|
//! | APPS, TACO | `input_output` | inputs and outputs, or calls of `fn_name` |
//! | CodeContests | `public_tests` | public, private and generated ones |
//! | LiveCodeBench | `public_test_cases` | public and private ones, or calls of `metadata.func_name` |
//! | PRIME | `reward_model` | as APPS, in `ground_truth` |
//!
//! Objects may be written as texts of JSON, as most of these sets have them.

use serde_json::Value;

use super::packed::unpack;
use super::tests_row::{Case, TestsRow, cases, pairs};
use crate::programs::suite::MAX_TESTS;
use crate::task::data_set::Unusable;
use crate::task::data_set::fields::{Fields, asked};

/// Seconds of a test where a set's limit is shorter: those are made for compiled programs.
const LEAST_CPU_S: f64 = 2.0;
/// MiB of memory of a test where a set allows less.
const LEAST_MEMORY_MB: u64 = 256;
/// CodeContests' number of Python 3.
const PYTHON3: u64 = 3;

/// The row, if it has the form of a published set. What is packed in it takes from `left`, the bytes
/// that the file's rows may unpack to.
pub(super) fn read(fields: &Fields, left: &mut u64) -> Result<Option<TestsRow>, Unusable> {
    let has = |keys: &[&str]| keys.iter().any(|key| fields.get(key).is_some());
    let mut row = if has(&["input_output"]) {
        apps(fields, "input_output")?
    } else if has(&["public_tests", "private_tests", "generated_tests"]) {
        code_contests(fields)?
    } else if has(&["public_test_cases", "private_test_cases"]) {
        live_code_bench(fields, left)?
    } else if has(&["reward_model.ground_truth"]) {
        apps(fields, "reward_model.ground_truth")?
    } else {
        return Ok(None);
    };
    if row.cases.is_empty() {
        return Err(Unusable::Dead("it has no tests".into()));
    }
    row.cases.truncate(MAX_TESTS);
    Ok(Some(row))
}

/// The problem as it is asked, and the code that a program goes on from.
fn prompt(fields: &Fields, keys: &[&str]) -> Result<String, Unusable> {
    let Some((key, value)) = fields.first(keys) else {
        return Err(Unusable::Wrong(format!("it has no `{}` (its keys are {})", keys[0], fields.keys())));
    };
    let question = asked(key, value)?;
    let starter = fields.text("starter_code")?.unwrap_or_default();
    Ok(match starter.trim() {
        "" => question,
        _ => format!("{}\n\nStart from this code:\n{}", question.trim(), starter.trim_end()),
    })
}

fn apps(fields: &Fields, key: &str) -> Result<TestsRow, Unusable> {
    let prompt = prompt(fields, &["question", "problem", "prompt"])?;
    let Some(tests) = fields.json(key)? else { return Err(Unusable::Dead(format!("its `{key}` is empty"))) };
    let function = tests.get("fn_name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let mut row = match function {
        None => TestsRow::new(prompt, cases(key, &tests)?),
        Some(function) => {
            let called = pairs(key, &tests)?.enumerate().map(|(at, (arguments, result))| {
                let arguments = arguments.as_array().ok_or_else(|| {
                    format!("input {} of `{key}` is not the list of arguments of `{function}`", at + 1)
                })?;
                let input = arguments.iter().map(|argument| format!("{argument}\n")).collect();
                // Most results of this set stand in a list of one.
                let unwrapped = match result.as_array().map(Vec::as_slice) {
                    Some([only]) => vec![result.clone(), only.clone()],
                    _ => vec![result.clone()],
                };
                Ok(Case { input, output: Value::Array(unwrapped).to_string() })
            });
            TestsRow::calling(prompt, called.collect::<Result<_, String>>()?, function)?
        }
    };
    row.solution = match fields.json("solutions")? {
        Some(Value::Array(solutions)) => solutions.first().and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    Ok(row)
}

fn code_contests(fields: &Fields) -> Result<TestsRow, Unusable> {
    let prompt = prompt(fields, &["description", "question", "prompt"])?;
    let mut all = Vec::new();
    for key in ["public_tests", "private_tests", "generated_tests"] {
        all.extend(cases(key, &fields.json(key)?.unwrap_or_default())?);
    }
    let mut row = TestsRow::new(prompt, all);
    let seconds = fields.get("time_limit.seconds").and_then(Value::as_f64);
    let nanos = fields.get("time_limit.nanos").and_then(Value::as_f64).unwrap_or(0.0);
    row.cpu_s = seconds.map(|seconds| (seconds + nanos / 1e9).clamp(LEAST_CPU_S, 60.0));
    let bytes = fields.get("memory_limit_bytes").and_then(Value::as_u64).filter(|bytes| *bytes > 0);
    row.memory_mb = bytes.map(|bytes| (bytes >> 20).clamp(LEAST_MEMORY_MB, 4096));
    row.solution = fields.json("solutions")?.as_ref().and_then(in_python);
    Ok(row)
}

/// The first solution in Python 3 of `{"language": […], "solution": […]}`, or of a list of such pairs.
fn in_python(solutions: &Value) -> Option<String> {
    let python =
        |language: &Value| language.as_u64() == Some(PYTHON3) || language.as_str() == Some("PYTHON3");
    let text = |solution: &Value| solution.as_str().map(str::to_owned);
    match solutions {
        Value::Array(pairs) => {
            text(pairs.iter().find(|pair| pair.get("language").is_some_and(python))?.get("solution")?)
        }
        _ => {
            let at = solutions.get("language")?.as_array()?.iter().position(python)?;
            text(solutions.get("solution")?.as_array()?.get(at)?)
        }
    }
}

fn live_code_bench(fields: &Fields, left: &mut u64) -> Result<TestsRow, Unusable> {
    let prompt = prompt(fields, &["question_content", "question", "prompt"])?;
    let mut tests = Vec::new();
    for key in ["public_test_cases", "private_test_cases"] {
        let is_packed = |text: &&str| !text.trim_start().starts_with(['[', '{']) && !text.trim().is_empty();
        let unpacked = fields.text(key).ok().flatten().filter(is_packed).map(|text| unpack(text, left));
        let listed = match unpacked {
            Some(text) => {
                let text = text.map_err(|why| {
                    format!(
                        "`{key}` is a text that is not JSON: {why}; write a list of {{\"input\", \"output\"}}"
                    )
                })?;
                let parsed: Result<Value, serde_json::Error> = serde_json::from_str(&text);
                Some(
                    parsed
                        .map_err(|error| format!("`{key}` unpacks to a text that is not JSON ({error})"))?,
                )
            }
            None => fields.json(key)?,
        };
        match listed {
            Some(Value::Array(more)) => tests.extend(more),
            Some(_) => return Err(Unusable::Wrong(format!("`{key}` is no list of tests"))),
            None => {}
        }
    }
    let functional = |test: &Value| test.get("testtype").and_then(Value::as_str) == Some("functional");
    let all = cases("public_test_cases", &Value::Array(tests.clone()))?;
    if !tests.iter().any(functional) {
        return Ok(TestsRow::new(prompt, all));
    }
    let metadata = fields.json("metadata")?.unwrap_or_default();
    let Some(function) = metadata.get("func_name").and_then(Value::as_str) else {
        return Err(Unusable::Wrong("its tests call a function, and `metadata` has no `func_name`".into()));
    };
    let called = all.into_iter().enumerate().map(|(at, Case { input, output })| {
        let result: Value = serde_json::from_str(&output)
            .map_err(|error| format!("the output of test {} is not JSON ({error})", at + 1))?;
        Ok(Case { input, output: Value::Array(vec![result]).to_string() })
    });
    Ok(TestsRow::calling(prompt, called.collect::<Result<_, String>>()?, function)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{Checking, Language};
    use serde_json::json;

    fn row(row: Value) -> Result<TestsRow, Unusable> {
        Ok(read(&serde_json::from_value(row).unwrap(), &mut 1_000)?.expect("it is a published form"))
    }

    fn texts(row: &TestsRow) -> Vec<(&str, &str)> {
        row.cases.iter().map(|case| (case.input.as_str(), case.output.as_str())).collect()
    }

    #[test]
    fn apps_is_read_with_streams_and_with_calls() {
        let input_output = json!({"inputs": ["1 2\n", ["3", "4"]], "outputs": ["3\n", 7]}).to_string();
        let streams =
            row(json!({"question": "Add.", "input_output": input_output, "solutions": "[\"print(3)\"]",
            "starter_code": "", "difficulty": "interview"}))
            .unwrap();
        assert_eq!(texts(&streams), [("1 2\n", "3\n"), ("3\n4", "7")]);
        assert_eq!((streams.prompt.as_str(), streams.solution.as_deref()), ("Add.", Some("print(3)")));
        let calls = json!({"fn_name": "add", "inputs": [[1, [2]]], "outputs": [[3]]});
        let calls = row(json!({"question": "Add.", "input_output": calls, "starter_code": "def add(a, b):"}))
            .unwrap();
        assert_eq!(texts(&calls), [("1\n[2]\n", "[[3],3]")]);
        assert_eq!(calls.function.as_deref(), Some("add"));
        assert!(calls.prompt.ends_with("def add(a, b):") && matches!(calls.checking, Checking::Program(_)));
    }

    #[test]
    fn code_contests_joins_its_tests_and_finds_python() {
        let contest = row(json!({"description": "Add.", "public_tests": {"input": ["1 2"], "output": ["3"]},
            "private_tests": {"input": [], "output": []}, "generated_tests": {"input": ["2 2"], "output": ["4"]},
            "solutions": {"language": [2, 3], "solution": ["int main", "print(3)"]},
            "time_limit": {"seconds": 3, "nanos": 500000000}, "memory_limit_bytes": 512 << 20}))
        .unwrap();
        assert_eq!(texts(&contest), [("1 2", "3"), ("2 2", "4")]);
        assert_eq!((contest.cpu_s, contest.memory_mb), (Some(3.5), Some(512)));
        assert_eq!((contest.solution.as_deref(), contest.language), (Some("print(3)"), Language::Python));
        let none = row(json!({"description": "Add.", "public_tests": {"input": [], "output": []}}));
        assert!(matches!(none, Err(Unusable::Dead(_))), "{none:?}");
    }

    #[test]
    fn live_code_bench_is_read() {
        let stdin = json!([{"input": "1 2", "output": "3", "testtype": "stdin"}]).to_string();
        let live =
            row(json!({"question_content": "Add.", "public_test_cases": stdin, "private_test_cases": ""}));
        assert_eq!(texts(&live.unwrap()), [("1 2", "3")]);
        let functional = json!([{"input": "[1, 2]\n3", "output": "6", "testtype": "functional"}]).to_string();
        let live = row(json!({"question_content": "Add.", "public_test_cases": functional,
            "metadata": "{\"func_name\": \"add\"}", "starter_code": "class Solution:\n    def add(self, a, b):"}));
        let live = live.unwrap();
        assert_eq!((texts(&live), live.function.as_deref()), (vec![("[1, 2]\n3", "[6]")], Some("add")));
        let packed = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "not zlib");
        let packed = row(json!({"question_content": "Add.", "private_test_cases": packed}));
        assert!(matches!(&packed, Err(Unusable::Wrong(why)) if why.contains("zlib")), "{packed:?}");
    }

    #[test]
    fn prime_is_read_and_others_are_no_published_form() {
        let prime = row(json!({"prompt": [{"role": "user", "content": "Add."}],
            "reward_model": {"style": "rule", "ground_truth": "{\"inputs\":[\"1 2\"],\"outputs\":[\"3\"]}"}}));
        let prime = prime.unwrap();
        assert_eq!((texts(&prime), prime.prompt.as_str()), (vec![("1 2", "3")], "Add."));
        let wrong = row(json!({"prompt": "Add.", "reward_model": {"ground_truth": "3"}}));
        assert!(matches!(&wrong, Err(Unusable::Wrong(why)) if why.contains("ground_truth")), "{wrong:?}");
        let other = serde_json::from_value(json!({"prompt": "Add."})).unwrap();
        assert!(read(&other, &mut 0).unwrap().is_none());
    }
}
