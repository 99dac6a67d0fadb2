//! The local network itself: a real bootstrap node and a really signed list; learner and
//! volunteers are stand-ins that do nothing but show how they were called, so that only the lab
//! is on trial here.
#![cfg(test)]
#![cfg(unix)]

use echo_lab::harness::binaries::Binaries;
use echo_lab::harness::cargo;
use echo_lab::harness::network::{LearnerConfig, NetworkConfig, TestNetwork, TestNodeConfig};
use echo_protocol::program::clock;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::Trust;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Calls: `echo-learner run --config FILE`, `echo-learner resume DIR`. It dies when it is told to
/// resume a second time.
const LEARNER: &str =
    r#"echo "$@"; [ "$(grep -c resume "$LOG")" -lt 2 ] || { echo out of luck; exit 3; }; exec sleep 1000"#;
/// Call: `echo-node run --data-dir DIR --peers LIST …`.
const NODE: &str =
    r#"mkdir -p "$3"; echo "{\"version\": 5, \"calls\": \"$*\"}" > "$3/status.json"; exec sleep 1000"#;

fn stand_in(dir: &Path, name: &str, body: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The real `echo-bootstrap`, built if nobody has yet.
fn bootstrap() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_echo-lab")).with_file_name("echo-bootstrap");
    if !path.is_file() {
        let built = cargo::command(["build", "--package", "echo-bootstrap"]).status().unwrap();
        assert!(built.success(), "echo-bootstrap does not build");
    }
    path
}

fn config(dir: &Path) -> NetworkConfig {
    let home = dir.join("network");
    let mut learner =
        LearnerConfig { settings: "[run]\nupdates = 7\n".parse().unwrap(), ..LearnerConfig::default() };
    learner.environment.insert("LOG".into(), home.join("logs/learner.log").display().to_string());
    NetworkConfig {
        binaries: Binaries {
            node: stand_in(dir, "node", NODE),
            learner: stand_in(dir, "learner", LEARNER),
            bootstrap: bootstrap(),
        },
        dir: home,
        network: "lab".into(),
        run: "addition".into(),
        learner,
        nodes: TestNodeConfig::several(2),
    }
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_network_starts_loses_members_gets_them_back_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut network = TestNetwork::start(config(dir.path())).await.unwrap();
    let layout = network.layout().clone();

    let list = fs::read_to_string(layout.list()).unwrap();
    let list = peer_list::open(&list, clock::wall(), &mut Trust::default()).unwrap();
    assert_eq!(list.learners().collect::<Vec<_>>(), [("addition", network.learner_key())]);
    assert!(
        list.peers.len() >= 2 && list.peers.iter().all(|peer| peer.contains("/p2p/")),
        "{:?}",
        list.peers
    );

    let run: toml::Table = fs::read_to_string(layout.run_config()).unwrap().parse().unwrap();
    assert_eq!(run["run"]["updates"].as_integer(), Some(7));
    let status = until("a volunteer's status", || network.node_status(1)).await;
    let calls = status["calls"].as_str().unwrap();
    assert!(calls.starts_with("run --data-dir") && calls.contains("echo.peers"), "{calls}");
    network.check().unwrap();

    network.kill_node(0).await.unwrap();
    assert!(!network.node_is_up(0) && network.kill_node(0).await.is_err());
    network.check().unwrap();
    network.start_node(0).unwrap();
    assert!(network.start_node(0).is_err(), "it is up already");

    let log = layout.log("learner");
    let calls = |word: &str| fs::read_to_string(&log).unwrap_or_default().matches(word).count();
    for resumed in 1..=2 {
        network.kill_learner().await.unwrap();
        network.resume_learner().unwrap();
        until("the learner's call", || (calls("resume") == resumed).then_some(())).await;
    }
    let error = until("the learner's end", || network.check().err()).await.to_string();
    assert!(error.contains("learner ended unexpectedly") && error.contains("out of luck"), "{error}");
    network.stop(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn what_cannot_start_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = config(dir.path());
    wrong.binaries.bootstrap = stand_in(dir.path(), "bootstrap", "echo no luck today; exit 4");
    let error = TestNetwork::start(wrong).await.unwrap_err().to_string();
    assert!(error.contains("bootstrap ended unexpectedly") && error.contains("no luck today"), "{error}");
}
