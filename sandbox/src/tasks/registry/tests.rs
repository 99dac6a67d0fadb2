use proptest::prelude::*;

use echo_protocol::work::trajectory::MAX_TURNS;

use super::*;
use crate::task::episode::{EpisodeStep, Play};
use crate::task::{Response, TaskSeed};

fn spec(name: &str) -> TaskSpec {
    TaskSpec::new(name)
}

fn spec_with(name: &str, param: &str, value: i64) -> TaskSpec {
    TaskSpec::new(name).with(param, value)
}

fn build_alone(spec: &TaskSpec) -> Result<Box<dyn Task>, SpecError> {
    build(spec, &TaskFiles::none())
}

fn task(name: &str) -> Box<dyn Task> {
    build_alone(&spec(name)).unwrap()
}

fn earns(task: &dyn Task, seed: TaskSeed, text: &str) -> bool {
    let verdict = task.reward(seed, &Response { text, finished: true }).unwrap();
    assert_eq!(verdict.reward, if verdict.correct { 1.0 } else { 0.0 });
    verdict.correct
}

/// The tasks in which whoever plays well is always right, and earns all or nothing.
fn sure() -> impl Iterator<Item = &'static str> {
    procedural().filter(|name| *name != "holdem")
}

/// Plays an episode as its task suggests: whether it went well, what was said, and what was heard.
fn demonstrated(task: &dyn Task, seed: TaskSeed) -> (bool, String, String) {
    let (mut said, mut heard) = (String::new(), String::new());
    let mut play = Play::new(task, seed);
    loop {
        let text = play.suggestion();
        said.push_str(&text);
        match play.turn(&Response { text: &text, finished: true }, usize::MAX).unwrap() {
            EpisodeStep::Heard(text) => heard.push_str(&text),
            EpisodeStep::Over { verdict, finished } => {
                assert!(finished);
                assert_eq!(verdict.reward, if verdict.correct { 1.0 } else { 0.0 });
                return (verdict.correct, said, heard);
            }
        }
    }
}

#[test]
fn prompts_never_change() {
    // If one of these changes, the prompt derivation version (the context in the protocol's
    // `order`) must change: learner and volunteers derive prompts apart, and a response to
    // another prompt earns nothing.
    let golden = [
        (spec("chain_sum"), 0, "39+45=", "84"),
        (spec("chain_sum"), 42, "23+91=", "114"),
        (spec_with("chain_sum", "terms", 3), 1, "41+20+63=", "124"),
        (spec("number_sorting"), 0, "sort 3,9,2=", "2,3,9"),
        (spec("number_sorting"), 42, "sort 5,1,3=", "1,3,5"),
        (spec_with("number_sorting", "digits", 2), 1, "sort 41,20,63=", "20,41,63"),
        (spec("spell_backward"), 0, "reverse fbsjj=", "jjsbf"),
        (spec("spell_backward"), 42, "reverse piye=", "eyip"),
        (spec_with("spell_backward", "longest", 8), 0, "reverse fbsjjfky=", "ykfjjsbf"),
        (spec("countdown"), 0, "make 21 from 3,9,2=", "(9-2)*3"),
        (spec("countdown"), 42, "make 12 from 5,1,3=", "(5-1)*3"),
        (spec_with("countdown", "count", 4), 1, "make 10 from 5,2,9,9=", "5/(9/9)*2"),
    ];
    for (asked, byte, prompt, solution) in golden {
        let task = build_alone(&asked).unwrap();
        let seed = TaskSeed([byte; 32]);
        assert_eq!((task.prompt(seed).text.as_str(), task.solution(seed).as_str()), (prompt, solution));
    }
}

#[test]
fn names_are_sorted_and_are_those_of_their_tasks() {
    assert!(TASKS.iter().map(|(name, _)| name).is_sorted());
    assert!(procedural().all(|name| task(name).name() == name));
}

