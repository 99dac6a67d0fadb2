//! The program as a process: what it prints into nothing, and how it ends.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "clippy knows tests and not their helpers")]

#[path = "../../program_tests.rs"]
mod program_tests;

use std::path::Path;
use std::process::Command;

use echo_protocol::net::peer_id_of;
use echo_protocol::program::clock;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{ListedRun, PeerList};
use echo_protocol::wire::identity::NodeKey;
use program_tests::{Running, check_lost_answers, full};

const PROGRAM: &str = env!("CARGO_BIN_EXE_echo-node");

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
    // Kept once the network is up.
    running.until("a network", || data.join("trust.json").exists());
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
    for command in ["config", "identity"] {
        check_lost_answers("echo-node", 1, || {
            let mut asked = Command::new(PROGRAM);
            asked.args([command, "--data-dir"]).arg(home.path());
            asked
        });
    }
}
