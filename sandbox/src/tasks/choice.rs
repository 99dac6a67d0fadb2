//! `choice`: questions of a data set with options, of which the letter of the right one is asked for.
//!
//! [`row`] reads the forms in which such sets come. The options are shuffled by the order's seed, so
//! that no letter is right more often than others. Where an option speaks of letters or of what
//! stands above it, their order stays. [`answer`] finds the letter in a response.

mod answer;
mod row;

use std::collections::BTreeSet;

use serde::Deserialize;

use self::answer::Said;
use self::row::ChoiceRow;
use crate::task::data_set;
use crate::task::data_set::{NamedRows, ReadRows, Rows, Unusable};
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Miss, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// The task's name in run configurations.
pub const NAME: &str = "choice";

/// What ends every prompt.
const INSTRUCTION: &str = "Answer with the letter of the right option.\n";
/// A right answer without its letter.
const SOLUTION: &str = "Answer: ";
/// What stands around an option: its letter, `. ` and a line break.
const AROUND_OPTION: usize = 4;

/// The parameters of [`ChoiceTask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChoiceConfig {
    /// How many of a hundred rows are kept for evaluation, up to 50. Default 10.
    pub held_out_percent: i64,
}

impl Default for ChoiceConfig {
    fn default() -> Self {
        Self { held_out_percent: 10 }
    }
}

/// Questions of a file, each with its options.
#[derive(Debug)]
pub struct ChoiceTask {
    rows: Rows<ChoiceRow>,
    held_out: Option<Box<ChoiceTask>>,
    remarks: Vec<String>,
    left_out: NamedRows,
    longest_prompt: usize,
}

impl ChoiceTask {
    /// Builds the task over the rows of a file.
    ///
    /// # Errors
    /// When a parameter is out of its range, or a line is no question with options.
    pub fn new(config: ChoiceConfig, bytes: &[u8]) -> Result<Self, SpecError> {
        spec::within(NAME, "held_out_percent", config.held_out_percent, 0..=50)?;
        let read = data_set::read(bytes, |_, fields| ChoiceRow::of(fields).map_err(Unusable::Wrong));
        let ReadRows { rows, left_out } = read.map_err(|reason| SpecError::Data { task: NAME, reason })?;
        let remarks = left_out.remark(NAME, rows.len()).into_iter().collect();
        let length = |row: &ChoiceRow| {
            let options = row.options.iter().map(|option| option.len() + AROUND_OPTION);
            row.question.len() + 1 + options.sum::<usize>() + INSTRUCTION.len()
        };
        let longest_prompt = rows.iter().map(length).max().unwrap_or_default();
        let (train, held_out) = data_set::split(rows, config.held_out_percent as u32);
        let of = |rows| Self::over(rows, longest_prompt);
        Ok(Self { held_out: Some(Box::new(of(held_out))), remarks, left_out, ..of(train) })
    }

    /// The task over these rows alone.
    fn over(rows: Rows<ChoiceRow>, longest_prompt: usize) -> Self {
        Self { rows, held_out: None, remarks: Vec::new(), left_out: NamedRows::default(), longest_prompt }
    }

    /// The row of a seed, and its options in the order in which they are shown, by their place in the row.
    fn shown(&self, seed: TaskSeed) -> (&ChoiceRow, Vec<usize>) {
        let row = self.rows.pick(seed);
        let mut order: Vec<usize> = (0..row.options.len()).collect();
        if !row.keeps_order() {
            let mut draws = seed.draws();
            // The first draw has chosen the row: the order must not follow from it.
            let _ = draws.next_u64();
            draws.shuffle(&mut order);
        }
        (row, order)
    }
}

/// The letter at a place, from `A`.
fn letter(place: usize) -> char {
    char::from(b'A' + place as u8)
}

/// The prompt of a row with its options in this order.
fn text(row: &ChoiceRow, order: impl IntoIterator<Item = usize>) -> String {
    let options = (0..).zip(order).map(|(place, option)| {
        let text = &row.options[option];
        format!("{}. {text}\n", letter(place))
    });
    format!("{}\n{}{INSTRUCTION}", row.question, options.collect::<String>())
}

impl Task for ChoiceTask {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        let (row, order) = self.shown(seed);
        Prompt { text: text(row, order) }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        let Some(said) = response.answer() else { return Ok(Verdict::wrong(Miss::Cut)) };
        let (row, order) = self.shown(seed);
        Ok(match answer::find(said, order.len()) {
            Some(Said::One(place)) if row.is_right(order[place]) => Verdict::right(),
            Some(_) => Verdict::wrong(Miss::WrongAnswer),
            None => Verdict::wrong(Miss::Malformed),
        })
    }

    fn solution(&self, seed: TaskSeed) -> String {
        let (row, order) = self.shown(seed);
        let place = order.iter().position(|option| row.is_right(*option)).unwrap_or_default();
        format!("{SOLUTION}{}", letter(place))
    }

    fn answer_read(&self, seed: TaskSeed, response: &Response<'_>) -> Option<String> {
        let (row, order) = self.shown(seed);
        Some(match answer::find(response.answer()?, order.len())? {
            Said::One(place) => format!("{}. {}", letter(place), row.options[order[place]]),
            Said::Unclear => "several letters, or one that there is not".to_owned(),
        })
    }

    fn reference(&self, seed: TaskSeed) -> Option<String> {
        let (row, order) = self.shown(seed);
        let place = order.iter().position(|option| row.is_right(*option))?;
        Some(format!("{}. {}", letter(place), row.options[order[place]]))
    }

    fn held_out(&self) -> Option<&dyn Task> {
        self.held_out.as_deref().map(|task| task as &dyn Task)
    }

    fn held_out_rows(&self) -> Option<usize> {
        self.held_out.as_ref().map(|held_out| held_out.rows.held_out_from(&self.rows))
    }

    fn rows(&self) -> Option<usize> {
        Some(self.rows.count())
    }

    fn row(&self, index: usize) -> Option<Box<dyn Task>> {
        Some(Box::new(Self::over(self.rows.only(index)?, self.longest_prompt)))
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn left_out(&self) -> Option<&NamedRows> {
        Some(&self.left_out)
    }

    fn alphabet(&self) -> BTreeSet<char> {
        let mut characters: BTreeSet<char> = self
            .rows
            .iter()
            .chain(self.held_out.iter().flat_map(|task| task.rows.iter()))
            .flat_map(|row| row.options.iter().chain([&row.question]))
            .flat_map(|text| text.chars())
            .collect();
        characters.extend(INSTRUCTION.chars().chain(SOLUTION.chars()));
        characters.extend((0..row::MAX_OPTIONS).map(letter));
        characters
    }

    /// With the options in the order of the file. Another order may differ by a few tokens at the seams.
    fn prompts(&self) -> Vec<String> {
        let held_out = self.held_out.iter().filter(|task| task.rows.held_out_from(&self.rows) > 0);
        let rows = self.rows.iter().chain(held_out.flat_map(|task| task.rows.iter()));
        rows.map(|row| text(row, 0..row.options.len())).collect()
    }

    fn longest_prompt(&self) -> usize {
        self.longest_prompt
    }

    fn longest_response(&self) -> usize {
        SOLUTION.len() + 1
    }
}

#[cfg(test)]
mod tests;
