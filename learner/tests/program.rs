//! The program itself, where a unit test cannot show what it does.

use std::path::Path;
use std::process::{Command, Output};

const RUN_FILE: &str = r#"
task = "chain_sum"
[run]
name = "test"
dir = "run"
updates = 1
[model.tiny]
hidden = 16
layers = 1
heads = 2
kv_heads = 1
head_dim = 8
intermediate = 24
positions = 32
[warmup]
updates = 1
batch = 2
learning_rate = 1e-3
"#;

fn learner(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_echo-learner"));
    command.args(arguments).current_dir(home).env("TMPDIR", home.join("no-such-directory")).output().unwrap()
}

#[test]
fn a_policy_is_made_without_a_directory_for_temporary_files() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("run.toml"), RUN_FILE).unwrap();
    let made = learner(home.path(), &["warmup", "--config", "run.toml", "--output", "start"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut names: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["run.toml", "start"], "nothing else is left");
    assert!(home.path().join("start/model.safetensors").exists());

    // What is there already is seen before the warm-up, whose first word is that it trains.
    let again = learner(home.path(), &["warmup", "--config", "run.toml", "--output", "start"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("exists already"), "{said}");
}
