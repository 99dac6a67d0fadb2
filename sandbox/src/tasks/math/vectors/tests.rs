use std::io::Write;

use super::*;

fn check(lines: &str) -> Result<Report, VectorError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    check_file(file.path())
}

#[test]
fn all_three_forms_are_checked() {
    let lines = r##"{"gold": "$1/3$", "pred": "0.333333", "expected": true, "opts": {"precision": 4}, "group": "g"}
{"question": "?", "answer": "1+1=2\n#### 1,002"}

{"problem": "?", "solution": "It is $\\boxed{\\frac12}$.", "answer": "\\frac{1}{2}", "level": 1}
"##;
    let report = check(lines).unwrap();
    assert_eq!((report.cases, report.agreed), (3, 3), "{:?}", report.disagreements);
}

#[test]
fn disagreements_say_what_was_found() {
    let report = check(r#"{"gold": "$2$", "pred": "so \\boxed{3}", "expected": true}"#).unwrap();
    assert_eq!((report.cases, report.agreed), (1, 0));
    let found = &report.disagreements[0];
    assert_eq!((found.line, found.got, found.extracted.as_str()), (1, false, "3"));
    // An answer that its solution does not give.
    assert_eq!(check(r#"{"solution": "$\\boxed{4}$", "answer": "5"}"#).unwrap().agreed, 0);
    assert_eq!(check(r#"{"answer": "no mark"}"#).unwrap().agreed, 0);
}

#[test]
fn what_is_no_case_is_an_error_with_its_line() {
    let error = check("{\"answer\": \"#### 1\"}\n{\"gold\": 1}\n").unwrap_err();
    assert!(matches!(error, VectorError::Malformed { line: 2, .. }), "{error}");
    let missing = check_file(Path::new("/nonexistent/math.jsonl")).unwrap_err();
    assert!(matches!(missing, VectorError::Read { .. }));
}
