use super::*;
use crate::task::episode::{EpisodeStep, Play};

fn task(change: impl FnOnce(&mut EpisodeConfig)) -> Holdem {
    let mut config = EpisodeConfig::default();
    change(&mut config);
    Holdem::new(config).unwrap()
}

fn seeds() -> impl Iterator<Item = TaskSeed> {
    (0..40).map(|byte| TaskSeed([byte; 32]))
}

/// Plays with these answers, the suggestions where there is none: the verdict, what was said, what was heard.
fn played(task: &Holdem, seed: TaskSeed, answers: &[&str]) -> (Verdict, Vec<String>, Vec<String>) {
    let (mut said, mut heard) = (Vec::new(), Vec::new());
    let mut play = Play::new(task, seed);
    loop {
        let text = answers.get(said.len()).map_or_else(|| play.suggestion(), |text| (*text).to_owned());
        let step = play.turn(&Response { text: &text, finished: true }, usize::MAX).unwrap();
        said.push(text);
        match step {
            EpisodeStep::Heard(text) => heard.push(text),
            EpisodeStep::Over { verdict, finished } => {
                assert!(finished);
                return (verdict, said, heard);
            }
        }
    }
}

fn integer(verdict: &Verdict, key: &str) -> i64 {
    match verdict.metadata[key] {
        MetaValue::Integer(value) => value,
        ref other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn texts_keep_to_their_bounds() {
    let tables = [
        task(|_| ()),
        task(|config| config.terse = 0),
        task(|config| (config.players, config.hands, config.turns) = (10, 3, 64)),
        task(|config| (config.players, config.stack, config.big_blind, config.terse) = (6, 9_999, 100, 0)),
    ];
    let mut several = 0;
    for task in &tables {
        for seed in seeds() {
            let prompt = task.prompt(seed).text;
            assert!(prompt.len() <= task.longest_prompt(), "{prompt}");
            let (verdict, said, heard) = played(task, seed, &[]);
            assert_eq!(said[0], task.solution(seed));
            assert!(said.concat().len() <= task.longest_response(), "{said:?}");
            assert!(heard.concat().len() <= task.longest_heard(), "{heard:?}");
            assert!((0.0..=1.0).contains(&verdict.reward));
            assert_eq!(integer(&verdict, "faults"), 0, "suggestions are legal: {said:?}");
            several += usize::from(heard.len() > 1);
        }
    }
    assert!(several > 20, "{several} of 160 had three turns or more");
}

#[test]
fn terse_states_have_what_a_decision_needs_in_few_characters() {
    let task = task(|_| ());
    for seed in seeds() {
        let (_, _, heard) = played(&task, seed, &["call"; 2]);
        for text in heard.iter().chain([&task.prompt(seed).text]) {
            assert!(text.len() <= 45 && text.ends_with(':'), "{text}");
            let fields: Vec<&str> = text.trim_end_matches(':').split(' ').collect();
            assert!(fields[0].len() == 4 && fields[2].starts_with('p') && fields[5] == "v1", "{text}");
            assert!(text.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() || " -:".contains(c)));
        }
    }
}

#[test]
fn rewards_are_returns_within_their_range() {
    let task = task(|config| (config.stack, config.turns, config.penalty) = (40, 6, 2));
    // Every stack lost and every answer at fault; every stack won.
    let (least, most) = (-40.0 - 6.0 * 2.0, 40.0);
    let (mut won, mut lost) = (0, 0);
    for seed in seeds() {
        for answers in [&[][..], &["fold", "fold"], &["nonsense", "fold"], &["raise 40", "raise 40"]] {
            let (verdict, ..) = played(&task, seed, answers);
            let (chips, faults) = (integer(&verdict, "chips"), integer(&verdict, "faults"));
            let total = (chips - 2 * faults) as f64;
            assert!((f64::from(verdict.reward) - (total - least) / (most - least)).abs() < 1e-6);
            assert_eq!(verdict.correct, total > 0.0);
            won += usize::from(chips == 40);
            lost += usize::from(chips == -40);
        }
    }
    assert!(won > 0 && lost > 0, "all-ins are won and lost: {won} {lost}");
}

#[test]
fn a_cut_turn_ends_the_episode_and_costs() {
    for hands in [1, 4] {
        let task = task(|config| config.hands = hands);
        for seed in seeds() {
            let cut = Response { text: "cal", finished: false };
            let EpisodeStep::Over { verdict, finished } = Play::new(&task, seed).turn(&cut, 0).unwrap()
            else {
                panic!("went on behind a cut turn")
            };
            assert!(!finished && integer(&verdict, "faults") >= hands);
            // A budget that ends with the first turn leaves the others cut.
            let verdict = task.reward(seed, &Response { text: "call", finished: true }).unwrap();
            assert!((0.0..=1.0).contains(&verdict.reward));
        }
    }
}

#[test]
fn private_hands_are_told_and_shared_by_an_orders_samples() {
    let task = task(|_| ());
    let mut kinds = std::collections::BTreeSet::new();
    for seed in seeds() {
        let hand = |answers: &[&str]| played(&task, seed, answers).0.metadata["private_hand"].clone();
        assert_eq!(hand(&["fold"]), hand(&["call", "raise 50"]));
        let MetaValue::Text(kind) = hand(&[]) else { panic!("no text") };
        let prompt = task.prompt(seed).text.to_ascii_uppercase();
        assert!(kind.chars().take(2).all(|rank| prompt[..4].contains(rank)), "{kind} {prompt}");
        kinds.insert(kind);
    }
    assert!(kinds.len() > 20, "{kinds:?}");
}

#[test]
fn nobody_can_be_asked_who_is_a_language_model() {
    let config = EpisodeConfig { opponent: 4, ..EpisodeConfig::default() };
    let expected = SpecError::OutOfRange { task: NAME, param: "opponent", value: 4, low: 0, high: 3 };
    assert_eq!(Holdem::new(config).unwrap_err(), expected);
}
