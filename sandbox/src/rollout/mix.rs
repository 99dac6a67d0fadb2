//! The weighted mix of a run's tasks.

use std::collections::BTreeSet;

use echo_protocol::run::charter::{MAX_TASKS, TaskSpec};
use echo_protocol::wire::rng::Draws;
use echo_protocol::work::order::Purpose;

use crate::task::files::TaskFiles;
use crate::task::spec::SpecError;
use crate::task::{JudgedPart, Task};
use crate::tasks::registry;

/// A run's tasks, chosen in proportion to their weights.
#[derive(Debug)]
pub struct TaskMix {
    tasks: Vec<Box<dyn Task>>,
    /// `ends[i]` is the sum of the weights of tasks `0..=i`: task `i` owns the draws from
    /// `ends[i - 1]` to before it.
    ends: Vec<u64>,
    judged: JudgedPart,
}

impl TaskMix {
    /// Builds every task of `specs`, of `files` where it is made of one. The order is
    /// part of the run, since choices are indices into it; the same task may occur
    /// several times with different parameters.
    ///
    /// # Errors
    /// When there is no task, more than [`MAX_TASKS`], one without weight, or one that cannot be built.
    pub fn new(specs: &[TaskSpec], files: &TaskFiles) -> Result<Self, SpecError> {
        Self::check(specs)?;
        let tasks = specs.iter().map(|spec| registry::build(spec, files)).collect::<Result<_, _>>()?;
        let mut end = 0;
        let ends = specs.iter().map(|spec| {
            end += u64::from(spec.weight);
            end
        });
        Ok(Self { tasks, ends: ends.collect(), judged: JudgedPart::default() })
    }

    /// The same, where only this part of each response is judged.
    #[must_use]
    pub fn judging(self, judged: JudgedPart) -> Self {
        Self { judged, ..self }
    }

    /// Which part of each response is judged.
    pub fn judged_part(&self) -> JudgedPart {
        self.judged
    }

    /// Checks what can be checked of a mix before its files are there.
    ///
    /// # Errors
    /// As for [`TaskMix::new`], save what only building finds.
    pub fn check(specs: &[TaskSpec]) -> Result<(), SpecError> {
        if specs.is_empty() {
            return Err(SpecError::EmptyMix);
        }
        if specs.len() > MAX_TASKS {
            return Err(SpecError::TooManyTasks { tasks: specs.len(), limit: MAX_TASKS });
        }
        for spec in specs {
            registry::check(spec)?;
            if spec.weight == 0 {
                return Err(SpecError::NoWeight { name: spec.name.clone() });
            }
        }
        Ok(())
    }

    /// Chooses a task's index with the next draw.
    pub fn choose(&self, draws: &mut Draws) -> usize {
        let total = self.ends.last().copied().unwrap_or_default();
        let draw = draws.below(total);
        self.ends.partition_point(|&end| end <= draw)
    }

    /// The task at `index`, as orders of this purpose see it; `None` past the end.
    pub fn get(&self, index: usize, purpose: Purpose) -> Option<&dyn Task> {
        let task = self.tasks.get(index)?.as_ref();
        match purpose {
            Purpose::HeldOut => Some(task.held_out().unwrap_or(task)),
            Purpose::Train | Purpose::WarmUp => Some(task),
        }
    }

