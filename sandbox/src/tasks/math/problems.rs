//! `math`: word problems of a data set, with answers that are judged as mathematics and not as text.
//!
//! A row is `{"question", "answer"}`, where the answer stands after `#### ` when it is shown with
//! its way (as in GSM8K), or `{"problem", "answer", "solution"}` (as in MATH).

use std::collections::BTreeSet;

use serde::Deserialize;

use super::budget::StepBudget;
use super::{MAX_FORMULA_BYTES, MAX_STEPS, MathOptions, Parsed, extract, gsm8k_within, latex_within, verify};
use crate::task::data_set;
use crate::task::data_set::Rows;
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Miss, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// The task's name in run configurations.
pub const NAME: &str = "math";

/// Steps that reading the answers of a file may take, all of them together: 64 for each of the most rows.
pub const MAX_FILE_STEPS: u32 = 64 * data_set::MAX_ROWS as u32;

/// The parameters of [`MathProblems`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MathConfig {
    /// How many of a hundred rows are kept for evaluation, up to 50. Default 10.
    pub held_out_percent: i64,
}

impl Default for MathConfig {
    fn default() -> Self {
        Self { held_out_percent: 10 }
    }
}

/// A line of the file.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(alias = "problem")]
    question: Option<String>,
    answer: String,
    solution: Option<String>,
}

/// One problem of the file, with its answer read.
#[derive(Debug)]
struct Row {
    question: String,
    /// What the response has to come to.
    gold: Parsed,
    /// A right response: the solution that the file shows, or the answer alone.
    worked: String,
}

/// Word problems with one answer each.
#[derive(Debug)]
pub struct MathProblems {
    rows: Rows<Row>,
    held_out: Option<Box<MathProblems>>,
    longest_prompt: usize,
    longest_response: usize,
}

impl MathProblems {
    /// Builds the task over the rows of a file.
    ///
    /// # Errors
    /// When a parameter is out of its range, or a line is no problem.
    pub fn new(config: MathConfig, bytes: &[u8]) -> Result<Self, SpecError> {
        spec::within(NAME, "held_out_percent", config.held_out_percent, 0..=50)?;
        let budget = StepBudget::new(MAX_FILE_STEPS);
        let rows = data_set::read(bytes, |line| Row::of(line, &budget))
            .map_err(|reason| SpecError::Data { task: NAME, reason })?;
        let longest = |length: fn(&Row) -> usize| rows.iter().map(length).max().unwrap_or_default();
        // A newline ends the question.
        let longest_prompt = longest(|row| row.question.len()) + 1;
        let longest_response = longest(|row| row.worked.len());
        let (train, held_out) = data_set::split(rows, config.held_out_percent as u32);
        let of = |rows, held_out| Self { rows, held_out, longest_prompt, longest_response };
        Ok(of(train, Some(Box::new(of(held_out, None)))))
    }
}

impl Row {
    /// Reads a row for its share of the file's budget.
    fn of(line: Line, file: &StepBudget) -> Result<Self, String> {
        let budget = StepBudget::new(MAX_STEPS);
        let question =
            line.question.ok_or("it has neither `question` (as in GSM8K) nor `problem` (as in MATH)")?;
        let (worked, gold) = match (gsm8k_within(&line.answer, &budget), line.solution) {
            (Some(gold), _) => (without_annotations(&line.answer), gold),
            _ if line.answer.len() > MAX_FORMULA_BYTES => {
                return Err(format!(
                    "its answer has {} bytes: a formula has at most {MAX_FORMULA_BYTES}; shorten it, or put `#### ` before the answer where it is worked out",
                    line.answer.len()
                ));
            }
            (None, Some(solution)) => (solution, latex_within(&line.answer, &budget)),
            (None, None) => (line.answer.clone(), latex_within(&line.answer, &budget)),
        };
        if file.charge(MAX_STEPS - budget.left()).is_none() {
            return Err(format!(
                "reading the answers up to here takes more than {MAX_FILE_STEPS} steps: shorten them, or split the file"
            ));
        }
        if question.trim().is_empty() {
            return Err("the question is empty".into());
        }
        if gold.is_empty() {
            return Err(format!("no answer is found in {:?}: nothing could earn a reward", line.answer));
        }
        Ok(Self { question: question.trim().to_owned(), gold, worked })
    }
}

/// The text without `<<48/2=24>>`, notes of a calculator that some data sets carry.
fn without_annotations(text: &str) -> String {
    let mut parts = text.split("<<");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(">>").map_or(part, |(_, rest)| rest))
}

impl Task for MathProblems {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prompt(&self, seed: TaskSeed) -> Prompt {
        Prompt { text: format!("{}\n", self.rows.pick(seed).question) }
    }

    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError> {
        let Some(answer) = response.answer() else { return Ok(Verdict::wrong(Miss::Cut)) };
        let options = MathOptions::of_rewards();
        let said = extract(answer, &options);
        Ok(if verify(&self.rows.pick(seed).gold, &said, &options) {
            Verdict::right()
        } else if said.is_empty() {
            Verdict::wrong(Miss::Malformed)
        } else {
            Verdict::wrong(Miss::WrongAnswer)
        })
    }

    fn solution(&self, seed: TaskSeed) -> String {
        self.rows.pick(seed).worked.clone()
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
        let Self { longest_prompt, longest_response, .. } = *self;
        Some(Box::new(Self {
            rows: self.rows.only(index)?,
            held_out: None,
            longest_prompt,
            longest_response,
        }))
    }

