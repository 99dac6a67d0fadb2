//! Mathematical answers: finds the final answer of a text, reads it, and says whether it is the gold answer.
//!
//! A port of what the reference checker (`math-verify` 0.8) decides, not of how: no signals and
//! no clock bound the work but a budget of steps, and terms are compared at seeded points
//! instead of by simplification.
//!
//! ```
//! use echo_sandbox::tasks::math::{MathOptions, judge};
//!
//! let judged = judge("$\\frac{1}{2}$", "So the answer is \\boxed{0.5}.", &MathOptions::default());
//! assert!(judged.equal);
//! ```
//!
//! - `extract`: `\boxed` and announced answers, the last match first;
//! - `normalize`, `token`, `parse`, `arithmetic`: from LaTeX or plain arithmetic to expressions;
//! - `evaluate`, `scalar`, `number`: exact rationals, or complex floats with a bound on their error;
//! - `compare`: gold first; a gold inequality may be answered by an interval, not the other way round;
//! - [`problems`]: the task, over the problems of a file, whose rows `row` reads;
//! - [`vectors`]: files of recorded judgements.

mod arithmetic;
mod budget;
mod compare;
mod evaluate;
mod expr;
mod extract;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod normalize;
mod number;
mod parse;
pub mod problems;
mod row;
mod scalar;
mod seed;
mod token;
pub mod vectors;

use serde::{Deserialize, Serialize};

pub use self::budget::MAX_STEPS;
use self::budget::StepBudget;
use self::compare::Comparison;
use self::expr::SharedExpr;
pub use self::extract::{MAX_MATCHES, MAX_TEXT_BYTES};
pub use self::parse::MAX_DEPTH;
pub use self::token::MAX_FORMULA_BYTES;

/// What is looked for in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchType {
    /// Formulas between dollar signs and the like.
    Latex,
    /// Plain numbers and arithmetic.
    Expr,
    /// The letters A to D of multiple choice.
    String,
}

/// How answers are found and compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MathOptions {
    /// What is looked for; of equally good matches the type that comes first counts.
    /// Default: formulas and numbers.
    pub match_types: Vec<MatchType>,
    /// To how many decimals a decimal number is compared, at most [`MAX_PRECISION`]. Default 6.
    pub precision: u32,
    /// Whether variables must have the same names. Default true.
    pub strict: bool,
    /// Whether a gold set may be answered by an inequality. Default false; the other way
    /// round is always allowed.
    pub allow_set_relation_comp: bool,
    /// Among the announcements' priorities (0, 50, 100, 200, 300; smaller ones first) that of
    /// `\boxed`; `None` or a negative number where it means nothing. Default 0.
    #[serde(deserialize_with = "priority")]
    pub boxed_match_priority: Option<i32>,
}

/// The most decimals that can be asked for.
pub const MAX_PRECISION: u32 = 100;

fn priority<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    Ok(Option::<i32>::deserialize(deserializer)?.filter(|priority| *priority >= 0))
}

impl MathOptions {
    /// How the rewards of a run are given: an interval may be answered by the inequality that
    /// describes it.
    pub fn of_rewards() -> Self {
        Self { allow_set_relation_comp: true, ..Self::default() }
    }
}

impl Default for MathOptions {
    fn default() -> Self {
        Self {
            match_types: vec![MatchType::Latex, MatchType::Expr],
            precision: 6,
            strict: true,
            allow_set_relation_comp: false,
            boxed_match_priority: Some(0),
        }
    }
}

/// What a text gives as its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    value: Option<SharedExpr>,
    text: Option<String>,
    /// Whether the percent sign may be part of the question, as with GSM8K's numbers.
    bare: bool,
}

impl Parsed {
    /// Nothing was found, or nothing that could be read.
    pub fn is_empty(&self) -> bool {
        self.value.is_none() && self.text.as_deref().is_none_or(str::is_empty)
    }

    /// Whether the answer was understood: otherwise only the same text is equal to it.
    pub fn is_understood(&self) -> bool {
        self.value.is_some()
    }

    /// The text of the first match, normalized.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The answer for people; `None` where nothing was found.
    pub fn shown(&self) -> Option<String> {
        let text = self.text().filter(|text| !text.is_empty())?;
        let doubt =
            if self.is_understood() { "" } else { " (not understood: only the same text is equal to it)" };
        Some(format!("{text}{doubt}"))
    }
}

/// What [`judge`] finds about one response.
#[derive(Debug, Clone, PartialEq)]
pub struct MathJudgement {
    /// Whether the response gives the gold answer.
    pub equal: bool,
    /// What the response gave as its answer.
    pub extracted: Parsed,
}

/// Finds and reads the answer in a text, behind its thinking and within [`MAX_STEPS`].
pub fn extract(text: &str, options: &MathOptions) -> Parsed {
    extract::extract(text, options, &StepBudget::new(MAX_STEPS))
}

/// The same for the judged part of a response, whose thinking was taken away.
fn extract_judged(judged: &str, options: &MathOptions) -> Parsed {
    extract::of_judged(judged, options, &StepBudget::new(MAX_STEPS))
}

/// Reads a gold answer that is LaTeX without delimiters, as the `answer` of MATH.
pub fn latex(formula: &str) -> Parsed {
    latex_within(formula, &StepBudget::new(MAX_STEPS))
}

fn latex_within(formula: &str, budget: &StepBudget) -> Parsed {
    let Some(text) = normalize::normalize(formula) else { return Parsed::default() };
    Parsed { value: parse::parse(&text, budget), text: Some(text), bare: false }
}

/// Reads the gold answer of a GSM8K solution: the number after the last `####`. `None` where there is none.
pub fn gsm8k(answer: &str) -> Option<Parsed> {
    gsm8k_within(answer, &StepBudget::new(MAX_STEPS))
}

fn gsm8k_within(answer: &str, budget: &StepBudget) -> Option<Parsed> {
    let (_, last) = answer.rsplit_once("####")?;
    let options = MathOptions { match_types: vec![MatchType::Expr], ..MathOptions::default() };
    let found = extract::extract(last.trim(), &options, budget);
    Some(Parsed { bare: true, ..found }).filter(Parsed::is_understood)
}

/// Whether the prediction says what the gold answer says, within [`MAX_STEPS`]. The order matters.
pub fn verify(gold: &Parsed, prediction: &Parsed, options: &MathOptions) -> bool {
    verify_within(gold, prediction, options, &StepBudget::new(MAX_STEPS))
}

fn verify_within(gold: &Parsed, prediction: &Parsed, options: &MathOptions, budget: &StepBudget) -> bool {
    if let (Some(gold), Some(prediction)) = (&gold.text, &prediction.text)
        && gold == prediction
        && !gold.is_empty()
    {
        return true;
    }
    let bare = gold.bare;
    let (Some(gold), Some(prediction)) = (&gold.value, &prediction.value) else { return false };
    let prediction = match &**prediction {
        expr::Expr::Percent(number) if bare && !matches!(&**gold, expr::Expr::Percent(_)) => number,
        _ => prediction,
    };
    let options = &MathOptions { precision: options.precision.min(MAX_PRECISION), ..options.clone() };
    Comparison { options, budget }.answers(gold, prediction)
}

/// Compares the answers of two texts, the gold one first.
pub fn judge(gold: &str, response: &str, options: &MathOptions) -> MathJudgement {
    let extracted = extract(response, options);
    MathJudgement { equal: verify(&extract(gold, options), &extracted, options), extracted }
}

#[cfg(test)]
mod tests;
