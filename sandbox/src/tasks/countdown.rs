//! `countdown`: `make 24 from 3,8,1=` → `3*8`, or any other expression that gives 24.

mod expression;
mod puzzle;

use echo_protocol::work::trajectory::MetaValue;
use num_rational::Ratio;
use serde::Deserialize;

use self::expression::{Expression, MAX_LITERALS};
use self::puzzle::Puzzle;
use super::natural;
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Miss, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// The task's name in run configurations.
pub const NAME: &str = "countdown";

/// The most numbers of one prompt.
pub const MAX_COUNT: i64 = 6;

/// The largest number that a prompt may give.
pub const MAX_NUMBER: i64 = 99;

/// The largest target that a prompt may ask for.
pub const MAX_TARGET: i64 = 9_999;

const _: () = assert!(MAX_COUNT as usize <= MAX_LITERALS, "an answer may use every number");

/// The parameters of [`Countdown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CountdownConfig {
    /// How many numbers are given, 2 to [`MAX_COUNT`]. Default 3.
    pub count: i64,
    /// The largest number given, 1 to [`MAX_NUMBER`]. Default 9.
    pub largest: i64,
    /// The largest target, `largest` to [`MAX_TARGET`]. Default 99.
    pub target: i64,
}

impl Default for CountdownConfig {
    fn default() -> Self {
        Self { count: 3, largest: 9, target: 99 }
    }
}

/// Numbers and a target that they can make.
///
/// Every expression is right that has the target's value and uses each given number at most once,
/// so leaving numbers out is allowed. It is made of the numbers, `+ - * /`, parentheses and spaces;
/// there are no signs, so no `-3`. Division is exact: `8/3*3` is 8.
#[derive(Debug)]
pub struct Countdown {
    config: CountdownConfig,
}

impl Countdown {
    /// Checks `count`, `largest` and `target`, and builds the task.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn new(config: CountdownConfig) -> Result<Self, SpecError> {
        spec::within(NAME, "count", config.count, 2..=MAX_COUNT)?;
        spec::within(NAME, "largest", config.largest, 1..=MAX_NUMBER)?;
        spec::within(NAME, "target", config.target, config.largest..=MAX_TARGET)?;
        Ok(Self { config })
    }

    fn puzzle(&self, seed: TaskSeed) -> Puzzle {
        Puzzle::draw(&self.config, &mut seed.draws())
    }
}

/// Whether `used` takes each of `given` at most once.
fn uses_only(mut given: Vec<i64>, used: impl Iterator<Item = i64>) -> bool {
    for number in used {
        let Some(at) = given.iter().position(|&one| one == number) else { return false };
        given.swap_remove(at);
    }
    true
}

impl Task for Countdown {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        let puzzle = self.puzzle(seed);
        Prompt { text: format!("make {} from {}=", puzzle.target, natural::list(&puzzle.numbers)) }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        let Some(answer) = response.answer() else { return Ok(Verdict::wrong(Miss::Cut)) };
        let Ok(expression) = Expression::parse(answer) else { return Ok(Verdict::wrong(Miss::Malformed)) };
        let puzzle = self.puzzle(seed);
        let used = expression.literals().count() as i64;
        let verdict = if !uses_only(puzzle.numbers, expression.literals()) {
            Verdict::wrong(Miss::NotGiven)
        } else if expression.value() == Some(Ratio::from_integer(i128::from(puzzle.target))) {
            Verdict::right()
        } else {
            Verdict::wrong(Miss::WrongAnswer)
        };
        verdict
            .with("numbers_used", MetaValue::Integer(used))
            .map_err(|error| TaskError::internal(NAME, error))
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.puzzle(seed).solution
    }

    fn longest_prompt(&self) -> usize {
        let numbers = self.config.count as usize * (natural::width(self.config.largest) + ",".len());
        "make  from ".len() + natural::width(self.config.target) + numbers
    }

    fn longest_response(&self) -> usize {
        let numbers = self.config.count as usize * natural::width(self.config.largest);
        // Every operator may come with its own pair of parentheses.
        numbers + (self.config.count as usize - 1) * "(+)".len()
    }
}

#[cfg(test)]
mod tests;
