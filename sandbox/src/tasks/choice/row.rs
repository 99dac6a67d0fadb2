//! The lines of the file: a question with options each, in one of several forms.
//!
//! | form | options | the right one |
//! |---|---|---|
//! | MMLU | `choices`: a list of texts | `answer`: its place from 0 |
//! | MMLU-Pro | `options`: a list of texts | `answer_index`, or `answer`: a letter or the text |
//! | ARC | `choices`: `{"text", "label"}`, or a list of such | `answerKey`: a label |
//! | GPQA | `Incorrect Answer 1` to `3` | `Correct Answer` |
//! | SciQ | `distractor1` to `3`, or `incorrect_answers` | `correct_answer` |

use serde_json::{Map, Value};

/// Most options of a question: there are no more letters.
pub(super) const MAX_OPTIONS: usize = 26;

/// Keys that a question may stand under.
const QUESTION: [&str; 3] = ["question", "Question", "problem"];
/// Keys of the right option where it stands apart from the others.
const CORRECT: [&str; 2] = ["Correct Answer", "correct_answer"];
/// Keys of the others then.
const INCORRECT: [&str; 6] = [
    "Incorrect Answer 1",
    "Incorrect Answer 2",
    "Incorrect Answer 3",
    "distractor1",
    "distractor2",
    "distractor3",
];

/// One question of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChoiceRow {
    pub(super) question: String,
    /// In the order of the file.
    pub(super) options: Vec<String>,
    /// The place of the right one among them.
    right: usize,
}

impl ChoiceRow {
    /// Reads a row.
    ///
    /// # Errors
    /// What is missing or cannot be read, with its key.
    pub(super) fn of(fields: Map<String, Value>) -> Result<Self, String> {
        let question = QUESTION.iter().find_map(|key| fields.get(*key));
        let question = question.ok_or("it has no `question`")?;
        let question = text("question", question)?;
        let (options, right) = if let Some(correct) = CORRECT.iter().find_map(|key| fields.get(*key)) {
            apart(&fields, correct)?
        } else {
            listed(&fields)?
        };
        if !(2..=MAX_OPTIONS).contains(&options.len()) {
            return Err(format!("it has {} options: a question has 2 to {MAX_OPTIONS}", options.len()));
        }
        if question.is_empty() || options.iter().any(String::is_empty) {
            return Err("the question or one of its options is empty".into());
        }
        if options.iter().all(|option| *option == options[right]) {
            return Err("all of its options are the same: every answer would be right".into());
        }
        Ok(Self { question, options, right })
    }

    /// Whether the option at this place is right: some sets have the same text twice.
    pub(super) fn is_right(&self, option: usize) -> bool {
        self.options[option] == self.options[self.right]
    }

    /// Whether an option speaks of others by their letter or place, as "all of the above" does.
    pub(super) fn keeps_order(&self) -> bool {
        let letters = |option: &str| {
            let words: Vec<&str> = option.split(|c: char| !c.is_alphanumeric()).collect();
            let is_letter = |word: &str| word.len() == 1 && word.as_bytes()[0].is_ascii_uppercase();
            words.windows(3).any(|three| {
                matches!(three[1], "and" | "or" | "nor" | "but") && is_letter(three[0]) && is_letter(three[2])
            })
        };
        let places = |option: &str| {
            let mut words = option.split(|c: char| !c.is_alphanumeric());
            words.any(|word| {
                ["above", "below", "preceding"].iter().any(|place| word.eq_ignore_ascii_case(place))
            })
        };
        self.options.iter().any(|option| letters(option) || places(option))
    }
}

/// A text, or a number that is one.
fn text(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(format!("`{key}` is no text")),
    }
}

fn texts(key: &str, values: &[Value]) -> Result<Vec<String>, String> {
    values.iter().map(|value| text(key, value)).collect()
}

/// The right option, and the others under keys of their own.
fn apart(fields: &Map<String, Value>, correct: &Value) -> Result<(Vec<String>, usize), String> {
    let mut options = vec![text("Correct Answer", correct)?];
    for key in INCORRECT {
        options.extend(fields.get(key).map(|value| text(key, value)).transpose()?);
    }
    if let Some(others) = fields.get("incorrect_answers") {
        let others = others.as_array().ok_or("`incorrect_answers` is no list")?;
        options.extend(texts("incorrect_answers", others)?);
    }
    Ok((options, 0))
}

/// A list of options, and something that says which is right.
fn listed(fields: &Map<String, Value>) -> Result<(Vec<String>, usize), String> {
    let choices = fields.get("choices").or_else(|| fields.get("options"));
    let choices = choices.ok_or(
        "it has neither `choices` (as in MMLU and ARC) nor `options` (as in MMLU-Pro) nor `Correct Answer` (as in GPQA)",
    )?;
    let (options, labels) = match choices {
        Value::Object(lists) => labelled_lists(lists)?,
        Value::Array(items) if items.iter().any(Value::is_object) => labelled_items(items)?,
        Value::Array(items) => (texts("choices", items)?, None),
        _ => return Err("`choices` is no list of options".into()),
    };
    let right = right(fields, &options, labels.as_deref())?;
    Ok((options, right))
}

type Labelled = (Vec<String>, Option<Vec<String>>);

/// `{"text": […], "label": […]}`
fn labelled_lists(lists: &Map<String, Value>) -> Result<Labelled, String> {
    let list = |key: &str| {
        let values = lists.get(key).and_then(Value::as_array);
        texts(key, values.ok_or_else(|| format!("`choices` has no list `{key}`"))?)
    };
    let (options, labels) = (list("text")?, list("label")?);
    if options.len() != labels.len() {
        return Err(format!("`choices` has {} texts and {} labels", options.len(), labels.len()));
    }
    Ok((options, Some(labels)))
}

/// `[{"text", "label"}, …]`
fn labelled_items(items: &[Value]) -> Result<Labelled, String> {
    let of = |key: &str| -> Result<Vec<String>, String> {
        let field = |item: &Value| text(key, item.get(key).unwrap_or(&Value::Null));
        items.iter().map(field).collect()
    };
    Ok((of("text")?, Some(of("label")?)))
}

/// The place of the right option.
fn right(
    fields: &Map<String, Value>,
    options: &[String],
    labels: Option<&[String]>,
) -> Result<usize, String> {
    let keys = ["answerKey", "answer_index", "answer"];
    let (key, value) = keys
        .iter()
        .find_map(|key| Some((*key, fields.get(*key)?)))
        .ok_or("it has neither `answer` nor `answerKey`: nothing says what is right")?;
    let found = match value {
        Value::Number(number) if labels.is_none() => number
            .as_u64()
            .and_then(|place| usize::try_from(place).ok())
            .filter(|place| *place < options.len()),
        _ => {
            let said = text(key, value)?;
            let label = labels.and_then(|labels| labels.iter().position(|label| *label == said));
            label
                .or_else(|| options.iter().position(|option| *option == said))
                .or_else(|| by_letter(&said, options))
        }
    };
    found.ok_or_else(|| {
        format!(
            "`{key}` is {value}, which is none of its {} options: give a place from 0, a letter or the text",
            options.len()
        )
    })
}

/// `B`, or `1`: sets that are written by hand have their places as text now and then.
fn by_letter(said: &str, options: &[String]) -> Option<usize> {
    let place = match said.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => usize::from(letter.to_ascii_uppercase() - b'A'),
        _ => said.parse().ok()?,
    };
    (place < options.len()).then_some(place)
}
