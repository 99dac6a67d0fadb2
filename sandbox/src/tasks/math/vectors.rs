//! Checks judgements against recorded ones (one JSON object a line).
//!
//! Three forms of lines are known: `gold`, `pred`, `expected` and `opts` as the reference checker's tests have them;
//! GSM8K, with an `answer` that ends in `#### x`; MATH, with `answer` and a `solution` that frames it. Of the last two
//! the gold answer must be found in the solution and be equal to itself.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Options, Parsed, extract, gsm8k, latex, verify};

/// Longest line read from a case file, in bytes.
pub const MAX_LINE_BYTES: u64 = 1024 * 1024;
/// Most lines read from a case file.
pub const MAX_CASES: usize = 100_000;
/// Most disagreements that a report describes; further ones are only counted.
pub const MAX_DISAGREEMENTS: usize = 1_000;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Lines read.
    pub cases: usize,
    /// Lines on which we agree.
    pub agreed: usize,
    /// The first [`MAX_DISAGREEMENTS`] lines on which we do not.
    pub disagreements: Vec<Disagreement>,
}

/// A line on which we do not agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disagreement {
    /// Line number, from 1.
    pub line: usize,
    /// The gold answer's text.
    pub gold: String,
    /// The judged text.
    pub prediction: String,
    /// The recorded judgement.
    pub expected: bool,
    /// Ours.
    pub got: bool,
    /// What we found in the gold text: its normalized text, and the value that was read.
    pub gold_extracted: String,
    /// The same for the judged text.
    pub extracted: String,
}

/// Why a case file could not be checked.
#[derive(Debug, Error)]
pub enum VectorError {
    /// The file cannot be read.
    #[error("cannot read math vectors {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not a case.
    #[error(
        "{path}, line {line}: not a math vector ({reason}); expected gold, pred and expected, or the answer of a \
         GSM8K or MATH problem"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file is larger than the limits allow.
    #[error("{path} has more than {MAX_CASES} lines: split the file")]
    TooManyCases {
        /// The file.
        path: PathBuf,
    },
}

/// One recorded judgement.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Case {
    /// A pair of texts.
    Pair {
        /// The gold answer's text.
        gold: String,
        /// The text to judge.
        pred: String,
        /// Whether they are equal.
        expected: bool,
        /// How they are compared.
        #[serde(default)]
        opts: Options,
    },
    /// A MATH problem.
    Math {
        /// A solution with the answer in a frame.
        solution: String,
        /// The answer, LaTeX without delimiters.
        answer: String,
    },
    /// A GSM8K problem.
    Gsm8k {
        /// A solution that ends in `#### ` and a number.
        answer: String,
    },
}

impl Case {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// Judges the case: `None` where we agree. The line number is the report's.
    pub fn check(&self, line: usize) -> Option<Disagreement> {
        let (gold_text, prediction_text, expected, options) = match self {
            Self::Pair { gold, pred, expected, opts } => (gold, pred, *expected, opts.clone()),
            Self::Math { solution, answer } => (answer, solution, true, Options::default()),
            Self::Gsm8k { answer } => (answer, answer, true, Options::default()),
        };
        let gold = match self {
            Self::Pair { .. } => extract(gold_text, &options),
            Self::Math { .. } => latex(gold_text),
            Self::Gsm8k { .. } => gsm8k(gold_text).unwrap_or_default(),
        };
        let prediction = match self {
            // What follows the mark is what a response would end in.
            Self::Gsm8k { answer } => {
                let last = answer.rsplit("####").next().unwrap_or_default();
                extract(&format!("The final answer is {}.", last.trim()), &options)
            }
            _ => extract(prediction_text, &options),
        };
        let got = verify(&gold, &prediction, &options);
        (got != expected).then(|| Disagreement {
            line,
            gold: gold_text.clone(),
            prediction: prediction_text.clone(),
            expected,
            got,
            gold_extracted: described(&gold),
            extracted: described(&prediction),
        })
    }
}

fn described(parsed: &Parsed) -> String {
    let text = parsed.text().unwrap_or("nothing");
    if parsed.is_understood() { text.to_owned() } else { format!("{text} (not understood)") }
}

/// Judges every line of a file.
///
/// # Errors
/// [`VectorError`] when the file cannot be read or a line is not a case. A disagreement is no error: it is counted in
/// the report.
pub fn check_file(path: &Path) -> Result<Report, VectorError> {
    let read_error = |source| VectorError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(read_error)?);
    let mut report = Report::default();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut text).map_err(read_error)? == 0 {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        if report.cases == MAX_CASES {
            return Err(VectorError::TooManyCases { path: path.to_owned() });
        }
        let malformed = |reason: serde_json::Error| VectorError::Malformed {
            path: path.to_owned(),
            line,
            reason: reason.to_string(),
        };
        report.add(Case::from_json(&text).map_err(malformed)?.check(line));
    }
    Ok(report)
}

impl Report {
    fn add(&mut self, disagreement: Option<Disagreement>) {
        self.cases += 1;
        match disagreement {
            None => self.agreed += 1,
            Some(disagreement) if self.disagreements.len() < MAX_DISAGREEMENTS => {
                self.disagreements.push(disagreement);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
