//! The weighted mix of a run's tasks.

use echo_protocol::charter::{MAX_TASKS, TaskSpec};
use echo_protocol::draw::Draws;

use crate::registry;
use crate::spec::SpecError;
use crate::task::Task;

/// A run's tasks, chosen in proportion to their weights.
#[derive(Debug)]
pub struct TaskMix {
    tasks: Vec<Box<dyn Task>>,
    /// `ends[i]` is the sum of the weights of tasks `0..=i`: task `i` owns the draws from `ends[i - 1]` to before it.
    ends: Vec<u64>,
}

impl TaskMix {
    /// Builds every task of `specs`. The order is part of the run, since choices are indices into it; the same task
    /// may occur several times with different parameters.
    ///
    /// # Errors
    /// When there is no task, more than [`MAX_TASKS`], one without weight, or one that cannot be built.
    pub fn new(specs: &[TaskSpec]) -> Result<Self, SpecError> {
        if specs.is_empty() {
            return Err(SpecError::EmptyMix);
        }
        if specs.len() > MAX_TASKS {
            return Err(SpecError::TooManyTasks { tasks: specs.len(), limit: MAX_TASKS });
        }
        let mut tasks = Vec::with_capacity(specs.len());
        let mut ends = Vec::with_capacity(specs.len());
        let mut end = 0;
        for spec in specs {
            tasks.push(registry::build(spec)?);
            if spec.weight == 0 {
                return Err(SpecError::NoWeight { name: spec.name.clone() });
            }
            end += u64::from(spec.weight);
            ends.push(end);
        }
        Ok(Self { tasks, ends })
    }

    /// Chooses a task's index with the next draw.
    pub fn choose(&self, draws: &mut Draws) -> usize {
        let total = self.ends.last().copied().unwrap_or_default();
        let draw = draws.below(total);
        self.ends.partition_point(|&end| end <= draw)
    }

    /// The task at `index`, `None` past the end.
    pub fn get(&self, index: usize) -> Option<&dyn Task> {
        self.tasks.get(index).map(Box::as_ref)
    }

    /// All tasks, in the order of their indices.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &dyn Task> {
        self.tasks.iter().map(Box::as_ref)
    }

    /// The most characters of any task's prompt.
    pub fn longest_prompt(&self) -> usize {
        self.tasks().map(|task| task.longest_prompt()).max().unwrap_or_default()
    }

    /// The most characters that any task's answer needs.
    pub fn longest_response(&self) -> usize {
        self.tasks().map(|task| task.longest_response()).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(name: &str, weight: u32) -> TaskSpec {
        TaskSpec { name: name.to_owned(), weight, params: Default::default() }
    }

    #[test]
    fn choices_follow_the_weights() {
        let specs = [weighted("chain_sum", 1), weighted("countdown", 6), weighted("chain_sum", 3)];
        let mix = TaskMix::new(&specs).unwrap();
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
        let mix = TaskMix::new(&[weighted("chain_sum", 1), weighted("countdown", 2)]).unwrap();
        let mut draws = Draws::new([9; 32]);
        let chosen: Vec<usize> = (0..12).map(|_| mix.choose(&mut draws)).collect();
        // If this changes, the prompt derivation version must change.
        assert_eq!(chosen, [1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn the_largest_weights_do_not_overflow() {
        let mix = TaskMix::new(&vec![weighted("chain_sum", u32::MAX); MAX_TASKS]).unwrap();
        let mut draws = Draws::new([2; 32]);
        assert!((0..1_000).all(|_| mix.get(mix.choose(&mut draws)).is_some()));
        assert!(mix.get(MAX_TASKS).is_none());
    }

    #[test]
    fn budgets_cover_every_task() {
        let mix = TaskMix::new(&[weighted("chain_sum", 1), weighted("number_sorting", 1)]).unwrap();
        assert_eq!(mix.longest_prompt(), "sort 1,2,3=".len());
        assert_eq!(mix.longest_response(), "1,2,3".len());
        assert_eq!(mix.tasks().map(|task| task.name()).collect::<Vec<_>>(), ["chain_sum", "number_sorting"]);
    }

    #[test]
    fn bad_mixes_are_refused() {
        assert_eq!(TaskMix::new(&[]).unwrap_err(), SpecError::EmptyMix);
        let many = vec![weighted("chain_sum", 1); MAX_TASKS + 1];
        let refused = TaskMix::new(&many).unwrap_err();
        assert_eq!(refused, SpecError::TooManyTasks { tasks: MAX_TASKS + 1, limit: MAX_TASKS });
        let refused = TaskMix::new(&[weighted("chain_sum", 0)]).unwrap_err();
        assert_eq!(refused, SpecError::NoWeight { name: "chain_sum".into() });
    }
}
