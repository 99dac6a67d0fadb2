//! `math`: word problems of a data set, with answers that are judged as mathematics and not as text.
//!
//! `row` reads the forms in which people have them. Rows that no answer could earn on
//! are left out, and [`Task::remarks`] names them.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::budget::StepBudget;
use super::row::Row;
use super::{MathOptions, extract_judged, verify};
use crate::task::data_set;
use crate::task::data_set::fields::Fields;
use crate::task::data_set::{NamedRows, ReadRows, Rows};
use crate::task::spec;
use crate::task::spec::SpecError;
use crate::task::{Miss, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

pub use super::row::MAX_FILE_STEPS;

/// The task's name in run configurations.
pub const NAME: &str = "math";

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

/// Word problems with one answer each.
#[derive(Debug)]
pub struct MathProblems {
    rows: Rows<Row>,
    held_out: Option<Box<MathProblems>>,
    remarks: Vec<String>,
    left_out: NamedRows,
    longest_prompt: usize,
    longest_response: usize,
}

impl MathProblems {
    /// Builds the task over the rows of a file.
    ///
    /// # Errors
    /// When a parameter is out of its range, a line is no problem, or nothing can be earned on any.
    pub fn new(config: MathConfig, bytes: &[u8]) -> Result<Self, SpecError> {
        spec::within(NAME, "held_out_percent", config.held_out_percent, 0..=50)?;
        let budget = StepBudget::new(MAX_FILE_STEPS);
        let read = data_set::read(bytes, |_, fields: Fields| Row::of(&fields, &budget));
        let ReadRows { rows, left_out } = read.map_err(|reason| SpecError::Data { task: NAME, reason })?;
        let remarks = [left_out.remark(NAME, rows.len()), always_the_same(&rows)];
        let remarks = remarks.into_iter().flatten().collect();
        let longest = |length: fn(&Row) -> usize| rows.iter().map(length).max().unwrap_or_default();
        // A newline ends the question.
        let longest_prompt = longest(|row| row.question.len()) + 1;
        let longest_response = longest(|row| row.worked.len());
        let (train, held_out) = data_set::split(rows, config.held_out_percent as u32);
        let of = |rows| Self {
            rows,
            held_out: None,
            remarks: Vec::new(),
            left_out: NamedRows::default(),
            longest_prompt,
            longest_response,
        };
        Ok(Self { held_out: Some(Box::new(of(held_out))), remarks, left_out, ..of(train) })
    }
}

/// What is to be said where every row has the same answer: whoever learns it needs no question.
fn always_the_same(rows: &[Row]) -> Option<String> {
    /// Rows from which on that is no accident.
    const MANY: usize = 8;
    let first = rows.first()?.gold.text()?;
    (rows.len() >= MANY && rows.iter().all(|row| row.gold.text() == Some(first))).then(|| {
        format!(
            "task {NAME}: all {} rows have the answer {first:?}: a policy learns to say it without reading",
            rows.len()
        )
    })
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
        let said = extract_judged(answer, &options);
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

    fn answer_read(&self, _: TaskSeed, response: &Response<'_>) -> Option<String> {
        extract_judged(response.answer()?, &MathOptions::of_rewards()).shown()
    }

    fn reference(&self, seed: TaskSeed) -> Option<String> {
        let Row { gold, worked, .. } = self.rows.pick(seed);
        gold.shown().or_else(|| Some(worked.clone()))
    }

    fn held_out(&self) -> Option<&dyn Task> {
        self.held_out.as_deref().map(|task| task as &dyn Task)
    }

    fn rows(&self) -> Option<usize> {
        Some(self.rows.iter().len())
    }

    fn held_out_rows(&self) -> Option<usize> {
        self.held_out.as_ref().map(|held_out| held_out.rows.held_out_from(&self.rows))
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn left_out(&self) -> Option<&NamedRows> {
        Some(&self.left_out)
    }

    fn row(&self, index: usize) -> Option<Box<dyn Task>> {
        let Self { longest_prompt, longest_response, .. } = *self;
        Some(Box::new(Self {
            rows: self.rows.only(index)?,
            held_out: None,
            remarks: Vec::new(),
            left_out: NamedRows::default(),
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

    fn prompts(&self) -> Vec<String> {
        let held_out = self.held_out.iter().filter(|task| task.rows.held_out_from(&self.rows) > 0);
        let rows = self.rows.iter().chain(held_out.flat_map(|task| task.rows.iter()));
        rows.map(|row| format!("{}\n", row.question)).collect()
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

    #[test]
    fn all_rows_give_their_prompts_once() {
        let prompts = task().prompts();
        assert_eq!(prompts.len(), 3, "none is held out of so few");
        assert!(prompts.contains(&"2^3?\n".to_owned()), "{prompts:?}");
        let many: String =
            (0..20).map(|n| format!("{{\"question\": \"{n}?\", \"answer\": \"2\"}}\n")).collect();
        let task = MathProblems::new(MathConfig::default(), many.as_bytes()).unwrap();
        let prompts: BTreeSet<String> = task.prompts().into_iter().collect();
        assert_eq!((prompts.len(), task.held_out_rows()), (20, Some(2)));
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
    fn it_says_what_it_reads_and_what_it_compares_that_with() {
        let task = task();
        let [apples, sixth, _] = seeds(&task);
        let read = |text, finished| task.answer_read(sixth, &Response { text, finished });
        assert!(read("so \\boxed{1/6}", true).is_some_and(|said| said.contains('1') && said.contains('6')));
        assert_eq!(read("I do not know.", true), None);
        assert_eq!(read("\\boxed{1/6}", false), None, "a beginning is no answer");
        assert_eq!(task.reference(apples).as_deref(), Some("7"));
        assert!(task.reference(sixth).is_some_and(|gold| gold.contains('6')), "{:?}", task.reference(sixth));
        assert_eq!(task.left_out().map(NamedRows::count), Some(0));
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
        let rows = ROWS.repeat(7);
        assert_eq!(MathProblems::new(MathConfig::default(), rows.as_bytes()).unwrap().rows(), Some(19));
        assert_eq!(held_out(MathConfig { held_out_percent: 0 }, &ROWS.repeat(7)), Some(0));
    }

    #[test]
    fn a_cut_response_earns_nothing() {
        let task = task();
        let verdict = task.reward(seeds(&task)[0], &Response { text: "#### 7", finished: false }).unwrap();
        assert_eq!(verdict, Verdict::wrong(Miss::Cut));
    }

    #[test]
    fn a_file_of_dead_or_of_other_rows_is_refused() {
        let refused = |text: &str| MathProblems::new(MathConfig::default(), text.as_bytes()).unwrap_err();
        let nothing = refused(r#"{"question": "?", "answer": ""}"#);
        assert!(matches!(nothing, SpecError::Data { reason: DataError::AllDead(_), .. }), "{nothing}");
        let other = refused(&format!("{ROWS}{}", r#"{"question": "?"}"#));
        assert!(matches!(other, SpecError::Data { reason: DataError::Rows(_), .. }), "{other}");
        assert!(other.to_string().contains("`answer`"), "{other}");
        let percent = MathProblems::new(MathConfig { held_out_percent: 51 }, ROWS.as_bytes()).unwrap_err();
        assert!(percent.to_string().contains("held_out_percent"));
    }

    #[test]
    fn rows_that_no_answer_can_earn_on_are_left_out_with_one_remark() {
        let dead = r#"{"problem": "Which?", "solution": "", "answer": "notfound"}"#;
        let task =
            MathProblems::new(MathConfig::default(), format!("{dead}{ROWS}{dead}").as_bytes()).unwrap();
        assert_eq!(task.rows.iter().len(), 3);
        let [remark] = task.remarks() else { panic!("{:?}", task.remarks()) };
        assert!(
            remark.contains("2 of 5 rows") && remark.contains("row 1: ") && remark.contains("notfound"),
            "{remark}"
        );
        let left_out = task.left_out().unwrap();
        assert_eq!(left_out.iter().map(|(row, _)| row).collect::<Vec<_>>(), [1, 5]);
        assert!(self::task().remarks().is_empty());
        let same = r#"{"question": "Capital?", "answer": "Paris"}"#;
        let task =
            MathProblems::new(MathConfig::default(), format!("{same}\n").repeat(8).as_bytes()).unwrap();
        assert!(task.remarks()[0].contains("all 8 rows have the answer"), "{:?}", task.remarks());
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
