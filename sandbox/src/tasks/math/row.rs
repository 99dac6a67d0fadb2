//! The rows of a `math` file, in the forms in which people have problems with answers.
//!
//! | form | question | answer |
//! |---|---|---|
//! | GSM8K | `question` | `answer`, behind `####` |
//! | MATH, NuminaMath | `problem` | `answer`, or the frame (`\boxed`) in `solution` |
//! | TRL | `prompt`: a text, or messages | `solution`, `ground_truth` or `answer` |
//! | verl | `prompt`: messages | `reward_model.ground_truth` |
//!
//! Keys may have any case, and further keys are passed over. A row is *dead* where no answer could
//! earn on it: it is left out, and whoever founds a run hears of it.

use serde_json::Value;

use super::budget::StepBudget;
use super::normalize::boxed::{self, CountedFrames};
use super::{MAX_FORMULA_BYTES, MAX_STEPS, Parsed, gsm8k_within, latex_within};
use crate::task::data_set::fields::{Fields, asked, described, number_text};
use crate::task::data_set::{MAX_ROWS, Unusable};

/// Steps that reading the answers of a file may take, all of them together: 64 for each of the most rows.
pub const MAX_FILE_STEPS: u32 = 64 * MAX_ROWS as u32;

/// The keys of questions; the first that is there counts.
const QUESTIONS: [&str; 4] = ["question", "problem", "prompt", "messages"];
/// The keys of answers; the first that is there counts.
const ANSWERS: [&str; 6] =
    ["answer", "ground_truth", "reward_model.ground_truth", "final_answer", "expected_answer", "gold"];
/// What data sets write in the place of an answer that they do not have.
const PLACEHOLDERS: [&str; 6] = ["proof", "notfound", "not found", "n/a", "nan", "null"];

/// One problem of the file, with its answer read.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) question: String,
    /// What the response has to come to.
    pub(super) gold: Parsed,
    /// A right response: the solution that the file shows, or the answer alone.
    pub(super) worked: String,
}

impl Row {
    /// Reads a row for its share of the file's budget.
    pub(super) fn of(fields: &Fields, file: &StepBudget) -> Result<Self, Unusable> {
        let question = question(fields)?;
        let budget = StepBudget::new(MAX_STEPS);
        let read = Self::answered(question, fields, &budget);
        if file.charge(MAX_STEPS - budget.left()).is_none() {
            return Err(Unusable::Wrong(format!(
                "reading the answers up to here takes more than {MAX_FILE_STEPS} steps: shorten them, or split the file"
            )));
        }
        read
    }

    fn answered(question: String, fields: &Fields, budget: &StepBudget) -> Result<Self, Unusable> {
        let solution = solution(fields);
        let answer = match answer(fields)? {
            Some(answer) => answer,
            None => in_solution(fields, solution.as_deref())?,
        };
        let shown = |text: &str| text.chars().take(60).collect::<String>();
        let plain = answer.trim();
        if plain.is_empty() {
            return Err(dead("its answer is empty"));
        }
        if PLACEHOLDERS.iter().any(|known| plain.eq_ignore_ascii_case(known)) {
            return Err(dead(&format!("its answer is {plain:?}, which stands for none")));
        }
        // A frame says more clearly than a mark where the answer is.
        let marked = if framed(plain) { None } else { gsm8k_within(plain, budget) };
        let (worked, gold) = match marked {
            Some(gold) => (without_annotations(plain), gold),
            None => {
                let bare = bare_answer(plain);
                if bare.len() > MAX_FORMULA_BYTES {
                    return Err(dead(&format!(
                        "its answer has {} bytes, and a formula at most {MAX_FORMULA_BYTES}: shorten it, or put `#### ` before the answer where it is worked out",
                        bare.len()
                    )));
                }
                let gold = latex_within(&bare, budget);
                (solution.unwrap_or_else(|| plain.to_owned()), gold)
            }
        };
        if gold.is_empty() {
            return Err(dead(&format!("no answer is found in {:?}", shown(plain))));
        }
        if !gold.is_understood() && !is_phrase(&bare_answer(plain)) {
            return Err(dead(&format!(
                "its answer {:?} is neither mathematics nor a few words: only the very same text would earn",
                shown(plain)
            )));
        }
        Ok(Self { question, gold, worked })
    }
}

fn dead(reason: &str) -> Unusable {
    Unusable::Dead(reason.to_owned())
}

/// The question of a row. Where two keys have one, it is that of the first.
fn question(fields: &Fields) -> Result<String, Unusable> {
    let Some((key, value)) = fields.first(&QUESTIONS) else {
        return Err(Unusable::Wrong(format!(
            "it has no question: name it `question`, `problem` or `prompt` (its keys are {})",
            fields.keys()
        )));
    };
    let text = asked(key, value)?;
    if text.trim().is_empty() {
        return Err(dead(&format!("its `{key}` is empty")));
    }
    Ok(text.trim().to_owned())
}

