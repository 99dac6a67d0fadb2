//! The solutions of all rows, tried as responses.

use super::judged::of_text;
use super::rows::{Named, TriedTask};
use echo_sandbox::task::data_set::{DataError, NamedRows};
use echo_sandbox::task::spec::SpecError;
use echo_sandbox::task::{JudgedPart, Task};
use echo_sandbox::tasks::wasm;
use serde::Serialize;

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Solutions {
    /// Rows, or prompts, whose solution was tried.
    pub(super) tried: usize,
    /// Those whose solution is not right.
    pub(super) wrong: Named,
    /// What is wrong with the task as a whole.
    pub(super) problems: Vec<String>,
}

/// Tries them all. May take minutes where programs are run.
pub(super) fn try_all(tried: &TriedTask, judged: JudgedPart) -> Solutions {
    let Some(task) = tried.task() else { return Solutions::default() };
    if task.runs_programs() || task.name() == wasm::NAME {
        return by_the_task(tried, task);
    }
    // A task of several turns has no response that is right by itself.
    if !task.knows_solutions() || task.max_turns() > 1 {
        return Solutions::default();
    }
    let (mut count, mut wrong) = (0, NamedRows::default());
    for index in 0..tried.count() {
        let Some(assignment) = tried.assignment(index) else { continue };
        let assignment = assignment.judging(judged);
        count += 1;
        let row = tried.number(index);
        match of_text(row, &assignment, &assignment.solution()) {
            Ok(found) if found.correct == Some(true) => {}
            Ok(found) => wrong.push(row, &format!("its own solution is not right: {}", found.in_short())),
            Err(error) => wrong.push(row, &error.to_string()),
        }
    }
    Solutions { tried: count, wrong: Named::from(&wrong), problems: Vec::new() }
}

/// Programs and modules are tried by their task, on all processors, and with words for their author.
fn by_the_task(tried: &TriedTask, task: &dyn Task) -> Solutions {
    let shows_one = |index: &usize| tried.assignment(*index).is_some_and(|row| !row.solution().is_empty());
    let count = (0..tried.count()).filter(shows_one).count();
    let (wrong, problems) = match task.try_solutions() {
        Ok(()) => (Named::default(), Vec::new()),
        Err(SpecError::Data { reason: DataError::Rows(rows), .. }) => (Named::from(&rows), Vec::new()),
        Err(other) => (Named::default(), vec![other.to_string()]),
    };
    Solutions { tried: count, wrong, problems }
}
