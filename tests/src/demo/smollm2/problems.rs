//! Sums and word problems of two steps, as rows in the form of GSM8K.
//!
//! Training and evaluation have no row in common, and no operation on the same two numbers in
//! either order: every pair of numbers belongs to one side, and the steps of a question of that
//! side have only its pairs.

mod templates;

use anyhow::{Context as _, ensure};
use echo_protocol::wire::rng::Draws;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use templates::{NAMES, TEMPLATES, THINGS, Template};

/// Largest number of a sum, and of a step of a word problem.
const LARGEST: i64 = 30;
/// Largest number of a word problem. With numbers to 9 the published model answers 0.029 right, to 6 0.058,
/// and some responses have to earn something before anything is learned.
const LARGEST_OF_WORDS: i64 = 6;
/// Word problems for each sum of the training rows: they are harder, and learned later.
const WORDS_PER_SUM: usize = 2;
/// A third of the pairs is for evaluation: 155 of the 465 sums.
const EVALUATION_PART: usize = 3;
/// Word problems that are evaluated.
const EVALUATION_WORDS: usize = 256;

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// What is asked.
    pub question: String,
    /// How it is worked out, and the answer after `#### `.
    pub answer: String,
}

/// The rows of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// Sums, and twice as many word problems, in one order.
    pub train: Vec<Row>,
    /// Sums that are evaluated.
    pub sums: Vec<Row>,
    /// Word problems that are evaluated.
    pub words: Vec<Row>,
}

/// Where the rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemFiles {
    /// Rows of [`Problems::train`].
    pub train: PathBuf,
    /// Rows of [`Problems::sums`].
    pub sums: PathBuf,
    /// Rows of [`Problems::words`].
    pub words: PathBuf,
}

/// Pairs of numbers, the smaller one first.
type Pairs = BTreeSet<(i64, i64)>;

impl Problems {
    /// The rows of a seed: the same seed gives the same rows.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut draws = Draws::new(key);
        // Word problems have small numbers: a third of their pairs is for evaluation, too.
        let sides = [1..=LARGEST_OF_WORDS, LARGEST_OF_WORDS + 1..=LARGEST].map(|of| sides(of, &mut draws));
        let [training, evaluation] =
            [0, 1].map(|side| sides.iter().flat_map(|of| of[side].clone()).collect::<Vec<_>>());
        let mut train: Vec<Row> = training.iter().map(|pair| sum(*pair, &mut draws)).collect();
        let sums = evaluation.iter().map(|pair| sum(*pair, &mut draws)).collect();
        let count = WORDS_PER_SUM * training.len();
        train.extend(words(&training.into_iter().collect(), count, &mut draws));
        draws.shuffle(&mut train);
        let words = words(&evaluation.into_iter().collect(), EVALUATION_WORDS, &mut draws);
        Self { train, sums, words }
    }

    /// The same with at most so many rows in each set that is evaluated.
    #[must_use]
    pub fn evaluated_on(mut self, rows: usize) -> Self {
        self.sums.truncate(rows);
        self.words.truncate(rows);
        self
    }

    /// Writes `train.jsonl`, `sums.jsonl` and `words.jsonl` to a directory, which is made if need be.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<ProblemFiles> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let write = |name: &str, rows: &[Row]| -> anyhow::Result<PathBuf> {
            let path = dir.join(name);
            let mut text = String::new();
            for row in rows {
                text += &serde_json::to_string(row)?;
                text.push('\n');
            }
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        Ok(ProblemFiles {
            train: write("train.jsonl", &self.train)?,
            sums: write("sums.jsonl", &self.sums)?,
            words: write("words.jsonl", &self.words)?,
        })
    }
}

/// Reads the rows of a file.
///
/// # Errors
/// When it cannot be read, holds no row, or a line is no row.
pub fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = text.lines().zip(1..).map(|(line, number)| {
        serde_json::from_str(line).with_context(|| format!("{}, line {number}", path.display()))
    });
    let rows: Vec<Row> = rows.collect::<anyhow::Result<_>>()?;
    ensure!(!rows.is_empty(), "{} holds no row", path.display());
    Ok(rows)
}

/// Rows that two files have in common, and pairs of numbers that a step of either takes, in either
/// order. Steps are read from the worked answers.
#[must_use]
pub fn common(one: &[Row], other: &[Row]) -> (usize, usize) {
    let questions = |rows: &[Row]| rows.iter().map(|row| row.question.clone()).collect::<BTreeSet<_>>();
    let pairs = |rows: &[Row]| rows.iter().flat_map(|row| operands(&row.answer)).collect::<Pairs>();
    let rows = questions(one).intersection(&questions(other)).count();
    (rows, pairs(one).intersection(&pairs(other)).count())
}

/// What the steps of a worked answer take.
fn operands(answer: &str) -> Vec<(i64, i64)> {
    let steps = answer.lines().filter_map(|line| line.split_once('='));
    steps
        .filter_map(|(step, _)| match numbers(step).as_slice() {
            [a, b] => Some(ordered(*a, *b)),
            _ => None,
        })
        .collect()
}