#[test]
fn seeds_give_different_prompts() {
    for name in procedural() {
        let task = task(name);
        let prompts: std::collections::BTreeSet<String> =
            (0..=u8::MAX).map(|byte| task.prompt(TaskSeed([byte; 32])).text).collect();
        assert!(prompts.len() > 150, "{name}: {} of 256", prompts.len());
    }
}

#[test]
fn refusals_list_what_exists() {
    let refused = build_alone(&spec("chain_sums")).unwrap_err().to_string();
    assert!(refused.contains("\"chain_sums\""), "{refused}");
    assert!(procedural().chain(from_files()).all(|name| refused.contains(name)), "{refused}");

    let refused = build_alone(&spec_with("chain_sum", "digit", 2)).unwrap_err().to_string();
    assert!(
        ["chain_sum", "`digit`", "`digits`", "`terms`"].iter().all(|word| refused.contains(word)),
        "{refused}"
    );

    let refused = build_alone(&spec_with("chain_sum", "digits", -1)).unwrap_err();
    let expected = SpecError::OutOfRange { task: "chain_sum", param: "digits", value: -1, low: 1, high: 9 };
    assert_eq!(refused, expected);
}

#[test]
fn files_are_asked_for_where_they_are_needed() {
    let mut files = TaskFiles::none();
    let id = files.add(b"{\"question\": \"1+1?\", \"answer\": \"2\"}".as_slice());
    let with = |name: &str| TaskSpec { data: Some(id), ..spec(name) };
    assert_eq!(build(&with("math"), &files).unwrap().name(), "math");
    let refused = |spec: &TaskSpec, files: &TaskFiles| build(spec, files).unwrap_err();
    assert_eq!(refused(&spec("math"), &files), SpecError::NeedsFile { task: "math" });
    assert_eq!(refused(&with("math"), &TaskFiles::none()), SpecError::MissingFile { task: "math", id });
    assert_eq!(refused(&with("chain_sum"), &files), SpecError::NoUseForFile { task: "chain_sum" });
}

#[test]
fn long_names_are_refused_without_quoting_them() {
    let long = "x".repeat(1_000_000);
    let expected = SpecError::LongName { bytes: long.len() };
    assert_eq!(build_alone(&spec(&long)).unwrap_err(), expected);
    for name in procedural() {
        assert_eq!(build_alone(&spec_with(name, &long, 1)).unwrap_err(), expected);
    }
}

