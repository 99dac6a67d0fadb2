use std::io::Write;

use super::*;
use crate::programs::testing::judge;

fn check_lines(lines: &[serde_json::Value]) -> Result<FunctionReport, ProgramVectorError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for line in lines {
        writeln!(file, "{line}\n").unwrap();
    }
    check_functions(&judge(), file.path())
}

fn mbpp(id: u64, code: &str, test: &str) -> serde_json::Value {
    serde_json::json!({"task_id": id, "text": "", "code": code, "test_list": [test]})
}

#[test]
fn references_are_accepted_and_mutants_die_or_survive_for_a_reason() {
    let human_eval = serde_json::json!({
        "task_id": "HumanEval/x", "prompt": "def f(x: int) -> int:\n    \"\"\"One more, from 0 on.\"\"\"\n", "entry_point": "f",
        "canonical_solution": "    if x < 0:\n        return 0\n    return x + 1\n",
        "test": "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(0) == 1\n    assert candidate(-3) == 0\n"
    });
    let weak = mbpp(2, "def g(x):\n    return 0 if x == 7 else x * 2", "assert g(3) == 6");
    let wrong = mbpp(3, "def h(x):\n    return x", "assert h(3) == 4");
    let report = check_lines(&[human_eval, weak, wrong]).unwrap();
    assert_eq!((report.tasks, report.accepted), (3, 2));
    assert_eq!(report.refused.len(), 1);
    assert!(report.refused[0].task == "MBPP/3" && report.refused[0].reason.contains("WA"), "{report:?}");
    assert_eq!(report.wrong, []);
    // Every result taken away, the comparison, both constants of the first function and its sum.
    assert!(report.killed >= 6, "{report:?}");
    // Nobody asks the second function for 7, and so not for what it gives there.
    let changes: Vec<_> = report.survivors.iter().filter_map(|survivor| survivor.change.as_deref()).collect();
    assert!(changes.contains(&"line 2: `7` became `8`"), "{changes:?}");
    assert_eq!(report.mutants, report.killed + report.survivors.len());
}

#[test]
fn references_alone_are_judged_and_what_is_not_installed_is_skipped() {
    let right = mbpp(1, "def f(xs):\n    xs.sort()", "xs = [2, 1]\nf(xs)\nassert xs == [1, 2]");
    let lacking = mbpp(2, "import no_such_module as no\ndef f(): return no.f()", "assert f() == 3");
    let lines = format!("{right}\n{lacking}");
    let report = check_reference_lines(&judge(), Path::new("rows"), lines.as_bytes()).unwrap();
    assert_eq!((report.tasks, report.accepted, report.mutants), (2, 1, 0));
    assert!(report.refused.is_empty() && report.skipped.len() == 1, "{report:?}");
    assert!(report.skipped[0].reason.contains("no_such_module"), "{report:?}");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    assert_eq!(check_references(&judge(), file.path()).unwrap(), report, "a file is the same");
}

#[test]
fn other_lines_are_refused() {
    let other = check_lines(&[serde_json::json!({"task_id": 1, "code": "x"})]).unwrap_err();
    assert!(matches!(other, ProgramVectorError::Malformed { line: 1, .. }));
    assert!(matches!(check_functions(&judge(), Path::new("/nowhere")), Err(ProgramVectorError::Read { .. })));
    let named = check_reference_lines(&judge(), Path::new("a file"), &b"{}"[..]).unwrap_err().to_string();
    assert!(named.starts_with("a file, line 1"), "{named}");
}
