//! What an evaluation asks: every row of a task's file once, in the order of the file, or as many
//! prompts as are wanted of a task that makes them up.
//!
//! Everything random about a row follows from the evaluation's seed and the row's number alone. So
//! rows can be asked in any order, by any process, and come to the same.

use echo_protocol::run::charter::TaskSpec;
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::spec::SpecError;
use echo_sandbox::task::{Task, TaskSeed};
use echo_sandbox::tasks::registry;

/// Context of the seeds. Raise its number whenever they would change.
const DERIVATION: &str = "echo evaluation 1";

/// Why there is nothing to ask.
#[derive(Debug, thiserror::Error)]
pub enum QuestionsError {
    /// The task cannot be built.
    #[error(transparent)]
    Task(#[from] SpecError),
    /// A module that is not the one that the task's name has the address of.
    #[error(
        "task {name}: the file given for it has the address wasm:{found}: write wasm alone, or name the file that was meant"
    )]
    OtherModule {
        /// What the task is called.
        name: String,
        /// The address of the file that was given.
        found: ContentId,
    },
    /// A task that makes its prompts up has no end.
    #[error("task {0} makes its prompts up: say how many with a limit")]
    NoLimit(&'static str),
}

/// The questions of an evaluation.
#[derive(Debug)]
pub struct Questions {
    task: Box<dyn Task>,
    /// The task over each row alone; empty where there are no rows.
    alone: Vec<Box<dyn Task>>,
    count: usize,
    seed: u64,
}

impl Questions {
    /// The first `limit` rows of a task's file, or all of them. No row is held out.
    ///
    /// # Errors
    /// When the task cannot be built, or has neither rows nor a limit.
    pub fn new(
        spec: &TaskSpec,
        files: &TaskFiles,
        seed: u64,
        limit: Option<usize>,
    ) -> Result<Self, QuestionsError> {
        let task = registry::build(&all_rows(spec, files)?, files)?;
        let count = match (task.rows(), limit) {
            (Some(rows), limit) => limit.map_or(rows, |limit| limit.min(rows)),
            (None, Some(limit)) => limit,
            (None, None) => return Err(QuestionsError::NoLimit(task.name())),
        };
        let alone = (0..count).map_while(|row| task.row(row)).collect();
        Ok(Self { task, alone, count, seed })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The task that they are of.
    #[must_use]
    pub fn task(&self) -> &dyn Task {
        &*self.task
    }

    /// What a row asks.
    #[must_use]
    pub fn assignment(&self, row: usize) -> Assignment<'_> {
        let task = self.alone.get(row).unwrap_or(&self.task);
        Assignment::new(&**task, TaskSeed(self.part(row, 0)))
    }

    /// Decides the draws of all samples of a row.
    #[must_use]
    pub fn sampler_seed(&self, row: usize) -> [u8; 32] {
        self.part(row, 1)
    }

    /// The name of a row's content: BLAKE3 of its prompt, a zero byte and its right answer.
    #[must_use]
    pub fn content(&self, row: usize) -> ContentId {
        let assignment = self.assignment(row);
        ContentId::of(format!("{}\0{}", assignment.prompt().text, assignment.solution()).as_bytes())
    }

    fn part(&self, row: usize, which: u8) -> [u8; 32] {
        let mut input = [which; 17];
        input[..8].copy_from_slice(&self.seed.to_le_bytes());
        input[8..16].copy_from_slice(&(row as u64).to_le_bytes());
        blake3::derive_key(DERIVATION, &input)
    }
}

/// The task with no row held out: an evaluation asks them all.
fn all_rows(spec: &TaskSpec, files: &TaskFiles) -> Result<TaskSpec, SpecError> {
    let holds_out = registry::build(spec, files)?.held_out_rows().is_some();
    Ok(if holds_out { spec.clone().with("held_out_percent", 0) } else { spec.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of_rows(rows: usize, limit: Option<usize>) -> Questions {
        let mut files = TaskFiles::none();
        let text: String = (0..rows)
            .map(|row| format!("{{\"question\": \"{row}+1?\", \"answer\": \"{}\"}}\n", row + 1))
            .collect();
        let data = Some(files.add(text.as_bytes()));
        Questions::new(&TaskSpec { data, ..TaskSpec::new("math") }, &files, 5, limit).unwrap()
    }

    #[test]
    fn every_row_is_asked_once_in_the_order_of_the_file_and_none_is_held_out() {
        let questions = of_rows(40, None);
        assert_eq!(questions.count(), 40);
        for row in 0..40 {
            assert_eq!(questions.assignment(row).prompt().text, format!("{row}+1?\n"));
        }
        let contents: BTreeSet<ContentId> = (0..40).map(|row| questions.content(row)).collect();
        let seeds: BTreeSet<[u8; 32]> = (0..40).map(|row| questions.sampler_seed(row)).collect();
        assert_eq!((contents.len(), seeds.len()), (40, 40));
        let fewer = of_rows(40, Some(3));
        assert_eq!((fewer.count(), of_rows(40, Some(99)).count()), (3, 40));
        assert_eq!(fewer.sampler_seed(2), questions.sampler_seed(2), "the limit changes no row");
    }

    #[test]
    fn a_task_that_makes_its_prompts_up_needs_a_limit() {
        let spec = TaskSpec::new("chain_sum");
        let refused = Questions::new(&spec, &TaskFiles::none(), 0, None).unwrap_err();
        assert!(refused.to_string().contains("limit"), "{refused}");
        let questions = Questions::new(&spec, &TaskFiles::none(), 0, Some(20)).unwrap();
        let prompts: BTreeSet<String> = (0..20).map(|row| questions.assignment(row).prompt().text).collect();
        assert!(questions.count() == 20 && prompts.len() > 15, "{prompts:?}");
    }
}
