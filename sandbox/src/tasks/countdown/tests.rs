use proptest::prelude::*;

use super::*;

fn default_task() -> Countdown {
    Countdown::new(CountdownConfig::default()).unwrap()
}

/// The first seed whose puzzle is the wanted one.
fn seed_of(task: &Countdown, wanted: impl Fn(&Puzzle) -> bool) -> TaskSeed {
    (0..200_000_u32)
        .map(|i| {
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&i.to_le_bytes());
            TaskSeed(seed)
        })
        .find(|&seed| wanted(&task.puzzle(seed)))
        .unwrap()
}

fn miss(task: &Countdown, seed: TaskSeed, text: &str) -> Option<MetaValue> {
    let verdict = task.reward(seed, &Response { text, finished: true }).unwrap();
    assert_eq!(verdict.correct, verdict.reward == 1.0);
    assert_eq!(verdict.correct, !verdict.metadata.contains_key("miss"));
    verdict.metadata.get("miss").cloned()
}

fn code(miss: Miss) -> Option<MetaValue> {
    Some(MetaValue::Text(miss.code().to_owned()))
}

#[test]
fn any_right_expression_is_right() {
    let task = default_task();
    let seed = seed_of(&task, |puzzle| {
        let mut numbers = puzzle.numbers.clone();
        numbers.sort_unstable();
        numbers == [1, 3, 8] && puzzle.target == 24
    });
    for right in ["3*8", "8*3*1", "3*8/1", "(3/1)*8", "8/(1/3)", " 8 * 3 ", "3*8\n"] {
        assert_eq!(miss(&task, seed, right), None, "{right}");
    }
    for wrong in ["3+8", "8*3+1", "8", "1/(3-3)"] {
        assert!(miss(&task, seed, wrong).is_some(), "{wrong}");
    }
    assert_eq!(miss(&task, seed, "3*8+1"), code(Miss::WrongAnswer));
    assert_eq!(miss(&task, seed, "24"), code(Miss::NotGiven), "the target itself was not given");
    assert_eq!(miss(&task, seed, "3*8*1*1"), code(Miss::NotGiven), "each number at most once");
    assert_eq!(miss(&task, seed, "3*8=24"), code(Miss::Malformed));
    assert_eq!(miss(&task, seed, "3*8 right?"), code(Miss::Malformed));
    assert_eq!(miss(&task, seed, ""), code(Miss::Malformed));
}

#[test]
fn a_number_given_twice_may_be_used_twice() {
    let task = default_task();
    let seed = seed_of(&task, |puzzle| puzzle.numbers == [4, 4, 2] && puzzle.target == 16);
    assert_eq!(miss(&task, seed, "4*4"), None);
    assert_eq!(miss(&task, seed, "4*2*2"), code(Miss::NotGiven));
}

#[test]
fn a_cut_response_has_no_reward() {
    let task = default_task();
    let seed = TaskSeed([8; 32]);
    let text = task.solution(seed);
    let verdict = task.reward(seed, &Response { text: &text, finished: false }).unwrap();
    assert_eq!(verdict, Verdict::wrong(Miss::Cut));
}

#[test]
fn puzzles_use_all_operators_and_respect_the_largest_target() {
    let task = Countdown::new(CountdownConfig { count: 4, largest: 20, target: 60 }).unwrap();
    let mut signs = std::collections::BTreeSet::new();
    for i in 0..=u8::MAX {
        let puzzle = task.puzzle(TaskSeed([i; 32]));
        assert!((1..=60).contains(&puzzle.target));
        assert!(puzzle.numbers.iter().all(|number| (1..=20).contains(number)));
        signs.extend(puzzle.solution.chars().filter(|sign| !sign.is_ascii_digit()));
    }
    assert_eq!(signs.into_iter().collect::<String>(), "()*+-/");
}

#[test]
fn a_target_below_the_largest_number_is_refused() {
    let refused = Countdown::new(CountdownConfig { count: 3, largest: 50, target: 49 }).unwrap_err();
    let expected =
        SpecError::OutOfRange { task: NAME, param: "target", value: 49, low: 50, high: MAX_TARGET };
    assert_eq!(refused, expected);
}

proptest! {
    #[test]
    fn every_puzzle_is_solved_by_its_solution(
        seed: [u8; 32],
        count in 2..=MAX_COUNT,
        largest in 1..=MAX_NUMBER,
        room in 0..=MAX_TARGET - MAX_NUMBER,
    ) {
        let task = Countdown::new(CountdownConfig { count, largest, target: largest + room }).unwrap();
        let seed = TaskSeed(seed);
        let solution = task.solution(seed);
        prop_assert_eq!(miss(&task, seed, &solution), None);
        prop_assert!(solution.len() <= task.longest_response());
        prop_assert!(task.prompt(seed).text.len() <= task.longest_prompt());
    }
}
