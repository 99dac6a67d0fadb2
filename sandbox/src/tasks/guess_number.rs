//! `guess_number`: `guess 437-451:` → `444`, `lower:` → `440`, `higher:` → `442`. The smallest
//! task with several turns.

use echo_protocol::work::trajectory::MetaValue;
use serde::Deserialize;

use super::natural;
use crate::task::episode::{Episode, Reply};
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{self, Miss, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// The task's name in run configurations.
pub const NAME: &str = "guess_number";

/// The largest number that may be asked for.
pub const MAX_LARGEST: i64 = 999_999;

/// The most numbers among which one is to be found.
pub const MAX_NUMBERS: i64 = 1_000;

/// The most guesses that `turns` may allow.
pub const MAX_GUESSES: i64 = 16;

/// What the policy hears when its guess is too small.
const HIGHER: &str = "higher:";

/// What the policy hears when its guess is too large.
const LOWER: &str = "lower:";

/// The parameters of [`GuessNumber`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuessNumberConfig {
    /// Among how many numbers in a row, 2 to [`MAX_NUMBERS`]. Default 15.
    pub numbers: i64,
    /// How many guesses, from as many as halving needs to [`MAX_GUESSES`]. Default 4.
    pub turns: i64,
    /// The largest number, `numbers` to [`MAX_LARGEST`]. Default 999.
    pub largest: i64,
}

impl Default for GuessNumberConfig {
    fn default() -> Self {
        Self { numbers: 15, turns: 4, largest: 999 }
    }
}

/// A number to be found, with a hint after every wrong guess. What is no number ends the episode.
#[derive(Debug)]
pub struct GuessNumber {
    config: GuessNumberConfig,
}

impl GuessNumber {
    /// Checks the parameters and builds the task. `turns` must suffice for a search by halves.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn new(config: GuessNumberConfig) -> Result<Self, SpecError> {
        spec::within(NAME, "numbers", config.numbers, 2..=MAX_NUMBERS)?;
        spec::within(NAME, "turns", config.turns, halvings(config.numbers)..=MAX_GUESSES)?;
        spec::within(NAME, "largest", config.largest, config.numbers..=MAX_LARGEST)?;
        Ok(Self { config })
    }

    fn search(&self, seed: TaskSeed) -> Search {
        let mut draws = seed.draws();
        let low = draws.between(1, self.config.largest - self.config.numbers + 1);
        let high = low + self.config.numbers - 1;
        Search { number: draws.between(low, high), low, high, guesses: 0, most: self.config.turns }
    }
}

/// The most guesses that are needed among `numbers` numbers by a player who always asks for the middle.
fn halvings(numbers: i64) -> i64 {
    i64::from(i64::BITS - numbers.leading_zeros())
}

/// One game: the hidden number, and the range that the replies have left.
#[derive(Debug)]
struct Search {
    number: i64,
    /// The smallest number that is still possible.
    low: i64,
    /// The largest number that is still possible.
    high: i64,
    guesses: i64,
    most: i64,
}

impl Episode for Search {
    fn hear(&mut self, response: &Response<'_>) -> Result<Reply, TaskError> {
        let Some(answer) = response.answer() else { return Ok(Reply::Ends(Verdict::wrong(Miss::Cut))) };
        let guess = answer.parse::<i64>().ok().filter(|guess| guess.to_string() == answer);
        let Some(guess) = guess else { return Ok(Reply::Ends(Verdict::wrong(Miss::Malformed))) };
        self.guesses += 1;
        if guess == self.number {
            let verdict = Verdict::right().with("guesses", MetaValue::Integer(self.guesses));
            return verdict.map(Reply::Ends).map_err(|error| TaskError::internal(NAME, error));
        }
        if self.guesses >= self.most {
            return Ok(Reply::Ends(Verdict::wrong(Miss::WrongAnswer)));
        }
        if guess < self.number {
            self.low = self.low.max(guess + 1);
            return Ok(Reply::Goes(HIGHER.to_owned()));
        }
        self.high = self.high.min(guess - 1);
        Ok(Reply::Goes(LOWER.to_owned()))
    }

