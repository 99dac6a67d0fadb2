use super::*;

fn check_text(lines: &str) -> VectorAgreement {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    check_file(file.path()).unwrap()
}

#[test]
fn all_three_forms_are_checked() {
    let lines = r##"{"gold": "$1/3$", "pred": "0.333333", "expected": true, "opts": {"precision": 4}, "group": "g"}
{"question": "?", "answer": "1+1=2\n#### 1,002"}

{"problem": "?", "solution": "It is $\\boxed{\\frac12}$.", "answer": "\\frac{1}{2}", "level": 1}
"##;
    let agreement = check_text(lines);
    assert_eq!((agreement.cases, agreement.agreed), (3, 3), "{:?}", agreement.disagreements);
}

#[test]
fn disagreements_say_what_was_found() {
    let disagreement = |line: &str| check_text(line).disagreements.remove(0);
    let wrong = disagreement(r#"{"gold": "$2$", "pred": "so \\boxed{3}", "expected": true}"#);
    assert!(wrong.starts_with("line 1: got false, want true") && wrong.ends_with("as 3"), "{wrong}");
    // An answer that its solution does not give.
    disagreement(r#"{"solution": "$\\boxed{4}$", "answer": "5"}"#);
    disagreement(r#"{"answer": "no mark"}"#);
    assert!(disagreement(r#"{"gold": 1}"#).contains("not a math vector"));
}
