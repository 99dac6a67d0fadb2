//! The program as a process: what it prints into nothing, and how it ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "clippy knows tests and not their helpers")]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use echo_protocol::net::peer_id_of;
use echo_protocol::program::clock;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{ListedRun, PeerList};
use echo_protocol::wire::identity::NodeKey;

const PROGRAM: &str = env!("CARGO_BIN_EXE_echo-node");
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

/// Writes a peer list at whose only address nobody answers.
fn write_list(path: &Path) {
    let list = PeerList {
        network: "echo".into(),
        version: 1,
        expires: clock::now().0 / 1000 + 1000,
        peers: vec![format!("/ip4/127.0.0.1/tcp/1/p2p/{}", peer_id_of([9; 32]))],
        runs: vec![ListedRun {
            name: "sums".into(),
            learner: NodeKey::from_secret([5; 32]).public().to_string(),
        }],
    };
    std::fs::write(path, peer_list::sign(&list, &NodeKey::from_secret([1; 32])).unwrap()).unwrap();
}

/// A node of which nothing can be read, and which waits for its learner.
fn start(home: &Path) -> Running {
    write_list(&home.join("list"));
    let data = home.join("data");
    let child = Command::new(PROGRAM)
        .args([
            "run",
            "--listen",
            "/ip4/127.0.0.1/tcp/0",
            "--log",
            "debug",
            "--status-every-s",
            "1",
            "--data-dir",
        ])
        .arg(&data)
        .arg("--peers")
        .arg(home.join("list"))
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let since = Instant::now();
    // Kept once the network is up.
    while !data.join("trust.json").exists() {
        assert_eq!(running.0.try_wait().unwrap(), None, "it ended");
        assert!(since.elapsed() < PATIENCE, "it does not start");
        sleep(Duration::from_millis(20));
    }
    running
}

#[test]
fn it_works_on_without_anybody_to_read_what_it_says_and_ends_cleanly() {
    for name in ["-TERM", "-INT"] {
        let home = tempfile::tempdir().unwrap();
        let mut running = start(home.path());
        let sent = Command::new("kill").args([name, &running.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(running.0.wait().unwrap().code(), Some(0), "{name}");
    }
}

#[test]
fn a_command_whose_reader_left_ends_quietly_and_one_whose_answer_is_lost_says_so() {
    let home = tempfile::tempdir().unwrap();
    for command in ["config", "identity"] {
        let run = |stdout: Stdio| {
            let output = Command::new(PROGRAM)
                .args([command, "--data-dir"])
                .arg(home.path())
                .stdout(stdout)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        assert_eq!(run(abandoned().into()), (Some(0), String::new()), "{command}");
        let (code, said) = run(full().into());
        assert_eq!(code, Some(1), "{command}");
        assert!(said.starts_with("echo-node: ") && said.contains("No space left"), "{said}");
    }
}