/// Task, parameter and default, sorted, as `docs/reference/tasks.md` lists them. A row may
/// be about several tasks.
fn documented() -> Vec<(String, String, i64)> {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/tasks.md"));
    let table = page.lines().skip_while(|line| !line.starts_with("| task | parameter |")).skip(2);
    let mut rows = Vec::new();
    for line in table.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let words = |cell: &'static str| cell.split('`').skip(1).step_by(2).map(str::to_owned);
        for task in words(cells[1]) {
            rows.extend(words(cells[2]).map(|param| (task.clone(), param, cells[3].parse().unwrap())));
        }
    }
    rows.sort();
    rows
}

#[test]
fn the_reference_has_every_parameter_with_its_default() {
    // Written like `ChainSumConfig { digits: 2, terms: 2, steps: 0 }`.
    let configs = [
        (chain_sum::NAME, format!("{:?}", chain_sum::ChainSumConfig::default())),
        (choice::NAME, format!("{:?}", choice::ChoiceConfig::default())),
        (code::NAME, format!("{:?}", code::CodeConfig::default())),
        (countdown::NAME, format!("{:?}", countdown::CountdownConfig::default())),
        (guess_number::NAME, format!("{:?}", guess_number::GuessNumberConfig::default())),
        (holdem::NAME, format!("{:?}", holdem::episode::EpisodeConfig::default())),
        (problems::NAME, format!("{:?}", problems::MathConfig::default())),
        (number_sorting::NAME, format!("{:?}", number_sorting::NumberSortingConfig::default())),
        (spell_backward::NAME, format!("{:?}", spell_backward::SpellBackwardConfig::default())),
    ];
    let mut names: Vec<&str> = configs.iter().map(|(name, _)| *name).chain([wasm::NAME]).collect();
    names.sort_unstable();
    let mut known: Vec<&str> = TASKS.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(names, known, "which has no parameters, or is missing above");

    let mut of_code = Vec::new();
    for (name, config) in configs {
        let (_, fields) = config.split_once(" { ").unwrap();
        for field in fields.trim_end_matches(" }").split(", ") {
            let (param, default) = field.split_once(": ").unwrap();
            of_code.push((name.to_owned(), param.to_owned(), default.parse::<i64>().unwrap()));
        }
    }
    of_code.sort();
    assert_eq!(documented(), of_code);
}

proptest! {
    #[test]
    fn solutions_are_right_and_within_bounds(seed: [u8; 32]) {
        let seed = TaskSeed(seed);
        for name in sure() {
            let task = task(name);
            let prompt = task.prompt(seed).text;
            let (right, solution, heard) = demonstrated(&*task, seed);
            prop_assert!(right, "{} {}", prompt, solution);
            prop_assert!(solution.starts_with(&task.solution(seed)));
            prop_assert!(prompt.len() <= task.longest_prompt(), "{}", prompt);
            prop_assert!(solution.len() <= task.longest_response(), "{} {}", prompt, solution);
            prop_assert!(heard.len() <= task.longest_heard(), "{} {}", prompt, heard);
            prop_assert!((1..=MAX_TURNS as u32).contains(&task.max_turns()));
            let spelled = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() || " +-*/=(),:".contains(c);
            let mut spoken = prompt.chars().chain(solution.chars()).chain(heard.chars());
            prop_assert!(spoken.all(spelled), "{} {} {}", prompt, solution, heard);
        }
    }

    #[test]
    fn noise_never_panics_nor_earns(seed: [u8; 32], text in any::<String>(), finished: bool) {
        for name in procedural() {
            let verdict = task(name).reward(TaskSeed(seed), &Response { text: &text, finished }).unwrap();
            prop_assert!((0.0..=1.0).contains(&verdict.reward));
            prop_assert!(finished || !verdict.correct);
        }
    }

    #[test]
    fn where_one_text_is_right_its_neighbours_are_wrong(seed: [u8; 32], at: u8, other in "[0-9a-z, -]") {
        let seed = TaskSeed(seed);
        for name in ["chain_sum", "number_sorting", "spell_backward"] {
            let task = task(name);
            let solution = task.solution(seed);
            let at = usize::from(at) % solution.len();
            let mut inserted = solution.clone();
            inserted.insert_str(at, &other);
            prop_assert!(!earns(&*task, seed, &inserted), "{}", inserted);
            let mut replaced = solution.clone();
            replaced.replace_range(at..=at, &other);
            prop_assert_eq!(earns(&*task, seed, &replaced), replaced == solution, "{}", replaced);
            prop_assert!(!earns(&*task, seed, &solution[..at]), "{}", &solution[..at]);
        }
    }

    #[test]
    fn any_params_are_refused_or_work(
        seed: [u8; 32],
        params in proptest::collection::btree_map("count|digits|terms|shortest|longest|largest|target|numbers|turns", any::<i8>(), 0..3),
    ) {
        let seed = TaskSeed(seed);
        let params: BTreeMap<String, i64> = params.into_iter().map(|(name, value)| (name, value.into())).collect();
        for name in sure() {
            let asked = TaskSpec { params: params.clone(), ..spec(name) };
            if let Ok(task) = build_alone(&asked) {
                let (right, solution, heard) = demonstrated(&*task, seed);
                prop_assert!(right, "{} {}", task.prompt(seed).text, solution);
                prop_assert!(solution.len() <= task.longest_response());
                prop_assert!(heard.len() <= task.longest_heard());
                prop_assert!(task.prompt(seed).text.len() <= task.longest_prompt());
            }
        }
    }
}
