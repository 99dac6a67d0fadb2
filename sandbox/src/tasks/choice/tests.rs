use super::*;
use crate::task::data_set::DataError;
use crate::task::episode::{EpisodeStep, Play};
use std::collections::BTreeMap;

const ROWS: &str = r#"
    {"question": "2+2?", "subject": "arithmetic", "choices": ["3", "4", "5", "22"], "answer": 1}
    {"id": "x", "question": "Wet?", "choices": {"text": ["water", "sand", "fire"], "label": ["1", "2", "3"]}, "answerKey": "1"}
    {"Question": "Heavy?", "Correct Answer": "lead", "Incorrect Answer 1": "air", "Incorrect Answer 2": "wool", "Incorrect Answer 3": "foam"}
    {"question": "Prime?", "options": ["4", "6", "7", "all of the above"], "answer": "C", "answer_index": 2}
    {"question": "Red?", "correct_answer": "blood", "distractor1": "grass", "distractor2": "sky", "distractor3": "snow", "support": ""}
"#;

fn task(rows: &str) -> ChoiceTask {
    ChoiceTask::new(ChoiceConfig { held_out_percent: 0 }, rows.as_bytes()).unwrap()
}

fn earns(task: &dyn Task, seed: TaskSeed, text: &str) -> bool {
    task.reward(seed, &Response { text, finished: true }).unwrap().correct
}

/// The same as in a run, which takes the thinking away.
fn earns_in_a_run(task: &dyn Task, seed: TaskSeed, text: &str) -> bool {
    let step = Play::new(task, seed).turn(&Response { text, finished: true }, 0).unwrap();
    let EpisodeStep::Over { verdict, .. } = step else { panic!("{step:?}") };
    verdict.correct
}

fn seeds() -> impl Iterator<Item = TaskSeed> {
    (0..=u8::MAX).map(|byte| TaskSeed([byte; 32]))
}

#[test]
fn every_form_is_read_and_only_the_right_letter_earns() {
    let task = task(ROWS);
    let right = BTreeMap::from([
        ("2+2?", "4"),
        ("Wet?", "water"),
        ("Heavy?", "lead"),
        ("Prime?", "7"),
        ("Red?", "blood"),
    ]);
    for seed in seeds() {
        let prompt = task.prompt(seed).text;
        let mut lines = prompt.lines();
        let expected = right[lines.next().unwrap()];
        let options: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(". ")).collect();
        assert!((3..=4).contains(&options.len()), "{prompt}");
        for (letter, option) in options {
            assert_eq!(
                earns(&task, seed, &format!("The answer is {letter}")),
                option == expected,
                "{prompt}{letter}"
            );
        }
        assert!(earns(&task, seed, &task.solution(seed)));
        assert!(prompt.len() <= task.longest_prompt() && prompt.ends_with(INSTRUCTION));
        assert_eq!(task.solution(seed).len(), task.longest_response());
        let alphabet = task.alphabet();
        assert!(prompt.chars().chain(task.solution(seed).chars()).all(|c| alphabet.contains(&c)));
    }
}

#[test]
fn options_are_shuffled_by_the_seed_unless_they_speak_of_each_other() {
    let task = task(ROWS);
    let letters = |index: usize| -> BTreeMap<char, usize> {
        let row = task.row(index).unwrap();
        let mut found = BTreeMap::new();
        seeds()
            .for_each(|seed| *found.entry(row.solution(seed).chars().next_back().unwrap()).or_default() += 1);
        found
    };
    // 256 draws of four letters: 64 each, give or take five standard deviations of 7.
    let shuffled = letters(0);
    assert!(shuffled.len() == 4 && shuffled.values().all(|count| (29..=99).contains(count)), "{shuffled:?}");
    assert_eq!(letters(3), BTreeMap::from([('C', 256)]), "all of the above");
    assert_eq!(task.rows(), Some(5));
}

#[test]
fn a_right_answer_that_stands_twice_may_be_given_by_either_letter() {
    let task = task(r#"{"question": "?", "choices": ["x", "y", "x"], "answer": 0}"#);
    let seed = TaskSeed([1; 32]);
    let right = ["A", "B", "C"].into_iter().filter(|letter| earns(&task, seed, letter)).count();
    assert_eq!(right, 2);
}

#[test]
fn what_cannot_be_asked_is_named() {
    let refused =
        |row: &str| ChoiceTask::new(ChoiceConfig::default(), row.as_bytes()).unwrap_err().to_string();
    for (row, named) in [
        (r#"{"choices": ["a", "b"], "answer": 0}"#, "question"),
        (r#"{"question": "?", "answer": 0}"#, "choices"),
        (r#"{"question": "?", "choices": ["a", "b"]}"#, "answerKey"),
        (r#"{"question": "?", "choices": ["a", "b"], "answer": 2}"#, "none of its 2 options"),
        (r#"{"question": "?", "choices": ["a", "b"], "answer": "C"}"#, "none of its 2 options"),
        (r#"{"question": "?", "choices": ["a"], "answer": 0}"#, "1 options"),
        (r#"{"question": "?", "choices": ["a", "a"], "answer": 0}"#, "the same"),
        (
            r#"{"question": "?", "choices": {"text": ["a", "b"], "label": ["A"]}, "answerKey": "A"}"#,
            "1 labels",
        ),
        (r#"{"question": "?", "choices": ["a", " "], "answer": 0}"#, "empty"),
    ] {
        assert!(refused(row).contains(named), "{row}: {}", refused(row));
    }
    let error = ChoiceTask::new(ChoiceConfig::default(), b"{}").unwrap_err();
    assert!(
        matches!(&error, SpecError::Data { reason: DataError::Rows(rows), .. } if rows.count() == 1),
        "{error}"
    );
    let percent = ChoiceTask::new(ChoiceConfig { held_out_percent: 51 }, ROWS.as_bytes()).unwrap_err();
    assert!(percent.to_string().contains("held_out_percent"));
}

#[test]
fn thinking_is_no_answer() {
    let task = task(ROWS);
    let (seed, row) = (TaskSeed([3; 32]), task.row(0).unwrap());
    let (right, row) = (row.solution(seed), row.as_ref());
    assert!(earns_in_a_run(row, seed, &format!("<think>answer: Z</think> {right}")));
    assert!(earns_in_a_run(row, seed, &format!("hm</think> {right}</think>")), "only the first ends it");
    assert!(!earns_in_a_run(row, seed, &format!("<think>{right}</think> answer: Z")));
    assert!(!earns_in_a_run(row, seed, &format!("<think>{right}")));
}

#[test]
fn a_cut_response_earns_nothing() {
    let task = task(ROWS);
    let (seed, row) = (TaskSeed([3; 32]), task.row(0).unwrap());
    let text = row.solution(seed);
    let cut = row.reward(seed, &Response { text: &text, finished: false }).unwrap();
    assert_eq!(cut, Verdict::wrong(Miss::Cut));
    assert_eq!(
        row.reward(seed, &Response { text: "none", finished: true }).unwrap(),
        Verdict::wrong(Miss::Malformed)
    );
}