    fn suggestion(&self) -> String {
        ((self.low + self.high) / 2).to_string()
    }
}

impl Task for GuessNumber {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        let Search { low, high, .. } = self.search(seed);
        Prompt { text: format!("guess {low}-{high}:") }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        task::first_turn_alone(self, seed, response)
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.search(seed).suggestion()
    }

    fn episode(&self, seed: TaskSeed) -> Box<dyn Episode + '_> {
        Box::new(self.search(seed))
    }

    fn max_turns(&self) -> u32 {
        self.config.turns as u32
    }

    fn longest_heard(&self) -> usize {
        (self.config.turns as usize - 1) * HIGHER.len().max(LOWER.len())
    }

    fn longest_prompt(&self) -> usize {
        "guess -:".len() + 2 * natural::width(self.config.largest)
    }

    fn longest_response(&self) -> usize {
        self.config.turns as usize * natural::width(self.config.largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::episode::{EpisodeStep, Play};

    fn task(numbers: i64, turns: i64) -> GuessNumber {
        GuessNumber::new(GuessNumberConfig { numbers, turns, ..GuessNumberConfig::default() }).unwrap()
    }

    fn said(play: &mut Play<'_>, text: &str) -> EpisodeStep {
        play.turn(&Response { text, finished: true }, 10).unwrap()
    }

    fn verdict(step: EpisodeStep) -> Verdict {
        match step {
            EpisodeStep::Over { verdict, .. } => verdict,
            EpisodeStep::Heard(text) => panic!("went on with {text}"),
        }
    }

    #[test]
    fn hints_lead_to_the_number_in_as_many_guesses_as_halving_needs() {
        assert_eq!([2, 3, 4, 15, 16, 1000].map(halvings), [2, 2, 3, 4, 5, 10]);
        for (numbers, byte) in [2, 3, 7, 8, 15, 1000].into_iter().zip(0..) {
            let task =
                GuessNumber::new(GuessNumberConfig { numbers, turns: halvings(numbers), largest: 5000 });
            let task = task.unwrap();
            let mut play = Play::new(&task, TaskSeed([byte; 32]));
            let right = loop {
                let guess = play.suggestion();
                match said(&mut play, &guess) {
                    EpisodeStep::Heard(hint) => assert!([HIGHER, LOWER].contains(&hint.as_str())),
                    EpisodeStep::Over { verdict, finished } => break verdict.correct && finished,
                }
            };
            assert!(right, "among {numbers}");
        }
    }

    #[test]
    fn only_a_number_has_another_turn() {
        let task = task(15, 4);
        let seed = TaskSeed([3; 32]);
        let number = task.search(seed).number;
        for noise in ["", "abc", "+5", "05", "1e3", "99999999999999999999", " 5"] {
            let over = verdict(said(&mut Play::new(&task, seed), noise));
            assert_eq!(over, Verdict::wrong(Miss::Malformed), "{noise:?}");
        }
        let mut play = Play::new(&task, seed);
        assert_eq!(said(&mut play, "0"), EpisodeStep::Heard(HIGHER.into()));
        assert_eq!(said(&mut play, &i64::MAX.to_string()), EpisodeStep::Heard(LOWER.into()));
        assert_eq!(said(&mut play, &(number - 1).to_string()), EpisodeStep::Heard(HIGHER.into()));
        assert_eq!(verdict(said(&mut play, "0")), Verdict::wrong(Miss::WrongAnswer), "the fourth and last");
        let found = verdict(said(&mut Play::new(&task, seed), &number.to_string()));
        assert_eq!((found.correct, &found.metadata["guesses"]), (true, &MetaValue::Integer(1)));
    }

    #[test]
    fn too_few_guesses_are_refused() {
        let config = GuessNumberConfig { turns: 3, ..GuessNumberConfig::default() };
        let expected =
            SpecError::OutOfRange { task: NAME, param: "turns", value: 3, low: 4, high: MAX_GUESSES };
        assert_eq!(GuessNumber::new(config).unwrap_err(), expected);
    }
}
