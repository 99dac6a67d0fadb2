use super::*;
use crate::common::testing;
use crate::telemetry::exporters::tensorboard::tests::texts;
use crate::training::local_rollouts::answers;
use echo_policy::generation::Policy;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::trajectory::{MetaValue, TrajectoryGroup};
use std::fs;
use std::path::Path;
use std::slice;
use std::sync::Arc;

fn sample(update: u64, text: &str) -> Sample {
    let response = SampledResponse { text: text.to_owned(), reward: 0.5, ..Default::default() };
    Sample { update: Some(update), task: "math".into(), responses: vec![response], ..Default::default() }
}

fn evaluated(version: u64) -> Sample {
    Sample { update: None, evaluated: Some(version), ..sample(0, "4") }
}

fn on_record(dir: &RunDir) -> Vec<(Option<u64>, Option<u64>)> {
    let mut rows = Vec::new();
    each_sample(dir, |sample| rows.push((sample.update, sample.evaluated))).unwrap();
    rows
}

fn written(dir: &RunDir, version: u64, samples: Vec<Sample>) {
    let writer = Samples::start(dir, PolicyVersion(version), &WatchSection::default());
    assert!(writer.offer(move || samples));
    writer.finish();
    assert!(!writer.offer(Vec::new), "nothing is taken behind the end");
}

/// A group as the buffer keeps it, and what its policy was asked.
fn group(workload: &Workload, weights: &echo_policy::model::weights::Weights) -> StoredGroup {
    let policy = Arc::new(Policy::load(3, &workload.model, weights).unwrap());
    let order = workload.order(Purpose::Train, 5);
    let answers =
        answers(workload, policy, slice::from_ref(&order), workload.charter.group_size).unwrap().remove(0);
    let correct = answers.iter().map(|answer| answer.verdict.correct).collect();
    let group = TrajectoryGroup {
        run: workload.run,
        lease: LeaseId(0),
        counter: order.counter,
        node: workload.charter.learner,
        trajectories: answers.into_iter().map(LocalAnswer::trajectory).collect(),
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    StoredGroup { arrival: 0, correct, group }
}

#[test]
fn a_group_is_shown_with_prompt_responses_and_verdicts() {
    let home = tempfile::tempdir().unwrap();
    for (workload, weights) in [testing::workload(), testing::two_turns(), testing::chat(home.path())] {
        let stored = group(&workload, &weights);
        let shown = Sample::of_group(&workload, 8, &stored);
        let order = workload.order(Purpose::Train, 5);
        assert!(shown.prompt.contains(&workload.assignment(&order).prompt().text), "{shown:?}");
        assert_eq!((shown.update, shown.order, shown.left_out), (Some(8), 5, 0));
        assert_eq!(shown.task, workload.assignment(&order).task().name());
        assert_eq!(shown.responses.len(), stored.group.trajectories.len());
        for (response, trajectory) in shown.responses.iter().zip(&stored.group.trajectories) {
            assert_eq!(response.tokens, trajectory.response.len() as u64);
            assert_eq!((response.reward, response.ended), (trajectory.reward, trajectory.stopped));
            assert_eq!((&response.versions, &response.omega), (&vec![3], &trajectory.omega));
            if trajectory.turns.is_empty() {
                assert_eq!(response.text, workload.text(&trajectory.response));
            }
        }
        let line = serde_json::to_string(&shown).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&line).unwrap(), shown);
    }
}

#[test]
fn answers_of_an_evaluation_are_shown_like_groups() {
    let (workload, weights) = testing::workload();
    let policy = Arc::new(Policy::load(3, &workload.model, &weights).unwrap());
    let order = workload.order(Purpose::HeldOut, 2);
    let answered = answers(&workload, policy, slice::from_ref(&order), 20).unwrap().remove(0);
    let shown = Sample::of_answers(&workload, PolicyVersion(3), &order, answered);
    assert_eq!((shown.update, shown.evaluated, shown.node.clone()), (None, Some(3), None));
    assert_eq!((shown.responses.len(), shown.left_out), (MAX_RESPONSES, 4));
}

#[test]
fn a_resumed_run_appends_and_repeats_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = RunDir::new(home.path());
    written(&dir, 0, vec![evaluated(0), sample(1, "1"), sample(2, "2"), sample(3, "3"), evaluated(3)]);
    // A crash tore the last line.
    let torn = [fs::read(dir.samples()).unwrap(), b"{\"update\":4,".to_vec()].concat();
    fs::write(dir.samples(), torn).unwrap();
    written(&dir, 2, vec![sample(3, "again")]);
    let rows = [(None, Some(0)), (Some(1), None), (Some(2), None), (Some(3), None)];
    assert_eq!(on_record(&dir), rows);
    let shown: Vec<i64> = texts(&dir.tensorboard().join("samples"), "samples/update")
        .into_iter()
        .map(|(step, _)| step)
        .collect();
    assert_eq!(shown, [1, 2, 3]);
    // What is whole stays as it is.
    let before = fs::read(dir.samples()).unwrap();
    Samples::start(&dir, PolicyVersion(3), &WatchSection::default()).finish();
    assert_eq!(fs::read(dir.samples()).unwrap(), before);
}

