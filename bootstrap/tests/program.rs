//! The program as a process: what it prints into nothing, and how it ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "clippy knows tests and not their helpers")]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_echo-bootstrap");
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends its process, however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A pipe whose reader has left.
fn abandoned() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

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
    let since = Instant::now();
    while !addresses.exists() {
        assert_eq!(running.0.try_wait().unwrap(), None, "it ended");
        assert!(since.elapsed() < PATIENCE, "no addresses");
        sleep(Duration::from_millis(20));
    }
    running
}

fn signal(running: &Running, name: &str) {
    let sent = Command::new("kill").args([name, &running.0.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn it_works_on_without_anybody_to_read_what_it_says_and_ends_cleanly() {
    for name in ["-TERM", "-INT"] {
        let home = tempfile::tempdir().unwrap();
        let mut running = start(home.path());
        signal(&running, name);
        assert_eq!(running.0.wait().unwrap().code(), Some(0), "{name}");
    }
}

#[test]
fn a_command_whose_reader_left_ends_quietly_and_one_whose_answer_is_lost_says_so() {
    let home = tempfile::tempdir().unwrap();
    let identity = |stdout: Stdio| {
        let output = Command::new(PROGRAM)
            .args(["identity", "--data-dir"])
            .arg(home.path())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(identity(Stdio::null()).0, Some(0));
    assert_eq!(identity(abandoned().into()), (Some(0), String::new()));
    let (code, said) = identity(full().into());
    assert_eq!(code, Some(2));
    assert!(said.starts_with("echo-bootstrap: ") && said.contains("No space left"), "{said}");
}
