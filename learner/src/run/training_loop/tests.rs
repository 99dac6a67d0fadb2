use super::*;
use crate::common::testing;
use crate::config::{EvaluationSection, TrainSection, WatchSection};
use crate::run::controller::RunPlan;
use crate::run::evaluations::prepared;
use crate::run::release::tests::{Fixture, deaf};
use crate::storage::run_dir::RunDir;
use crate::telemetry::metrics;
use crate::telemetry::samples::each_sample;
use echo_policy::model::config::{ModelConfig, TinySizes};
use object_store::path::Path as ObjectPath;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;

/// Nothing of this takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A learner without nodes.
pub(crate) fn learning(fixture: &Fixture, releases: Releases) -> Learning {
    let (workload, weights) = testing::workload();
    let plan = RunPlan { updates: 4, staleness: workload.charter.staleness, evaluate_every: 0 };
    Learning {
        controller: Controller::new(plan),
        trainer: Trainer::new(&workload.model, &weights, &TrainSection::default()).unwrap(),
        shared: fixture.shared.clone(),
        releases,
        evaluated: None,
        watch: Watch::read(&RunDir::new(fixture.dir.path()), PolicyVersion(0), &WatchSection::default())
            .and_then(|(draft, _)| draft.commit())
            .unwrap(),
        samples: Arc::new(Samples::off()),
        peak_flops: None,
        max_skipped: 20,
        evaluation_orders: 1,
        evaluations: Evaluations::none(),
        stop: fixture.stop.clone(),
        started: Instant::now(),
    }
}

/// What it comes to, in time.
fn ended(learning: Learning) -> Result<TrainingEnd, LearningError> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || drop(sender.send(learning.run())));
    receiver.recv_timeout(LIMIT).expect("it ends in time")
}

#[test]
fn the_first_answers_of_an_evaluation_are_samples() {
    let fixture = Fixture::new();
    let mut learning = learning(&fixture, fixture.releases(fixture.checkpoints()));
    let (dir, section) = (RunDir::new(fixture.dir.path()), WatchSection { samples: 1, ..Default::default() });
    learning.samples = Arc::new(Samples::start(&dir, PolicyVersion(0), &section));
    learning.evaluation_orders = 5;
    assert!(learning.evaluate(PolicyVersion(0)).unwrap());
    learning.samples.finish();
    let mut shown = Vec::new();
    each_sample(&dir, |sample| shown.push((sample.evaluated, sample.order, sample.responses.len()))).unwrap();
    assert_eq!(shown, [(Some(0), 0, 1), (Some(0), 1, 1)]);
}

#[test]
fn a_version_that_cannot_be_released_ends_a_run_that_waits_for_groups() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    std::fs::write(fixture.dir.path().join("checkpoints/000000000000"), "in the way").unwrap();
    let error = ended(learning(&fixture, fixture.releases(checkpoints))).unwrap_err();
    assert!(matches!(error, LearningError::Release(ReleaseError::Checkpoint(_))), "{error}");
    assert_eq!(fixture.announced(), []);
}

#[test]
fn an_error_is_told_while_the_store_is_out_of_reach() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints().copied_to(deaf(), ObjectPath::default(), "deaf");
    let mut learning = learning(&fixture, fixture.releases(checkpoints));
    // Not the run's model: it cannot be evaluated.
    let sizes = TinySizes {
        vocab: 64,
        hidden: 8,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 8,
        intermediate: 8,
        positions: 32,
    };
    let model = ModelConfig::tiny_qwen3(sizes).unwrap();
    learning.trainer = Trainer::new(&model, &Weights::random(&model, 1), &TrainSection::default()).unwrap();
    let error = ended(learning).unwrap_err();
    assert!(matches!(error, LearningError::Evaluation(_)), "{error}");
}

#[test]
fn a_run_ends_when_its_last_version_is_evaluated_and_its_figures_are_on_record() {
    let fixture = Fixture::new();
    let dir = RunDir::new(fixture.dir.path());
    let mut learning = learning(&fixture, fixture.releases(fixture.checkpoints()));
    let (staleness, last) = (fixture.shared.workload.charter.staleness, PolicyVersion(2));
    let plan = RunPlan { updates: last.0, staleness, evaluate_every: 0 };
    learning.controller = Controller::resume(plan, last, Some(last));
    let file = "evaluation = [{ name = 'sums', task = 'chain_sum', limit = 4, samples = 2, params = { digits = 1 } }]";
    let section = toml::from_str::<BTreeMap<String, EvaluationSection>>(file).unwrap().remove("evaluation");
    let sets = prepared(&section.unwrap()).unwrap();
    let (workload, stop) = (fixture.shared.workload.clone(), CancellationToken::new());
    learning.evaluations = Evaluations::start(sets, workload, &dir, stop).unwrap();
    assert_eq!(ended(learning).unwrap(), TrainingEnd::Finished);
    let rows = metrics::rows(&dir.metrics()).unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((&row["evaluated"], &row["evaluation"]["sums"]["rows"]), (&2.into(), &4.into()));
}
