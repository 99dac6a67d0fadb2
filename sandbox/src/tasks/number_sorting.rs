//! `number_sorting`: `sort 9,3,7=` → `3,7,9`.

use serde::Deserialize;

use super::{exact, natural};
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// The task's name in run configurations.
pub const NAME: &str = "number_sorting";

/// The most numbers of one prompt.
pub const MAX_COUNT: i64 = 16;

/// The parameters of [`NumberSorting`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NumberSortingConfig {
    /// How many numbers, 2 to [`MAX_COUNT`]. Default 3.
    pub count: i64,
    /// Digits of every number, 1 to 9. Default 1.
    pub digits: i64,
}

impl Default for NumberSortingConfig {
    fn default() -> Self {
        Self { count: 3, digits: 1 }
    }
}

/// Numbers with a fixed number of digits, to be listed in ascending order; equal ones are all listed.
#[derive(Debug)]
pub struct NumberSorting {
    config: NumberSortingConfig,
}

impl NumberSorting {
    /// Checks `count` and `digits`, and builds the task.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn new(config: NumberSortingConfig) -> Result<Self, SpecError> {
        spec::within(NAME, "count", config.count, 2..=MAX_COUNT)?;
        spec::within(NAME, "digits", config.digits, natural::DIGITS)?;
        Ok(Self { config })
    }

    fn numbers(&self, seed: TaskSeed) -> Vec<i64> {
        let (low, high) = natural::bounds(self.config.digits);
        let mut draws = seed.draws();
        (0..self.config.count).map(|_| draws.between(low, high)).collect()
    }
}

impl Task for NumberSorting {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        Prompt { text: format!("sort {}=", natural::list(&self.numbers(seed))) }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        Ok(exact::judge(&self.solution(seed), response))
    }

    fn solution(&self, seed: TaskSeed) -> String {
        let mut numbers = self.numbers(seed);
        numbers.sort_unstable();
        natural::list(&numbers)
    }

    fn longest_prompt(&self) -> usize {
        "sort =".len() + self.longest_response()
    }

    fn longest_response(&self) -> usize {
        let digits_and_comma = self.config.digits + 1;
        (self.config.count * digits_and_comma) as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_kept_and_the_order_is_numeric() {
        let task = NumberSorting::new(NumberSortingConfig { count: MAX_COUNT, digits: 1 }).unwrap();
        let seed = TaskSeed([4; 32]);
        let listed: Vec<i64> = task.solution(seed).split(',').map(|n| n.parse().unwrap()).collect();
        assert_eq!(listed.len(), MAX_COUNT as usize, "more numbers than digits: some are equal");
        assert!(listed.is_sorted());
        let unsorted = natural::list(&task.numbers(seed));
        assert!(!task.reward(seed, &Response { text: &unsorted, finished: true }).unwrap().correct);
    }
}