/// A worked solution, where the row shows one.
fn solution(fields: &Fields) -> Option<String> {
    let text = match fields.get("solution")? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number_text(number),
        // As OlympiadBench has them.
        Value::Array(texts) => texts.first()?.as_str()?.to_owned(),
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// The answer of a row as a text; `None` where no key has one.
fn answer(fields: &Fields) -> Result<Option<String>, Unusable> {
    let Some((key, value)) = fields.first(&ANSWERS) else {
        // It may be shown in the solution; otherwise it is missing in this row alone.
        let empty = ANSWERS.iter().any(|key| fields.has(key)) && fields.get("solution").is_none();
        return if empty { Err(dead("its answer is null")) } else { Ok(None) };
    };
    let several = |count: usize| {
        Unusable::Wrong(format!(
            "`{key}` is a list of {count}: write one text, as in \"2, -2\", or a row for each answer"
        ))
    };
    match value {
        Value::String(text) => match serde_json::from_str::<Vec<String>>(text) {
            // As Skywork-OR1 writes them: a list as a text.
            Ok(mut texts) if texts.len() == 1 => Ok(texts.pop()),
            Ok(texts) if texts.len() > 1 => Err(several(texts.len())),
            _ => Ok(Some(text.clone())),
        },
        Value::Number(number) => Ok(Some(number_text(number))),
        Value::Array(values) => match values.as_slice() {
            [Value::String(text)] => Ok(Some(text.clone())),
            [Value::Number(number)] => Ok(Some(number_text(number))),
            [] => Err(dead("its answer is an empty list")),
            values => Err(several(values.len())),
        },
        other => Err(Unusable::Wrong(format!("`{key}` is {}: write a text or a number", described(other)))),
    }
}

/// The answer that a solution shows: in a frame, behind `####`, or it is nothing else.
fn in_solution(fields: &Fields, solution: Option<&str>) -> Result<String, Unusable> {
    /// The longest solution that may be an answer alone, in bytes.
    const LONGEST_ANSWER: usize = 120;
    match solution {
        Some(text) if framed(text) || text.contains("####") => Ok(text.to_owned()),
        Some(text) if text.len() <= LONGEST_ANSWER && !text.trim().contains('\n') => Ok(text.to_owned()),
        Some(_) => {
            Err(dead("it has no `answer`, and its `solution` shows none in \\boxed{…} or behind ####"))
        }
        None if fields.has("solution") => Err(dead("it has no `answer`, and its `solution` is empty")),
        None => Err(Unusable::Wrong(format!(
            "it has no answer: name it `answer`, `ground_truth` or `solution` (its keys are {})",
            fields.keys()
        ))),
    }
}

/// A few words, such as "infinitely many", which a response may well repeat letter by letter.
fn is_phrase(answer: &str) -> bool {
    const MAX_WORDS: usize = 4;
    let plain = answer.replace("\\text", " ");
    let words: Vec<&str> = plain
        .split(|c: char| c.is_whitespace() || "{}".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let is_word = |word: &&str| word.chars().all(|c| c.is_alphabetic() || "-'".contains(c));
    (1..=MAX_WORDS).contains(&words.len()) && words.iter().all(is_word)
}

fn framed(text: &str) -> bool {
    text.contains("\\boxed") || text.contains("\\fbox")
}

/// The answer without what leads to it: what stands in frames, or behind the last `####`.
fn bare_answer(answer: &str) -> String {
    if framed(answer) {
        // A frame without braces goes to the end of the text, which may end a formula and a sentence.
        boxed::contents(answer, CountedFrames::Last).trim_end_matches(['$', '.', ' ', '\n']).to_owned()
    } else {
        answer.rsplit("####").next().unwrap_or(answer).trim().to_owned()
    }
}

/// The text without `<<48/2=24>>`, notes of a calculator that some data sets carry.
fn without_annotations(text: &str) -> String {
    let mut parts = text.split("<<");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(">>").map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::super::{MathOptions, extract, verify};
    use super::*;

    fn read(row: &str) -> Result<Row, Unusable> {
        Row::of(&serde_json::from_str(row).unwrap(), &StepBudget::new(MAX_FILE_STEPS))
    }

    fn earns(row: &str, response: &str) -> bool {
        let options = MathOptions::of_rewards();
        verify(&read(row).unwrap().gold, &extract(response, &options), &options)
    }

    #[test]
    fn the_forms_in_which_people_have_rows_are_read() {
        for row in [
            r##"{"question": "Half of 4?", "answer": "4/2=<<4/2=2>>2\n#### 2"}"##,
            r#"{"problem": "Half of 4?", "solution": "It is $\\boxed{2}$.", "level": 1}"#,
            r#"{"problem": "Half of 4?", "solution": "it is $\\boxed 2$."}"#,
            r#"{"problem": "Half of 4?", "answer": "\\boxed{2}", "solution": null}"#,
            r#"{"problem": "Half of 4?", "answer": 2}"#,
            r#"{"problem": "Half of 4?", "answer": 2.0}"#,
            r#"{"Problem": "Half of 4?", "Answer": "2", "ID": 7}"#,
            r#"{"prompt": "Half of 4?", "solution": "2"}"#,
            r#"{"prompt": [{"role": "user", "content": "Half of 4?"}], "ground_truth": "2"}"#,
            r#"{"prompt": [{"role": "user", "content": "Half of 4?"}], "reward_model": {"ground_truth": "2", "style": "rule"}, "extra_info": {"index": 1}}"#,
            r#"{"prompt": "Half of 4?", "reward_model": {"ground_truth": "[\"2\"]"}}"#,
            r#"{"problem": "Half of 4?", "final_answer": ["2"]}"#,
            r#"{"messages": [{"role": "user", "content": "Half of 4?"}, {"role": "assistant", "content": "2"}], "solution": "$\\boxed{2}$"}"#,
            r#"{"question": "Half of 4?", "problem": "Half of 4?", "answer": "2"}"#,
        ] {
            assert_eq!(read(row).unwrap().question, "Half of 4?", "{row}");
            assert!(earns(row, "So it is \\boxed{2}.") && !earns(row, "\\boxed{3}"), "{row}");
        }
    }

    #[test]
    fn what_the_system_says_stands_before_the_question() {
        let row = r#"{"prompt": [{"role": "system", "content": "Box it."}, {"role": "user", "content": "Half of 4?"}], "answer": "2"}"#;
        assert_eq!(read(row).unwrap().question, "Box it.\n\nHalf of 4?");
    }

    #[test]
    fn rows_that_no_answer_can_earn_on_are_dead() {
        for (row, why) in [
            (r#"{"question": "?", "answer": ""}"#, "empty"),
            (r#"{"question": "?", "answer": null}"#, "null"),
            (r#"{"question": " ", "answer": "2"}"#, "`question` is empty"),
            (r#"{"problem": "Which?", "solution": "…", "answer": "notfound"}"#, "stands for none"),
            (r#"{"problem": "Show it.", "solution": "…", "answer": "proof"}"#, "stands for none"),
            (r#"{"question": "?", "answer": "\\zzz x"}"#, "neither mathematics nor a few words"),
            (r#"{"problem": "?", "solution": "First this.\nThen that."}"#, "shows none"),
        ] {
            let Err(Unusable::Dead(reason)) = read(row) else { panic!("{row}: {:?}", read(row)) };
            assert!(reason.contains(why), "{row}: {reason}");
        }
    }

    #[test]
    fn rows_of_another_form_are_named_with_key_and_mend() {
        for (row, why) in [
            (r#"{"text": "?", "label": "2"}"#, "name it `question`"),
            (r#"{"question": "?"}"#, "name it `answer`"),
            (r#"{"question": 4, "answer": "2"}"#, "`question` is the number 4"),
            (r#"{"question": "?", "answer": ["2", "-2"]}"#, "`answer` is a list of 2"),
            (r#"{"question": "?", "answer": {"value": 2}}"#, "`answer` is an object"),
            (r#"{"question": "?", "answer": true}"#, "`answer` is `true`"),
            (r#"{"prompt": [{"role": "system", "content": "x"}], "answer": "2"}"#, "no message of the user"),
            (r#"{"prompt": [{"text": "x"}], "answer": "2"}"#, "without `role`"),
        ] {
            let Err(Unusable::Wrong(reason)) = read(row) else { panic!("{row}: {:?}", read(row)) };
            assert!(reason.contains(why), "{row}: {reason}");
        }
    }

    #[test]
    fn answers_are_read_within_bounds() {
        let row = |answer: String| {
            serde_json::from_value::<Fields>(serde_json::json!({"question": "?", "answer": answer})).unwrap()
        };
        let whole = || StepBudget::new(MAX_FILE_STEPS);
        let long = Row::of(&row("1+".repeat(MAX_FORMULA_BYTES / 2) + "1"), &whole());
        assert!(matches!(&long, Err(Unusable::Dead(reason)) if reason.contains("2049 bytes")), "{long:?}");
        assert!(Row::of(&row("1+".repeat(MAX_FORMULA_BYTES) + "1 is much\n#### 7"), &whole()).is_ok());
        let file = StepBudget::new(100);
        assert!(Row::of(&row("8".into()), &file).is_ok());
        assert!(file.left() < 100, "a row takes its share");
        let spent = Row::of(&row("1+".repeat(90) + "1"), &file);
        assert!(
            matches!(&spent, Err(Unusable::Wrong(reason)) if reason.contains("split the file")),
            "{spent:?}"
        );
        assert!(Row::of(&row("8".into()), &file).is_err(), "then nothing is left");
    }
}