    /// All tasks, in the order of their indices.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &dyn Task> {
        self.tasks.iter().map(Box::as_ref)
    }

    /// The characters that tasks made of files write, beyond those of procedural ones.
    pub fn alphabet(&self) -> BTreeSet<char> {
        self.tasks().flat_map(Task::alphabet).collect()
    }

    /// The most bytes that any task gives to read, and the task's name: its prompt with `opening` more
    /// around it, and what is heard after it, with `around` more for each turn but the first.
    pub fn longest_read(&self, opening: usize, around: usize) -> (usize, &'static str) {
        let frames = |task: &dyn Task| {
            opening.saturating_add(around.saturating_mul(task.max_turns().saturating_sub(1) as usize))
        };
        let read = |task: &dyn Task| task.longest_prompt() + task.longest_heard() + frames(task);
        self.tasks().map(|task| (read(task), task.name())).max().unwrap_or_default()
    }

    /// The most tokens that any task's answer needs, end tokens included: one token a character is
    /// the most of any tokenizer.
    pub fn longest_answer(&self) -> usize {
        let each_turn = 1 + self.judged.frame_bytes();
        let longest = |task: &dyn Task| task.longest_response() + each_turn * task.max_turns() as usize;
        self.tasks().map(longest).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(name: &str, weight: u32) -> TaskSpec {
        TaskSpec { weight, ..TaskSpec::new(name) }
    }

    #[test]
    fn choices_follow_the_weights() {
        let specs = [weighted("chain_sum", 1), weighted("countdown", 6), weighted("chain_sum", 3)];
        let mix = TaskMix::new(&specs, &TaskFiles::none()).unwrap();
        let mut draws = Draws::new([5; 32]);
        let mut chosen = [0; 3];
        for _ in 0..10_000 {
            chosen[mix.choose(&mut draws)] += 1;
        }
        for (count, expected) in chosen.into_iter().zip([1_000_i32, 6_000, 3_000]) {
            assert!((count - expected).abs() < 200, "{chosen:?}");
        }
    }

    #[test]
    fn choices_never_change() {
        let mix =
            TaskMix::new(&[weighted("chain_sum", 1), weighted("countdown", 2)], &TaskFiles::none()).unwrap();
        let mut draws = Draws::new([9; 32]);
        let chosen: Vec<usize> = (0..12).map(|_| mix.choose(&mut draws)).collect();
        // If this changes, the prompt derivation version must change.
        assert_eq!(chosen, [1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn the_largest_weights_do_not_overflow() {
        let mix =
            TaskMix::new(&vec![weighted("chain_sum", u32::MAX); MAX_TASKS], &TaskFiles::none()).unwrap();
        let mut draws = Draws::new([2; 32]);
        assert!((0..1_000).all(|_| mix.get(mix.choose(&mut draws), Purpose::Train).is_some()));
        assert!(mix.get(MAX_TASKS, Purpose::Train).is_none());
    }

    #[test]
    fn budgets_cover_every_task() {
        let mix =
            TaskMix::new(&[weighted("chain_sum", 1), weighted("number_sorting", 1)], &TaskFiles::none())
                .unwrap();
        assert_eq!(mix.longest_read(0, 0), ("sort 1,2,3=".len(), "number_sorting"));
        assert_eq!(mix.longest_answer(), "1,2,3".len() + 1);
        assert_eq!(mix.tasks().map(|task| task.name()).collect::<Vec<_>>(), ["chain_sum", "number_sorting"]);
    }

    #[test]
    fn budgets_cover_every_turn() {
        let spec = weighted("guess_number", 1).with("numbers", 3).with("turns", 2).with("largest", 9);
        let mix = TaskMix::new(&[weighted("chain_sum", 1), spec], &TaskFiles::none()).unwrap();
        assert_eq!(mix.longest_read(0, 0).0, "guess 1-3:".len() + "higher:".len());
        assert_eq!(
            mix.longest_read(15, 5).0,
            mix.longest_read(0, 0).0 + 20,
            "a frame for the prompt, and one for what is heard"
        );
        assert_eq!(mix.longest_answer(), 2 * "1".len() + 2);
        let tags = JudgedPart { answer_tags: true, ..JudgedPart::default() };
        let frames = 2 * "<answer></answer>".len();
        assert_eq!(mix.judging(tags).longest_answer(), 2 * "1".len() + 2 + frames);
    }

    #[test]
    fn bad_mixes_are_refused() {
        assert_eq!(TaskMix::new(&[], &TaskFiles::none()).unwrap_err(), SpecError::EmptyMix);
        let many = vec![weighted("chain_sum", 1); MAX_TASKS + 1];
        let refused = TaskMix::new(&many, &TaskFiles::none()).unwrap_err();
        assert_eq!(refused, SpecError::TooManyTasks { tasks: MAX_TASKS + 1, limit: MAX_TASKS });
        let refused = TaskMix::new(&[weighted("chain_sum", 0)], &TaskFiles::none()).unwrap_err();
        assert_eq!(refused, SpecError::NoWeight { name: "chain_sum".into() });
    }
}
