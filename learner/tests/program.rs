//! The program as a process: what it prints into nothing, and how it ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "clippy knows tests and not their helpers")]

#[path = "../../program_tests.rs"]
mod program_tests;

use program_tests::{Running, check_lost_answers, full};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_echo-learner");

const RUN_FILE: &str = r#"
task = "chain_sum"
[run]
name = "small"
dir = "run"
updates = 4
[model.tiny]
hidden = 32
layers = 1
heads = 2
kv_heads = 1
head_dim = 16
intermediate = 64
positions = 32
[train]
schedule = { peak = 1e-4, decay = { shape = "constant" } }
[network]
listen = ["/ip4/127.0.0.1/tcp/0"]
"#;

/// A learner on the run file and `more` of it, in `home`, whose log is a file there.
fn start(home: &Path, more: &str) -> Running {
    fs::write(home.join("run.toml"), format!("{RUN_FILE}{more}")).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["--log", "info,echo_learner=debug", "run", "--config"]).arg(home.join("run.toml"));
    command.stderr(File::create(log(home)).unwrap());
    Running(command.spawn().unwrap())
}

fn log(home: &Path) -> PathBuf {
    home.join("log")
}

fn says(home: &Path, text: &str) -> bool {
    fs::read_to_string(log(home)).unwrap().contains(text)
}

#[test]
fn a_command_whose_reader_left_ends_quietly_and_one_whose_answer_is_lost_says_so() {
    let home = tempfile::tempdir().unwrap();
    for command in [&["identity"][..], &["peers", "list"]] {
        check_lost_answers("echo-learner", 1, || {
            let mut asked = Command::new(PROGRAM);
            asked.args(command).arg(home.path());
            asked
        });
        // Only a run has peers.
        fs::write(home.path().join("charter.cbor"), "").unwrap();
    }
}

#[test]
fn it_works_on_without_a_log() {
    let home = tempfile::tempdir().unwrap();
    let warmup = "[warmup]\nupdates = 2\nbatch = 4\nlearning_rate = 1e-3\n";
    fs::write(home.path().join("run.toml"), format!("{RUN_FILE}{warmup}")).unwrap();
    let status = Command::new(PROGRAM)
        .args(["--log", "info", "warmup", "--config"])
        .arg(home.path().join("run.toml"))
        .arg("--output")
        .arg(home.path().join("policy"))
        .stderr(full())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(home.path().join("policy/model.safetensors").exists());
}

#[test]
fn a_run_file_is_checked_with_its_exit_code_and_nothing_is_made() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("run.toml"), RUN_FILE).unwrap();
    let check = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let asked =
            command.args(["check", "run.toml", "--json"]).args(more).current_dir(home.path()).output();
        let asked = asked.unwrap();
        (asked.status.code(), String::from_utf8_lossy(&asked.stdout).into_owned())
    };
    let (code, sound) = check(&["--set", "buffer.max_bytes=16777216"]);
    assert_eq!((code, sound.contains(r#""passed":true"#)), (Some(0), true), "{sound}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("network.listen=['/ip4/127.0.0.1/tcp/{}']", taken.local_addr().unwrap().port());
    let (code, wrong) = check(&["--set", &listen, "--set", "run.updates=0"]);
    assert_eq!(code, Some(2), "{wrong}");
    assert!(wrong.contains("run.updates = 0") && wrong.contains("[network] listen"), "{wrong}");
    let names: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["run.toml"]);
}

#[test]
fn signals_end_a_warm_up_at_once() {
    for (name, code) in [("-TERM", 143), ("-INT", 130)] {
        let home = tempfile::tempdir().unwrap();
        let warmup = "[warmup]\nupdates = 100000000\nbatch = 4\nlearning_rate = 1e-3\n";
        let mut running = start(home.path(), warmup);
        running.until("warm-up", || says(home.path(), "warm-up update"));
        running.signal(name);
        assert_eq!(running.ended().code(), Some(code), "{name}");
    }
}

#[test]
fn signals_end_a_run_in_order_while_it_waits_for_groups_and_while_it_evaluates() {
    let waits = ("[evaluation]\norders = 1\n", "published v0");
    let evaluates = ("[evaluation]\norders = 100000000\n", "next: Evaluate");
    for (name, (more, sign)) in [("-TERM", waits), ("-TERM", evaluates), ("-INT", evaluates)] {
        let home = tempfile::tempdir().unwrap();
        let mut running = start(home.path(), more);
        running.until(sign, || says(home.path(), sign));
        running.signal(name);
        assert_eq!(running.ended().code(), Some(0), "{name} {more}");
        assert!(says(home.path(), "echo-learner resume"));
    }
}

#[test]
fn signals_end_a_learner_whose_bucket_answers_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", mute.local_addr().unwrap());
    let store = "[checkpoints]\nstore = \"s3://bucket/run\"\n";
    fs::write(home.path().join("run.toml"), format!("{RUN_FILE}{store}")).unwrap();
    let child = Command::new(PROGRAM)
        .args(["run", "--config"])
        .arg(home.path().join("run.toml"))
        .envs([("AWS_ENDPOINT", endpoint.as_str()), ("AWS_ALLOW_HTTP", "true")])
        .envs([("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")])
        .stderr(File::create(log(home.path())).unwrap())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    // It is asked, and hears nothing.
    let (asking, _) = mute.accept().unwrap();
    running.signal("-INT");
    assert_eq!(running.ended().code(), Some(130));
    drop(asking);
}

#[test]
fn a_policy_is_made_without_a_directory_for_temporary_files() {
    let home = tempfile::tempdir().unwrap();
    let warmup = "[warmup]\nupdates = 1\nbatch = 2\nlearning_rate = 1e-3\n";
    fs::write(home.path().join("run.toml"), format!("{RUN_FILE}{warmup}")).unwrap();
    let make = || {
        let arguments = ["warmup", "--config", "run.toml", "--output", "start"];
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(home.path()).env("TMPDIR", home.path().join("no-such-directory"));
        command.output().unwrap()
    };
    let made = make();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut names: Vec<_> =
        fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["run.toml", "start"], "nothing else is left");
    assert!(home.path().join("start/model.safetensors").exists());

    // What is there already is seen before the warm-up, whose first word is that it trains.
    let again = make();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("exists already"), "{said}");
}
