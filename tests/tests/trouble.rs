//! The short form of `cargo lab trouble`: one scenario of each kind, and a random schedule.
#![cfg(test)]
#![cfg(unix)]

use echo_lab::output::console::Console;
use echo_lab::trouble::{Trouble, run};

/// Scenarios at once: each takes about one core while it trains.
const AT_ONCE: usize = 3;
const SHORT: [&str; 7] = [
    "clock-of-a-node-ahead",
    "clock-of-a-resumed-learner-behind",
    "learner-stopped-while-nodes-receive",
    "learner-restored-from-a-backup",
    "node-stopped-for-good",
    "second-learner-on-one-directory",
    "learner-charter-half",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_run_comes_through_one_trouble_of_each_kind() {
    let dir = tempfile::tempdir().unwrap();
    let only = SHORT.map(str::to_owned).to_vec();
    let trouble = Trouble { only, random: None, seed: 0, at_once: AT_ONCE, dir: dir.path().to_owned() };
    let report = run(trouble, &Console::new(true)).await.unwrap();
    assert_eq!(report.json["scenarios"], SHORT.len());
    assert!(report.passed, "{:#}", report.json["rows"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_comes_through_a_random_schedule() {
    let dir = tempfile::tempdir().unwrap();
    let trouble =
        Trouble { only: Vec::new(), random: Some(1), seed: 1, at_once: 1, dir: dir.path().to_owned() };
    let report = run(trouble, &Console::new(true)).await.unwrap();
    assert!(report.passed, "{:#}", report.json["rows"]);
}
