//! The program as a process: what it prints into nothing, and how it ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "clippy knows tests and not their helpers")]

#[path = "../../program_tests.rs"]
mod program_tests;

use program_tests::{Running, check_lost_answers, full};
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_echo-bootstrap");

/// Starts a boot node of which nothing can be read, and waits until it works.
fn start(home: &Path) -> Running {
    let addresses = home.join("addresses");
    let child = Command::new(PROGRAM)
        .args(["run", "--status-every", "1", "--listen", "/ip4/127.0.0.1/tcp/0", "--data-dir"])
        .arg(home.join("data"))
        .arg("--write-address")
        .arg(&addresses)
        .env("RUST_LOG", "debug")
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    running.until("addresses", || addresses.exists());
    running
}

#[test]
fn it_works_on_without_anybody_to_read_what_it_says_and_ends_cleanly() {
    for name in ["-TERM", "-INT"] {
        let home = tempfile::tempdir().unwrap();
        let mut running = start(home.path());
        running.signal(name);
        assert_eq!(running.ended().code(), Some(0), "{name}");
    }
}

#[test]
fn a_command_whose_reader_left_ends_quietly_and_one_whose_answer_is_lost_says_so() {
    let home = tempfile::tempdir().unwrap();
    let identity = || {
        let mut asked = Command::new(PROGRAM);
        asked.args(["identity", "--data-dir"]).arg(home.path());
        asked
    };
    assert!(identity().stdout(Stdio::null()).status().unwrap().success());
    check_lost_answers("echo-bootstrap", 2, identity);
}