#[test]
fn the_file_is_bounded_and_has_the_newest() {
    let home = tempfile::tempdir().unwrap();
    let dir = RunDir::new(home.path());
    let length = serde_json::to_string(&sample(10, "x")).unwrap().len() as u64 + 1;
    let mut file = SampleFile::open(&dir, PolicyVersion(0)).of_at_most(3 * length);
    (10..=20).for_each(|update| file.append(&[sample(update, "x")]));
    let kept: Vec<u64> = on_record(&dir).into_iter().filter_map(|(update, _)| update).collect();
    assert_eq!(kept, [16, 17, 18, 19, 20]);
    assert!(fs::metadata(dir.samples()).unwrap().len() <= 3 * length);
    // Rows of later updates are taken out of both files.
    drop(SampleFile::open(&dir, PolicyVersion(17)));
    let kept: Vec<u64> = on_record(&dir).into_iter().filter_map(|(update, _)| update).collect();
    assert_eq!(kept, [16, 17]);
}

#[test]
fn a_file_that_cannot_be_written_costs_samples_alone() {
    let home = tempfile::tempdir().unwrap();
    let dir = RunDir::new(home.path());
    fs::create_dir(dir.samples()).unwrap();
    let mut file = SampleFile::open(&dir, PolicyVersion(0));
    file.append(&[sample(1, "1")]);
    fs::remove_dir(dir.samples()).unwrap();
    file.append(&[sample(2, "2")]);
    // One that was removed is made anew.
    fs::remove_file(dir.samples()).unwrap();
    file.append(&[sample(3, "3")]);
    assert_eq!(on_record(&dir), [(Some(3), None)]);
    // No place at all.
    written(&RunDir::new(Path::new("/dev/null/run")), 0, vec![sample(1, "1")]);
}

#[test]
fn training_never_waits_for_it() {
    let home = tempfile::tempdir().unwrap();
    let dir = RunDir::new(home.path());
    let samples = Samples::start(&dir, PolicyVersion(0), &WatchSection::default());
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = std::sync::mpsc::channel();
    assert!(samples.offer(move || {
        begun.send(()).unwrap();
        gate.recv().unwrap();
        Vec::new()
    }));
    has_begun.recv().unwrap();
    let taken = (1..=50).filter(|update| {
        let update = *update;
        samples.offer(move || vec![sample(update, "x")])
    });
    assert_eq!(taken.count(), MAX_WAITING);
    go_on.send(()).unwrap();
    samples.finish();
    assert_eq!(on_record(&dir).len(), MAX_WAITING);
}

#[test]
fn chosen_groups_are_different_ones_of_the_batch_and_change() {
    let home = tempfile::tempdir().unwrap();
    let section = WatchSection { samples: 3, samples_every: 2, ..WatchSection::default() };
    let samples = Samples::start(&RunDir::new(home.path()), PolicyVersion(0), &section);
    let chosen = |update, groups| samples.chosen(update, groups).collect::<Vec<_>>();
    assert_eq!(chosen(1, 8), [0; 0]);
    assert_eq!(chosen(2, 8), [2, 4, 7]);
    assert_eq!(chosen(4, 8), [4, 6, 1]);
    assert_eq!((chosen(2, 2), chosen(2, 0)), (vec![0, 1], vec![]));
    assert_eq!(samples.answers(), 6);
    samples.finish();
    let off = WatchSection { samples: 0, ..section };
    let off = Samples::start(&RunDir::new(home.path()), PolicyVersion(0), &off);
    assert_eq!((off.chosen(2, 8).count(), off.answers(), off.offer(Vec::new)), (0, 0, false));
}

#[test]
fn what_a_terminal_would_obey_is_escaped() {
    let hostile = "a\u{1b}[2J\u{9b}1m\u{202e}b\r\u{7f}\u{200b}\tc\r\n é漢";
    let seen = visible(hostile);
    assert_eq!(seen, "a\\u{1b}[2J\\u{9b}1m\\u{202e}b\\u{d}\\u{7f}\\u{200b}    c\n é漢");
    let omega = [("no\u{1b}te".to_owned(), MetaValue::Text("x\ny\u{7}".into()))].into();
    let line = SampledResponse { omega, ..SampledResponse::default() }.headline();
    assert!(line.ends_with("no\\u{1b}te x y\\u{7}"), "{line}");
}

#[test]
fn a_text_cannot_leave_its_block_in_tensorboard() {
    let text = shown::markdown(&[sample(1, "```\n# big\n<b>x</b>")]);
    assert!(text.contains("    ```\n    # big\n    <b>x</b>\n"), "{text}");
    let long = shown::markdown(&[sample(1, &"é".repeat(5000))]);
    assert_eq!(long.matches('é').count(), 4000);
}

#[test]
fn long_texts_are_shortened_at_a_character() {
    let text = bounded("é".repeat(MAX_TEXT_BYTES));
    assert!(text.len() < MAX_TEXT_BYTES + 40 && text.ends_with("bytes more"), "{}", text.len());
    assert_eq!(bounded("short".into()), "short");
}
