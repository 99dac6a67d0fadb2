//! Files that tasks are made of, from whoever founds a run: whatever is a data set asks within its
//! limits and pays its own solutions.
#![no_main]

use echo_protocol::run::charter::TaskSpec;
use echo_sandbox::programs::functions::{HumanEval, Mbpp};
use echo_sandbox::task::data_set;
use echo_sandbox::task::data_set::MAX_ROWS;
use echo_sandbox::task::files::{MAX_TASK_FILE_BYTES, TaskFiles};
use echo_sandbox::task::{Response, Task, TaskSeed};
use echo_sandbox::tasks::registry;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Seeds that are tried.
const SEEDS: u8 = 4;

// The first byte is the share of rows that is held out; what follows is the file.
fuzz_target!(|input: &[u8]| {
    let Some((percent, file)) = input.split_first() else { return };
    let rows = data_set::read(file, |_, row: Value| Ok(row)).map(|read| read.rows).unwrap_or_default();
    assert!(rows.len() <= MAX_ROWS && rows.len() <= file.len());
    for row in rows {
        let functions = [
            serde_json::from_value::<HumanEval>(row.clone()).ok().map(|row| row.task()),
            serde_json::from_value::<Mbpp>(row).ok().map(|row| row.task()),
        ];
        for task in functions.into_iter().flatten() {
            assert!(task.checks.iter().map(String::len).sum::<usize>() <= 2 * file.len() + 64);
        }
    }

    if let Ok(lines) = data_set::as_lines(file.to_vec()) {
        assert!(lines.len() as u64 <= MAX_TASK_FILE_BYTES.max(file.len() as u64));
    }
    let mut files = TaskFiles::none();
    let id = files.add(file);
    let spec =
        TaskSpec { data: Some(id), ..TaskSpec::new("math").with("held_out_percent", i64::from(*percent)) };
    let Ok(task) = registry::build(&spec, &files) else { return };
    assert!(*percent <= 50);
    let alphabet = task.alphabet();
    for task in [Some(&*task), task.held_out()].into_iter().flatten() {
        for seed in 0..SEEDS {
            let seed = TaskSeed([seed; 32]);
            let (prompt, solution) = (task.prompt(seed).text, task.solution(seed));
            assert!(prompt.len() <= task.longest_prompt() && solution.len() <= task.longest_response());
            assert!(prompt.chars().chain(solution.chars()).all(|character| alphabet.contains(&character)));
            judged(task, seed, &solution);
        }
    }
});

fn judged(task: &dyn Task, seed: TaskSeed, text: &str) {
    let verdict = task.reward(seed, &Response { text, finished: true }).expect("math judges all");
    assert!(verdict.reward == 0.0 || verdict.reward == 1.0);
    let cut = task.reward(seed, &Response { text, finished: false }).expect("math judges all");
    assert_eq!(cut.reward, 0.0);
}
