use super::*;
use crate::common::testing;
use crate::founding::export_policy;
use clap::Parser;
use std::fs;

const ROWS: &str = r#"{"question": "1+1?", "answer": "2"}
{"question": "Which?", "answer": "notfound"}

{"question": "1+2?", "answer": "3"}
{"question": "2+2?", "answer": "4"}
"#;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: TaskCommand,
}

fn line(home: &Path, words: &str) -> TaskCommand {
    let at = |word: &str| word.replace("HOME", &home.display().to_string());
    let words = ["task", "try"].map(str::to_owned).into_iter().chain(words.split(' ').map(at));
    Line::try_parse_from(words).unwrap().command
}

fn report(home: &Path, words: &str) -> anyhow::Result<TaskReport> {
    let TaskCommand::Try(plan) = line(home, words);
    let mut reports = tried(&plan)?;
    assert_eq!(reports.len(), 1);
    Ok(reports.remove(0))
}

/// A directory with `rows.jsonl`.
fn home(rows: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("rows.jsonl"), rows).unwrap();
    home
}

const MATH: &str = "--task math --data HOME/rows.jsonl";

#[test]
fn rows_are_counted_and_shown_by_their_numbers_in_the_file() {
    let home = home(ROWS);
    let found = report(home.path(), MATH).unwrap();
    assert_eq!((found.rows, found.train, found.held_out), (Some(3), Some(3), Some(0)));
    assert_eq!((found.left_out.count, found.left_out.rows[0].row), (1, 2));
    let prompts: Vec<_> = found.prompts.iter().map(|prompt| (prompt.row, prompt.text.as_str())).collect();
    assert_eq!(prompts, [(1, "1+1?\n"), (4, "1+2?\n"), (5, "2+2?\n")]);
    assert_eq!(found.prompts[1].reference.as_deref(), Some("3"));
    assert_eq!(found.problems(), 0);
    let text = found.text();
    for part in ["3 rows, all 3 to train on", "left out: row 2", "prompt 4\n    1+2?\n", "nothing is wrong"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(report(home.path(), &format!("{MATH} --row 4 --rows 1")).unwrap().prompts.len(), 1);
    let refused = |row: u32| report(home.path(), &format!("{MATH} --row {row}")).unwrap_err().to_string();
    assert!(refused(2).contains("notfound"), "{}", refused(2));
    assert!(refused(9).contains("the last is 5"), "{}", refused(9));
}

#[test]
fn all_wrong_rows_are_named_and_the_others_are_shown() {
    let wrong = "{\"question\": \"?\"}\n";
    let home = home(&format!("{}{ROWS}", wrong.repeat(7)));
    let found = report(home.path(), MATH).unwrap();
    let rows: Vec<usize> = found.wrong.rows.iter().map(|named| named.row).collect();
    assert_eq!(rows, (1..=7).collect::<Vec<_>>());
    assert_eq!((found.problems(), found.prompts[0].row, found.rows), (7, 8, Some(3)));
    assert!(
        found.text().contains("problem: row 7: ") && found.text().contains("7 problems"),
        "{}",
        found.text()
    );
    let refused = run(&line(home.path(), &format!("{MATH} --json"))).unwrap_err();
    assert_eq!(refused.downcast_ref::<Unsound>(), Some(&Unsound(7)));
    // More than are kept by their numbers are counted.
    fs::write(home.path().join("rows.jsonl"), wrong.repeat(1_200)).unwrap();
    let many = report(home.path(), MATH).unwrap();
    assert_eq!((many.problems(), many.wrong.rows.len(), many.prompts.len()), (1_200, 1_000, 0));
    assert!(many.text().contains("and 200 more rows"), "{}", many.text());
}

#[test]
fn a_response_is_judged_as_a_node_does() {
    let home = home(ROWS);
    let judged = |text: &str, more: &str| {
        fs::write(home.path().join("said.txt"), text).unwrap();
        let words = format!("{MATH} --rows 0 --row 4 --response HOME/said.txt{more}");
        let mut found = report(home.path(), &words).unwrap();
        assert_eq!(found.responses.len(), 1);
        (found.responses.remove(0), found.problems(), found.text())
    };
    let (right, problems, _) = judged("<think>It is \\boxed{7}.</think>So it is \\boxed{3}.\n", "");
    assert_eq!((right.correct, right.reward, problems), (Some(true), Some(1.0), 0));
    assert_eq!(right.judged.as_deref(), Some("So it is \\boxed{3}."));
    assert_eq!((right.read.as_deref(), right.reference.as_deref()), (Some("3"), Some("3")));
    let (wrong, problems, _) = judged("It is 7.", "");
    assert_eq!((wrong.correct, wrong.reward, problems), (Some(false), Some(0.0), 0));
    assert!(wrong.in_short().contains("not the right one; read \"7\"; the reference is \"3\""), "{wrong:?}");
    let (thinking, _, _) = judged("<think>It is 3.", "");
    assert_eq!((thinking.judged, thinking.correct), (None, Some(false)));
    assert!(thinking.reason.contains("thinking does not end"), "{}", thinking.reason);

    // A run file's tags hold, whatever its own task and model are.
    let mut config = testing::run_config("run".into());
    config.prompt.answer_tags = true;
    fs::write(home.path().join("run.toml"), toml::to_string(&config).unwrap()).unwrap();
    let (bare, _, _) = judged("It is 3.", " --config HOME/run.toml");
    assert_eq!(bare.correct, Some(false));
    let (tagged, _, _) = judged("<answer>3</answer>", " --config HOME/run.toml");
    assert_eq!((tagged.correct, tagged.judged.as_deref()), (Some(true), Some("3")));
}

#[test]
fn solutions_are_tried_in_the_form_that_the_run_asks_for() {
    let home = home(
        "{\"problem\": \"1+1?\", \"solution\": \"It is \\\\boxed{3}.\", \"answer\": \"2\"}\n{\"question\": \"1+2?\", \"answer\": \"#### 3\"}\n",
    );
    let found = report(home.path(), &format!("{MATH} --solutions")).unwrap();
    let solutions = found.solutions.as_ref().unwrap();
    assert_eq!((solutions.tried, solutions.wrong.count, solutions.wrong.rows[0].row), (2, 1, 1));
    assert!(solutions.wrong.rows[0].reason.contains("read \"3\""), "{solutions:?}");
    assert_eq!(found.problems(), 1);
    let sums = report(home.path(), "--task chain_sum --param digits=1 --solutions").unwrap();
    let solutions = sums.solutions.as_ref().unwrap();
    assert_eq!((solutions.tried, solutions.wrong.count, sums.rows), (TRIED_PROMPTS, 0, None));
    assert!(sums.text().contains("makes its prompts up"), "{}", sums.text());
}

#[test]
fn a_model_is_shown_its_prompts_and_answers_one() {
    let home = home("{\"question\": \"1+1?\", \"answer\": \"2\"}\n");
    let (workload, weights) = testing::problems(ROWS);
    export_policy(&home.path().join("model"), &workload, &weights, None).unwrap();
    let with = format!("{MATH} --model HOME/model --device cpu --max-new-tokens 4");
    let found = report(home.path(), &with).unwrap();
    assert!(found.prompts[0].tokens.is_some_and(|tokens| tokens >= 5), "{:?}", found.prompts);
    assert_eq!(found.responses.len(), 2);
    for response in &found.responses {
        assert!(response.tokens.is_some_and(|tokens| (1..=4).contains(&tokens)), "{response:?}");
        assert_eq!((response.said.len(), response.reference.as_deref()), (1, Some("2")));
        assert_eq!(response.correct, response.reward.map(|reward| reward == 1.0));
    }
    assert!(found.text().contains("response to 1 · "), "{}", found.text());
    // Prompts alone are the same, and need no weights.
    fs::remove_file(home.path().join("model/model.safetensors")).unwrap();
    let prompts = report(home.path(), &format!("{with} --samples 0")).unwrap();
    assert_eq!((prompts.prompts, prompts.responses.len()), (found.prompts, 0));
}

#[test]
fn an_episode_of_several_turns_says_what_is_heard() {
    let home = home(ROWS);
    let guess = "--task guess_number --param numbers=3 --param turns=2 --param largest=20";
    let said = home.path().join("said.txt");
    let mut heard = 0;
    for number in 1..=20 {
        fs::write(&said, number.to_string()).unwrap();
        let found = report(home.path(), &format!("{guess} --rows 0 --response HOME/said.txt")).unwrap();
        let response = &found.responses[0];
        assert_eq!(response.correct.is_none(), response.reason.contains("the policy hears"), "{response:?}");
        heard += usize::from(response.correct.is_none());
    }
    assert!(heard > 0, "three numbers are there, and one is right");
}

#[test]
fn what_cannot_be_tried_is_named() {
    let home = home(ROWS);
    let refused = |words: &str| format!("{:#}", report(home.path(), words).unwrap_err());
    assert!(refused("--rows 1").contains("which task?"));
    assert!(refused("--task math --set run.seed=1").contains("none is given"));
    assert!(refused(&format!("{MATH} --response HOME/none.txt")).contains("none.txt"));
    assert!(refused(&format!("{MATH} --model HOME/qwen3")).contains("there is no directory"));
    let problem = |words: &str| {
        let found = report(home.path(), words).unwrap();
        assert!(found.problems() > 0 && found.text().contains("cannot be asked"), "{}", found.text());
        found.problems.join("\n")
    };
    assert!(problem("--task maths").contains("no task named"));
    assert!(problem("--task math").contains("is made of a file"));
    assert!(problem("--task math --data HOME/none.jsonl").contains("none.jsonl"));
    assert!(problem("--task chain_sum --param digits=99").contains("1..=9"));
}

/// Rows of `examples/`, by their task.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

fn tried_example(task: &str, name: &str) {
    let file = example(name);
    let rows = fs::read_to_string(&file).unwrap().lines().count();
    let words = format!("--task {task} --data HOME --rows 100 --solutions");
    let found = report(&file, &words).unwrap();
    assert_eq!((found.problems(), found.left_out.count, found.rows), (0, 0, Some(rows)), "{}", found.text());
    let solutions = found.solutions.as_ref().unwrap();
    assert_eq!((solutions.tried, found.prompts.len()), (rows, rows));
    assert!(found.prompts.iter().all(|prompt| prompt.reference.is_some()), "{}", found.text());
}

#[test]
fn the_problems_of_the_examples_load_and_their_solutions_pass() {
    tried_example("math", "own-problems.jsonl");
    let TaskCommand::Try(plan) = line(&example("own-problems.toml"), "HOME --solutions");
    let reports = tried(&plan).unwrap();
    assert_eq!(reports.iter().map(TaskReport::problems).collect::<Vec<_>>(), [0]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_programs_of_the_examples_load_and_their_solutions_pass() {
    tried_example("code", "own-programs.jsonl");
}

#[cfg(target_os = "linux")]
#[test]
fn programs_are_tried_with_words_for_their_author() {
    let home = home(
        r#"{"prompt": "Print 1.", "tests": [{"input": "", "output": "1"}], "solution": "print(2)"}
{"prompt": "Print 2.", "tests": [{"input": "", "output": "2"}], "solution": "print(2)"}
"#,
    );
    fs::write(home.path().join("said.txt"), "It is\n```python\nprint(1 + 1)\n```\n").unwrap();
    let words = "--task code --data HOME/rows.jsonl --row 2 --solutions --response HOME/said.txt";
    let found = report(home.path(), words).unwrap();
    let solutions = found.solutions.as_ref().unwrap();
    assert_eq!((solutions.tried, solutions.wrong.count, solutions.wrong.rows[0].row), (2, 1, 1));
    let response = &found.responses[0];
    assert_eq!((response.correct, response.read.as_deref()), (Some(true), Some("print(1 + 1)\n")));
    assert!(response.reason.contains("verdict AC"), "{}", response.reason);
}

#[test]
fn a_module_is_tried_by_its_file_alone() {
    let home = tempfile::tempdir().unwrap();
    let text = include_str!("../../../../sandbox/verifiers/letter_counting.wat");
    fs::write(home.path().join("task.wasm"), wat::parse_str(text).unwrap()).unwrap();
    fs::write(home.path().join("task.wat"), text).unwrap();
    let found = report(home.path(), "--task wasm --data HOME/task.wasm --solutions").unwrap();
    assert_eq!((found.problems(), found.prompts.len(), found.rows), (0, 3, None));
    assert!(found.prompts[0].text.starts_with("count "), "{:?}", found.prompts);
    assert_eq!(found.solutions.as_ref().unwrap().tried, TRIED_PROMPTS);
    let text = report(home.path(), "--task wasm --data HOME/task.wat").unwrap();
    assert!(text.problems[0].contains("wat2wasm"), "{:?}", text.problems);
    let other = format!("--task wasm:{} --data HOME/task.wasm", "0".repeat(64));
    assert!(report(home.path(), &other).unwrap().problems[0].contains("the task's name another"));
}
