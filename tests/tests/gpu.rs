//! The GPU kit without a GPU: every step runs at a small size on the processor, and says that there
//! is no device where none stands in.
#![cfg(test)]
#![cfg(target_os = "linux")]

use echo_policy::generation::device::{About, Survey};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs `gpu check`, and returns its exit code and its last line.
fn check(out: &Path, words: &[&str]) -> (i32, Value) {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_echo-lab"));
    let output = lab.args(["gpu", "check", "--json", "--out"]).arg(out).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or_else(|| panic!("it printed nothing:\n{said}"));
    eprintln!("{said}");
    (output.status.code().unwrap(), serde_json::from_str(last).unwrap())
}

fn steps(json: &Value) -> Vec<(&str, bool)> {
    let steps = json["steps"].as_array().unwrap();
    steps.iter().map(|step| (step["name"].as_str().unwrap(), step["ok"].as_bool().unwrap())).collect()
}

#[test]
fn a_rehearsal_runs_every_step_on_the_processor() {
    let out = tempfile::tempdir().unwrap();
    let only = "survey,vectors,generate,train,loop";
    let (code, json) = check(out.path(), &["--rehearse", "--budget", "15m", "--only", only]);
    assert_eq!(steps(&json), only.split(',').map(|name| (name, true)).collect::<Vec<_>>(), "{json}");
    assert_eq!((code, &json["passed"], &json["device"]), (0, &true.into(), &"CPU".into()));
    assert!(json["claims"].as_array().unwrap().len() >= 10);
    for file in ["gpu-check.json", "vectors/log.txt", "loop/result.json"] {
        assert!(out.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn without_a_card_every_step_says_so() {
    let is_card = |about: &About| {
        matches!(about, About::Cuda { .. })
            || matches!(about, About::Wgpu { adapter, .. } if *adapter != "software")
    };
    if Survey::take().found.iter().any(|found| is_card(&found.about)) {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let (code, json) = check(out.path(), &[]);
    assert_eq!(code, 3, "{json}");
    for step in json["steps"].as_array().unwrap() {
        assert!(step["reason"].as_str().unwrap().starts_with("no device: "), "{step}");
    }
}

#[test]
fn a_step_that_would_pass_the_budget_is_skipped_by_name() {
    let out = tempfile::tempdir().unwrap();
    let (code, json) = check(out.path(), &["--rehearse", "--budget", "3s", "--only", "vectors"]);
    assert_eq!((code, steps(&json)), (1, vec![("vectors", false)]));
    assert_eq!(json["steps"][0]["skipped"], true);
    assert!(json["steps"][0]["reason"].as_str().unwrap().contains("of the budget are left"), "{json}");
}
