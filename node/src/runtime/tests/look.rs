//! A look at the network before a node joins.

use super::*;
use crate::learner_link::look::look;

#[tokio::test(flavor = "multi_thread")]
async fn a_look_finds_the_learner_and_says_what_the_run_needs() {
    let dir = tempfile::tempdir().unwrap();
    let learner = FakeLearner::start(dir.path(), loopback(), Arc::default()).await;
    learner.publish(3).await;
    let settings = settings(dir.path(), &learner.host);
    let ready = preflight::check(&settings, clock::now()).unwrap();
    let seen = look(&ready, &settings, AGENT).await.unwrap();
    assert!(seen.problems().is_empty(), "{seen:?}");
    assert!(!seen.peers.is_empty() && seen.peers.iter().all(|peer| peer.problem.is_none()), "{seen:?}");
    let run = seen.run.as_ref().unwrap_or_else(|| panic!("the learner is reached: {seen:?}"));
    assert_eq!(run.version, Some(PolicyVersion(3)));
    assert_eq!(run.needs.unwrap().policy_bytes, 4 * testing::model().parameter_count());
    assert!(seen.lines().iter().any(|line| line.contains("online, v3")), "{seen:?}");

    learner.die().await;
    let seen = look(&ready, &settings, AGENT).await.unwrap();
    assert_eq!(seen.run, None);
    let problems = seen.problems();
    assert!(problems[0].contains("nobody of the peer list answers"), "{problems:?}");
}
