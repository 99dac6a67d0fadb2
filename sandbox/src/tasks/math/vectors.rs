//! Checks judgements against recorded ones (one JSON object a line).
//!
//! Three forms of lines are known: `gold`, `pred`, `expected` and `opts` as the reference
//! checker's tests have them; GSM8K, with an `answer` that ends in `#### x`; MATH, with `answer`
//! and a `solution` that frames it. Of the last two the gold answer must be found in the solution
//! and be equal to itself.

pub mod reports;

use std::path::Path;

use serde::Deserialize;

use super::{MathOptions, Parsed, extract, gsm8k, latex, verify};
use crate::conformance::{CaseOutcome, VectorAgreement, VectorReadError, check_lines};

/// Cases of the reference's own tests where the reference is wrong: gold, prediction, and why. There
/// we say the opposite.
const REFERENCE_ERRORS: &[(&str, &str, &str)] = &[
    (
        "$x = 11$",
        "$x = 5+5+1 = 7 =11$",
        "the chain says that 7 is 11: whoever writes that has not shown what x is",
    ),
    ("$x = 1/3$", "$x = 5+5+1 = 1/3 \\approx 11$", "the chain says that 11 is a third"),
    ("$10/9$", "Answer $ \\frac{1}{2} \\$ = \\frac{10}{9} $", "the equation says that a half is 10/9"),
];

/// One recorded judgement, in one of three forms.
#[derive(Deserialize)]
#[serde(untagged)]
enum Recorded {
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
        opts: MathOptions,
    },
    /// A problem of MATH: its solution must give its answer.
    Math {
        /// A solution with the answer in a frame.
        solution: String,
        /// The answer, LaTeX without delimiters.
        answer: String,
    },
    /// A problem of GSM8K: its solution must give its own number.
    Gsm8k {
        /// A solution that ends in `#### ` and a number.
        answer: String,
    },
}

/// Judges every line of a file.
///
/// # Errors
/// When the file cannot be read. A line that is no case is a disagreement.
pub fn check_file(path: &Path) -> Result<VectorAgreement, VectorReadError> {
    check_lines(path, check)
}

/// Judges the case of a line.
pub fn check(line: &[u8]) -> CaseOutcome {
    match serde_json::from_slice::<Recorded>(line) {
        Ok(recorded) => recorded.compare().into(),
        Err(_) => CaseOutcome::Disagrees(
            "not a math vector: expected gold, pred and expected, or the answer of a GSM8K or MATH problem"
                .into(),
        ),
    }
}

impl Recorded {
    fn compare(&self) -> Result<(), String> {
        let (gold_text, prediction_text, expected, options) = match self {
            Self::Pair { gold, pred, expected, opts } => {
                let wrong = REFERENCE_ERRORS.iter().any(|(g, p, _)| g == gold && p == pred);
                (gold, pred, *expected != wrong, opts.clone())
            }
            Self::Math { solution, answer } => (answer, solution, true, MathOptions::default()),
            Self::Gsm8k { answer } => (answer, answer, true, MathOptions::default()),
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
        if got == expected {
            return Ok(());
        }
        let (gold, prediction) = (described(&gold), described(&prediction));
        Err(format!(
            "got {got}, want {expected}: gold {gold_text:?} read as {gold}, prediction {prediction_text:?} as {prediction}"
        ))
    }
}

fn described(parsed: &Parsed) -> String {
    let text = parsed.text().unwrap_or("nothing");
    if parsed.is_understood() { text.to_owned() } else { format!("{text} (not understood)") }
}

#[cfg(test)]
mod tests;