fn numbers(text: &str) -> Vec<i64> {
    text.split(|sign: char| !sign.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn ordered(a: i64, b: i64) -> (i64, i64) {
    (a.min(b), a.max(b))
}

/// All pairs whose larger number is one of these: those of training, and those of evaluation.
fn sides(larger: RangeInclusive<i64>, draws: &mut Draws) -> [Vec<(i64, i64)>; 2] {
    let mut evaluation: Vec<_> = larger.flat_map(|b| (1..=b).map(move |a| (a, b))).collect();
    draws.shuffle(&mut evaluation);
    let training = evaluation.split_off(evaluation.len() / EVALUATION_PART);
    [training, evaluation]
}

fn sum((a, b): (i64, i64), draws: &mut Draws) -> Row {
    let (a, b) = if draws.below(2) == 0 { (a, b) } else { (b, a) };
    Row { question: format!("What is {a} + {b}?"), answer: format!("{a} + {b} = {0}\n#### {0}", a + b) }
}

/// So many different word problems whose steps take pairs of one side, or as many as there are.
fn words(side: &Pairs, count: usize, draws: &mut Draws) -> Vec<Row> {
    let to = || 2..=LARGEST_OF_WORDS;
    let pairs = to().flat_map(|a| to().map(move |b| [a, b]));
    let triples: Vec<[i64; 3]> = pairs.flat_map(|[a, b]| to().map(move |c| [a, b, c])).collect();
    let belongs = |template: &Template, numbers: [i64; 3]| {
        template.takes(numbers)
            && template.operands(numbers).iter().all(|(a, b)| side.contains(&ordered(*a, *b)))
    };
    let mut rows = Vec::new();
    for template in &TEMPLATES {
        for numbers in triples.iter().filter(|numbers| belongs(template, **numbers)) {
            let named = NAMES.iter().flat_map(|name| THINGS.iter().map(move |thing| (name, thing)));
            rows.extend(named.map(|(name, thing)| template.row(*numbers, name, thing)));
        }
    }
    draws.shuffle(&mut rows);
    rows.truncate(count);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_sandbox::tasks::math::problems::{MathConfig, MathProblems};

    #[test]
    fn training_and_evaluation_have_no_row_and_no_pair_in_common() {
        for seed in 0..5 {
            let problems = Problems::of(seed);
            for evaluated in [&problems.sums, &problems.words] {
                assert_eq!(common(&problems.train, evaluated), (0, 0), "seed {seed}");
            }
            assert_eq!(problems, Problems::of(seed));
            let all = [&problems.train, &problems.sums, &problems.words].into_iter().flatten();
            let different: BTreeSet<&str> = all.clone().map(|row| row.question.as_str()).collect();
            assert_eq!(different.len(), all.count(), "seed {seed}: all rows differ");
            assert_eq!((problems.sums.len(), problems.words.len()), (155, 256));
            let sums = problems.train.iter().filter(|row| row.question.contains('+')).count();
            assert_eq!((sums, problems.train.len()), (310, 930));
        }
        assert_ne!(Problems::of(0), Problems::of(1));
    }

    #[test]
    fn what_is_common_is_found_in_either_order() {
        let row = |question: &str, answer: &str| Row { question: question.into(), answer: answer.into() };
        let one =
            [row("What is 12 + 7?", "12 + 7 = 19\n#### 19"), row("What is 3 + 3?", "3 + 3 = 6\n#### 6")];
        assert_eq!(common(&one, &[row("What is 7 + 12?", "7 + 12 = 19\n#### 19")]), (0, 1));
        assert_eq!(common(&one, &one[..1]), (1, 1));
        let second_step = "5 + 2 = 7\n7 + 12 = 19\n#### 19";
        assert_eq!(common(&one, &[row("Tom finds 5 pens, 2 at noon and 12 later.", second_step)]), (0, 1));
        assert_eq!(common(&one, &[row("What is 12 + 3?", "12 + 3 = 15\n#### 15")]), (0, 0));
    }

    #[test]
    fn answers_are_what_the_questions_ask() {
        let problems = Problems::of(7);
        for row in problems.train.iter().chain(&problems.sums).filter(|row| row.question.contains('+')) {
            let sum: i64 = numbers(&row.question).iter().sum();
            assert!(row.answer.ends_with(&format!("#### {sum}")), "{row:?}");
        }
    }

    #[test]
    fn the_files_are_a_task() {
        let dir = tempfile::tempdir().unwrap();
        let problems = Problems::of(1).evaluated_on(16);
        let files = problems.write(&dir.path().join("data")).unwrap();
        assert_eq!(read(&files.train).unwrap(), problems.train);
        assert_eq!(read(&files.words).unwrap().len(), 16);
        for file in [&files.train, &files.sums, &files.words] {
            MathProblems::new(MathConfig::default(), &fs::read(file).unwrap()).unwrap();
        }
    }
}
