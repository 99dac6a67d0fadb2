use super::*;
use crate::common::testing;
use std::convert::Infallible;
use std::time::Instant;

/// Nothing of this takes longer.
const LIMIT: Duration = Duration::from_secs(60);

fn sets() -> Vec<PreparedSet> {
    let section: EvaluationSection = toml::from_str::<File>(
        "[[evaluation]]\nname = 'sums'\ntask = 'chain_sum'\nparams = { digits = 1 }\nlimit = 4\nsamples = 2\nevery = 2",
    )
    .unwrap()
    .evaluation;
    prepared(&section).unwrap()
}

#[derive(serde::Deserialize)]
struct File {
    evaluation: EvaluationSection,
}

fn start(dir: &RunDir) -> (Evaluations, Weights) {
    let (workload, weights) = testing::workload();
    (Evaluations::start(sets(), Arc::new(workload), dir, CancellationToken::new()).unwrap(), weights)
}

fn offer(evaluations: &Evaluations, version: u64, is_last: bool, weights: &Weights) -> bool {
    let mut asked = false;
    let weights = || {
        asked = true;
        Ok::<_, Infallible>(weights.clone())
    };
    evaluations.offer(PolicyVersion(version), is_last, weights).unwrap();
    asked
}

/// The rows that come in time.
fn rows(evaluations: &Evaluations) -> Vec<SetRow> {
    let since = Instant::now();
    loop {
        evaluations.wait();
        let found = evaluations.found();
        if !found.is_empty() || since.elapsed() > LIMIT {
            return found;
        }
    }
}

#[test]
fn versions_that_are_due_are_evaluated_beside_training() {
    let home = tempfile::tempdir().unwrap();
    let dir = RunDir::new(home.path());
    let (evaluations, weights) = start(&dir);
    assert!(!offer(&evaluations, 1, false, &weights), "not due, so no weights are copied");
    for (version, is_last) in [(0, false), (2, false), (3, true)] {
        assert!(offer(&evaluations, version, is_last, &weights));
        let [row] = rows(&evaluations).try_into().unwrap();
        assert_eq!(row.evaluated, version);
        let figures = &row.evaluation["sums"];
        assert_eq!(figures["rows"], 4);
        assert!(
            ["avg", "avg_low", "avg_high", "pass@1", "pass@2"].iter().all(|name| figures[*name].is_f64())
        );
        let file = rows_file(&dir.evaluations(), "sums", PolicyVersion(version));
        assert_eq!(fs::read_to_string(file).unwrap().lines().count(), 5);
    }
}

#[test]
fn what_is_on_record_is_not_evaluated_again() {
    let home = tempfile::tempdir().unwrap();
    let dir = RunDir::new(home.path());
    fs::write(dir.metrics(), "{\"evaluated\": 2, \"evaluation\": {\"sums\": {\"avg\": 0.5}}}\n").unwrap();
    let (evaluations, weights) = start(&dir);
    assert!(!offer(&evaluations, 2, false, &weights));
    assert!(offer(&evaluations, 4, false, &weights));
}

#[test]
fn a_file_in_the_way_costs_an_evaluation_and_no_run() {
    let home = tempfile::tempdir().unwrap();
    let dir = RunDir::new(home.path());
    fs::write(dir.evaluations(), "in the way").unwrap();
    let (evaluations, weights) = start(&dir);
    assert!(offer(&evaluations, 0, false, &weights));
    evaluations.wait();
    assert_eq!(evaluations.found(), []);
    fs::remove_file(dir.evaluations()).unwrap();
    assert!(offer(&evaluations, 2, false, &weights));
    assert_eq!(rows(&evaluations).len(), 1);
}

#[test]
fn a_set_that_cannot_be_read_is_named() {
    let section: File =
        toml::from_str("[[evaluation]]\nname = 'gsm8k'\ndata = '/nowhere/test.jsonl'").unwrap();
    let refused = format!("{:#}", prepared(&section.evaluation).unwrap_err());
    assert!(refused.contains("gsm8k") && refused.contains("/nowhere/test.jsonl"), "{refused}");
}