    fn alphabet(&self) -> BTreeSet<char> {
        let texts = |task: &Self| -> BTreeSet<char> {
            task.rows.iter().flat_map(|row| row.question.chars().chain(row.worked.chars())).collect()
        };
        let mut characters = texts(self);
        characters.extend(self.held_out.iter().flat_map(|task| texts(task)));
        characters.insert('\n');
        characters
    }

    fn longest_prompt(&self) -> usize {
        self.longest_prompt
    }

    fn longest_response(&self) -> usize {
        self.longest_response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::data_set::DataError;

    const ROWS: &str = r#"
        {"question": "Ann has 3 apples and gets 4. How many?", "answer": "She has 3+4=<<3+4=7>>7 apples.\n#### 7"}
        {"problem": "Half of a third?", "solution": "It is $\\boxed{\\frac16}$.", "answer": "\\frac16"}
        {"question": "2^3?", "answer": "8"}
    "#;

    fn task() -> MathProblems {
        MathProblems::new(MathConfig::default(), ROWS.as_bytes()).unwrap()
    }

    /// A seed of each question.
    fn seeds(task: &MathProblems) -> [TaskSeed; 3] {
        ["Ann", "Half", "2^3"].map(|start| {
            let seeds = (0..=u8::MAX).map(|byte| TaskSeed([byte; 32]));
            seeds.into_iter().find(|seed| task.prompt(*seed).text.starts_with(start)).unwrap()
        })
    }

    fn earns(task: &MathProblems, seed: TaskSeed, text: &str) -> bool {
        task.reward(seed, &Response { text, finished: true }).unwrap().correct
    }

    #[test]
    fn every_form_of_a_row_is_read_and_its_solution_is_right() {
        let task = task();
        let [apples, sixth, power] = seeds(&task);
        assert_eq!(task.solution(apples), "She has 3+4=7 apples.\n#### 7");
        for seed in [apples, sixth, power] {
            assert!(earns(&task, seed, &task.solution(seed)), "{}", task.solution(seed));
        }
        assert!(earns(&task, sixth, "so \\boxed{1/6}"));
        assert!(earns(&task, power, "The answer is 8.0"));
        assert!(!earns(&task, apples, "The answer is 8"));
        assert!(!earns(&task, apples, ""));
    }

    #[test]
    fn each_row_can_be_asked_alone() {
        let task = task();
        assert_eq!(task.rows(), Some(3));
        let prompt = |index, byte| task.row(index).unwrap().prompt(TaskSeed([byte; 32])).text;
        assert!((0..=u8::MAX).all(|byte| prompt(2, byte) == "2^3?\n" && prompt(1, byte).starts_with("Half")));
        assert!(task.row(3).is_none());
    }

    #[test]
    fn it_says_how_many_rows_are_held_out() {
        let held_out = |config: MathConfig, rows: &str| {
            MathProblems::new(config, rows.as_bytes()).unwrap().held_out_rows()
        };
        assert_eq!(held_out(MathConfig::default(), ROWS), Some(0), "three rows are too few for a tenth");
        assert_eq!(held_out(MathConfig::default(), &ROWS.repeat(7)), Some(2));
        assert_eq!(held_out(MathConfig { held_out_percent: 0 }, &ROWS.repeat(7)), Some(0));
    }

    #[test]
    fn a_cut_response_earns_nothing() {
        let task = task();
        let verdict = task.reward(seeds(&task)[0], &Response { text: "#### 7", finished: false }).unwrap();
        assert_eq!(verdict, Verdict::wrong(Miss::Cut));
    }

    #[test]
    fn rows_that_could_never_be_answered_are_refused() {
        let refused = |text: &str| MathProblems::new(MathConfig::default(), text.as_bytes()).unwrap_err();
        let nothing = refused(r#"{"question": "?", "answer": ""}"#);
        assert!(
            matches!(nothing, SpecError::Data { reason: DataError::Line { line: 1, .. }, .. }),
            "{nothing}"
        );
        assert!(refused(r#"{"question": "?"}"#).to_string().contains("answer"));
        let percent = MathProblems::new(MathConfig { held_out_percent: 51 }, ROWS.as_bytes()).unwrap_err();
        assert!(percent.to_string().contains("held_out_percent"));
    }

    #[test]
    fn answers_are_read_within_bounds() {
        let line = |answer: String| Line { question: Some("?".into()), answer, solution: None };
        let long = line("1+".repeat(MAX_FORMULA_BYTES / 2) + "1");
        assert!(Row::of(long, &StepBudget::new(MAX_FILE_STEPS)).unwrap_err().contains("2049 bytes"));
        let worked = line("1+".repeat(MAX_FORMULA_BYTES) + "1 is much\n#### 7");
        assert!(Row::of(worked, &StepBudget::new(MAX_FILE_STEPS)).is_ok());
        let file = StepBudget::new(100);
        assert!(Row::of(line("8".into()), &file).is_ok());
        assert!(file.left() < 100, "a row takes its share");
        assert!(Row::of(line("1+".repeat(90) + "1"), &file).unwrap_err().contains("split the file"));
        assert!(Row::of(line("8".into()), &file).is_err(), "then nothing is left");
    }

    #[test]
    fn budgets_and_the_alphabet_cover_every_row() {
        let task = task();
        assert_eq!(task.longest_prompt(), "Ann has 3 apples and gets 4. How many?\n".len());
        assert_eq!(task.longest_response(), "She has 3+4=7 apples.\n#### 7".len());
        let alphabet = task.alphabet();
        assert!("AnH3+=#.\\{}$^?\n ".chars().all(|c| alphabet.contains(&c)));
        assert!(!alphabet.contains(&'<'));
    }
}
