//! A learner that is killed at random instants makes the same policy as one that is not: the
//! kill study, in small.
#![cfg(test)]

use echo_lab::output::console::Console;
use echo_lab::study::kill::{self, KillStudy};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_that_is_killed_five_times_ends_with_the_same_policy() {
    let study = KillStudy { kills: 5, updates: 12, seed: 1 };
    let report = kill::run(study, &Console::new(true)).await.unwrap();
    assert!(report.passed, "{}", report.json);
    assert_eq!(report.json["results"][0]["kills"], 5);
}
