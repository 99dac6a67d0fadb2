//! `spell_backward`: `reverse cat=` → `tac`.

use serde::Deserialize;

use super::exact;
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// The task's name in run configurations.
pub const NAME: &str = "spell_backward";

/// The most letters of one word.
pub const MAX_LETTERS: i64 = 32;

const ALPHABET: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";

/// The parameters of [`SpellBackward`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpellBackwardConfig {
    /// The fewest letters, 1 to `longest`. Default 3.
    pub shortest: i64,
    /// The most letters, up to [`MAX_LETTERS`]. Default 5.
    pub longest: i64,
}

impl Default for SpellBackwardConfig {
    fn default() -> Self {
        Self { shortest: 3, longest: 5 }
    }
}

/// Words to be spelled backward. The letters are drawn one by one rather than words from a list: a
/// list short enough to ship would be learnt by heart, and held-out orders would repeat it.
#[derive(Debug)]
pub struct SpellBackward {
    config: SpellBackwardConfig,
}

impl SpellBackward {
    /// Checks `shortest` and `longest`, and builds the task.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn new(config: SpellBackwardConfig) -> Result<Self, SpecError> {
        spec::within(NAME, "longest", config.longest, 1..=MAX_LETTERS)?;
        spec::within(NAME, "shortest", config.shortest, 1..=config.longest)?;
        Ok(Self { config })
    }

    fn word(&self, seed: TaskSeed) -> String {
        let mut draws = seed.draws();
        let letters = draws.between(self.config.shortest, self.config.longest);
        (0..letters).map(|_| char::from(ALPHABET[draws.below(ALPHABET.len() as u64) as usize])).collect()
    }
}

impl Task for SpellBackward {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        Prompt { text: format!("reverse {}=", self.word(seed)) }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        Ok(exact::judge(&self.solution(seed), response))
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.word(seed).chars().rev().collect()
    }

    fn longest_prompt(&self) -> usize {
        "reverse =".len() + self.longest_response()
    }

    fn longest_response(&self) -> usize {
        self.config.longest as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_cover_their_range() {
        let task = SpellBackward::new(SpellBackwardConfig { shortest: 2, longest: 4 }).unwrap();
        let seen: std::collections::BTreeSet<usize> =
            (0..100).map(|i| task.word(TaskSeed([i; 32])).len()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn an_empty_range_of_lengths_is_refused() {
        let refused = SpellBackward::new(SpellBackwardConfig { shortest: 6, longest: 5 }).unwrap_err();
        let expected = SpecError::OutOfRange { task: NAME, param: "shortest", value: 6, low: 1, high: 5 };
        assert_eq!(refused, expected);
    }
}
