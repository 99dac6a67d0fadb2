//! Tasks that need more than a seed go through the whole loop: those made of a file, and
//! those of several turns.
//!
//! Each test is a run of real processes with the smallest policy there is. Rewards are near
//! nothing; the way has to work: the file comes to the volunteers with the first snapshot, episodes
//! are played, audited and trained on, and nothing is refused.
#![cfg(test)]

use echo_lab::conformance::{GSM8K, Sources};
use echo_lab::harness::network::TestNodeConfig;
use echo_lab::harness::small_run;
use echo_lab::harness::small_run::until;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::metrics;
use echo_learner::telemetry::samples::each_sample;
use echo_learner::telemetry::summary::RunSummary;
use echo_protocol::wire::content_id::ContentId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Value;

const UPDATES: u32 = 4;
const LIMIT: Duration = Duration::from_secs(180);
const GRACE: Duration = Duration::from_secs(20);
const TWO_PROBLEMS: &str = r####"{"question": "What is 2 + 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5"}
{"question": "Half of 30?", "answer": "30 / 2 = <<30/2=15>>15\n#### 15"}
"####;

/// The repository's example of a verifier.
const VERIFIER: &str = include_str!("../../sandbox/verifiers/letter_counting.wat");
#[cfg(target_os = "linux")]
const TWO_PROGRAMS: &str = r#"{"prompt": "Print the sum.", "tests": [{"input": "1 2", "output": "3"}], "solution": "print(sum(map(int, input().split())))"}
{"prompt": "Print it again.", "tests": [{"input": "a", "output": "a"}, {"input": "b", "output": "b"}], "solution": "print(input())"}
"#;

/// Runs to the end of the run, with `changes` to the run file of small runs, and looks at what it came to.
async fn train_on(dir: &Path, task: &str, changes: &[(&str, &str, Value)]) -> RunSummary {
    let mut network = small_run::start_on(dir, UPDATES, task, changes).await.unwrap();
    let run = RunDir::new(&network.layout().run_dir());
    for node in TestNodeConfig::several(2) {
        network.add_node(node).unwrap();
    }
    until("the end of the run", LIMIT, &mut network, |_| run.summary().exists().then_some(())).await.unwrap();
    network.stop(GRACE).await.unwrap();
    let summary: RunSummary = serde_json::from_slice(&std::fs::read(run.summary()).unwrap()).unwrap();
    assert_eq!(summary.updates, u64::from(UPDATES));
    assert!(summary.trajectories_rejected.is_empty(), "{:?}", summary.trajectories_rejected);
    let rows = metrics::updates(&run.metrics()).unwrap();
    assert_eq!(rows.len(), UPDATES as usize);
    assert!(rows.iter().all(|row| (0.0..=1.0).contains(&row.reward)), "a reward outside of [0, 1]");
    let mut updates_shown = BTreeSet::new();
    each_sample(&run, |sample| {
        assert!(!sample.prompt.is_empty() && !sample.responses.is_empty(), "{sample:?}");
        updates_shown.extend(sample.update);
    })
    .unwrap();
    assert!(updates_shown.into_iter().eq(1..=u64::from(UPDATES)), "updates without samples");
    summary
}

/// GSM8K where it is there, or else two problems of its form.
fn problems(dir: &Path) -> PathBuf {
    Sources::find().and_then(|sources| sources.path(GSM8K)).unwrap_or_else(|_| {
        let file = dir.join("problems.jsonl");
        std::fs::write(&file, TWO_PROBLEMS).unwrap();
        file
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_on_math_goes_through_the_whole_loop() {
    let dir = tempfile::tempdir().unwrap();
    let file = problems(dir.path());
    let changes = [
        ("data", "math", Value::from(file.to_str().unwrap())),
        ("model", "tiny", tiny(2048)),
        ("sampling", "max_new_tokens", 24.into()),
        ("admission", "audit", true.into()),
    ];
    train_on(&dir.path().join("run"), "math", &changes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_on_holdem_goes_through_the_whole_loop() {
    let dir = tempfile::tempdir().unwrap();
    let changes = [
        ("model", "tiny", tiny(4096)),
        ("train", "group_by", "private_hand".into()),
        ("admission", "audit", true.into()),
    ];
    train_on(&dir.path().join("run"), "holdem", &changes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_on_a_webassembly_verifier_goes_through_the_whole_loop() {
    let dir = tempfile::tempdir().unwrap();
    let module = wat::parse_str(VERIFIER).unwrap();
    let file = dir.path().join("verifier.wasm");
    std::fs::write(&file, &module).unwrap();
    let task = format!("wasm:{}", ContentId::of(&module));
    let changes = [
        ("data", task.as_str(), Value::from(file.to_str().unwrap())),
        ("model", "tiny", tiny(256)),
        ("admission", "audit", true.into()),
    ];
    train_on(&dir.path().join("run"), &task, &changes).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_on_programs_goes_through_the_whole_loop() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("programs.jsonl");
    std::fs::write(&file, TWO_PROGRAMS).unwrap();
    let changes = [
        ("data", "code", Value::from(file.to_str().unwrap())),
        ("model", "tiny", tiny(256)),
        ("admission", "audit", true.into()),
    ];
    train_on(&dir.path().join("run"), "code", &changes).await;
}

/// The model of small runs, for longer texts.
fn tiny(positions: i64) -> Value {
    let sizes = [
        ("hidden", 32),
        ("layers", 1),
        ("heads", 2),
        ("kv_heads", 1),
        ("head_dim", 16),
        ("intermediate", 128),
        ("positions", positions),
    ];
    Value::Table(sizes.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect())
}
