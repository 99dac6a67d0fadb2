//! Where in a text the answer stands: ways to announce an answer, from the most to the least certain.
//!
//! Of the ways with the same certainty the match that ends last is tried first, and the first that
//! can be read is the answer. What was found first is kept as text too: two texts that are the same
//! are the same answer, read or not.

mod choice;
mod environment;
mod number;
mod phrase;

use std::sync::Arc;

use crate::task::behind_thinking;

use super::budget::StepBudget;
use super::expr::{Expr, SharedExpr};
use super::normalize::boxed::{self, CountedFrames};
use super::normalize::characters;
use super::{MatchType, MathOptions, Parsed, normalize, parse};

/// Only so much of the end of a text is looked at, in bytes.
pub const MAX_TEXT_BYTES: usize = 32 * 1024;

/// So many matches of one text are read at most.
pub const MAX_MATCHES: usize = 128;

/// So many occurrences of an announcement are looked at, the last ones.
const MAX_ANNOUNCEMENTS: usize = 128;

/// What normalizing and splitting a formula costs, in steps a byte.
const STEPS_PER_BYTE: u32 = 4;

/// How far after "answer" the answer may begin, in characters.
const AFTER_ANSWER: usize = 50;

/// How far after "final answer" its "is" may stand, and after "answer" the equals sign before
/// a number, in characters.
const AFTER_FINAL_ANSWER: usize = 100;

/// The certainties, from high to low; smaller numbers count first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// Behind `####`, as the solutions of GSM8K.
    Marked,
    /// "final answer is ... I hope"
    Hoped,
    /// "final answer ... is"
    Final,
    /// Announced by "answer:", with its colon.
    Colon,
    /// Announced by "answer" without a colon.
    Answer,
    /// Nothing; a line's beginning for choices.
    Start,
    /// Not announced: anywhere in the text.
    Anywhere,
}

const ANCHORS: [(Anchor, i32); 7] = [
    (Anchor::Hoped, 0),
    (Anchor::Marked, 25),
    (Anchor::Final, 50),
    (Anchor::Colon, 100),
    (Anchor::Answer, 200),
    (Anchor::Start, 250),
    (Anchor::Anywhere, 300),
];

/// A piece of a text that may be the answer.
#[derive(Debug, Clone)]
struct Match<'a> {
    start: usize,
    end: usize,
    found: Found<'a>,
}

#[derive(Debug, Clone)]
enum Found<'a> {
    /// Formulas between their delimiters.
    Formulas(Vec<Formula<'a>>),
    /// From a `\boxed` to the last brace of the text.
    Boxed(&'a str),
    Number {
        integer: &'a str,
        decimals: &'a str,
        /// A power of ten: `1.5e3`, "5 million".
        exponent: i32,
        percent: bool,
    },
    /// What an announcement says without delimiters: a word, or a term with letters.
    Phrase(&'a str),
    /// A time or a range: announced, but no single number.
    Unclear(&'a str),
    /// A term of digits and signs of arithmetic.
    Arithmetic(&'a str),
    Choice(char),
}

#[derive(Debug, Clone, Copy)]
struct Formula<'a> {
    content: &'a str,
    percent: bool,
}

/// Finds and reads the answer of a text, behind its thinking. Thinking that never ends says nothing.
pub(super) fn extract(text: &str, options: &MathOptions, budget: &StepBudget) -> Parsed {
    behind_thinking(text).map(|judged| of_judged(judged, options, budget)).unwrap_or_default()
}

/// The same for a text of which a run has taken the thinking away: marks of thinking are text there.
pub(super) fn of_judged(judged: &str, options: &MathOptions, budget: &StepBudget) -> Parsed {
    let text = said(judged);
    let text = &framed_alike(characters::plain(tail(text)));
    let mut parsed = Parsed::default();
    let mut tried = 0;
    let mut priorities: Vec<i32> = ANCHORS.iter().map(|(_, priority)| *priority).collect();
    priorities.extend(options.boxed_match_priority);
    priorities.sort_unstable();
    priorities.dedup();
    for priority in priorities {
        let mut matches = matches(text, priority, options);
        // Those that end last first, of these the longest.
        matches.sort_by(|a, b| b.end.cmp(&a.end).then(a.start.cmp(&b.start)));
        for found in matches {
            tried += 1;
            if tried > MAX_MATCHES {
                return parsed;
            }
            let (value, text) = read(&found.found, budget);
            if let Found::Unclear(_) = found.found {
                return Parsed { text: Some(text), ..Parsed::default() };
            }
            if parsed.text.is_none() && !text.is_empty() {
                parsed.text = Some(text);
            }
            if value.is_some() {
                parsed.value = value;
                return parsed;
            }
        }
    }
    parsed
}

/// What a text says in the end: within the last `<answer>`.
fn said(text: &str) -> &str {
    if let Some(start) = text.rfind("<answer>") {
        let answer = &text[start + "<answer>".len()..];
        let (answer, after) = answer.split_once("</answer>").unwrap_or((answer, ""));
        if !answer.trim().is_empty() && !after.contains("\\boxed") {
            return answer;
        }
    }
    text
}

/// The text with all frames spelled as `\boxed{`.
fn framed_alike(text: String) -> String {
    const SPELLINGS: [&str; 3] = ["\\fbox{", "\\fbox {", "\\boxed {"];
    SPELLINGS.iter().fold(text, |text, spelling| match text.contains(*spelling) {
        true => text.replace(*spelling, "\\boxed{"),
        false => text,
    })
}

fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(MAX_TEXT_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

fn matches<'a>(text: &'a str, priority: i32, options: &MathOptions) -> Vec<Match<'a>> {
    let mut all = Vec::new();
    for kind in &options.match_types {
        for (anchor, _) in ANCHORS.iter().filter(|(_, of)| *of == priority) {
            match kind {
                MatchType::Latex => environment::matches(text, *anchor, &mut all),
                MatchType::Expr => {
                    number::matches(text, *anchor, &mut all);
                    phrase::matches(text, *anchor, &mut all);
                }
                MatchType::String => choice::matches(text, *anchor, &mut all),
            }
        }
        if *kind == MatchType::Latex && options.boxed_match_priority == Some(priority) {
            environment::boxed(text, &mut all);
        }
    }
    all
}

/// Reads a match, and says what it was as text.
fn read(found: &Found<'_>, budget: &StepBudget) -> (Option<SharedExpr>, String) {
    match found {
        Found::Formulas(formulas) => read_formulas(formulas, budget),
        Found::Boxed(text) => match normalized(text, CountedFrames::Last, budget) {
            Some(formula) => (parse::parse(&formula, budget), formula),
            None => (None, String::new()),
        },
        Found::Number { integer, decimals, exponent, percent } => {
            let integer: String = integer.chars().filter(|c| !matches!(c, ',' | ' ')).collect();
            let integer = integer.trim_start_matches('0');
            let integer = if integer.is_empty() { "0" } else { integer };
            let mut text = format!("{integer}{}", decimals.replace(',', "."));
            if *exponent != 0 {
                text.push_str(&format!("E{exponent}"));
            }
            let number = super::number::parse(&text)
                .map(|value| Expr::Number(super::expr::Number { value, decimal: !decimals.is_empty() }));
            let value = number.map(|number| match percent {
                true => Arc::new(Expr::Percent(Arc::new(number))),
                false => Arc::new(number),
            });
            if *percent {
                text.push_str("\\%");
            }
            (value, text)
        }
        Found::Arithmetic(text) => (super::arithmetic::parse(text), (*text).to_owned()),
        Found::Phrase(text) => match normalized(text, CountedFrames::Last, budget) {
            Some(formula) => (parse::parse(&formula, budget), formula),
            None => (None, String::new()),
        },
        Found::Unclear(text) => (None, (*text).to_owned()),
        Found::Choice(letter) => {
            let text = letter.to_string();
            (None, text.to_lowercase())
        }
    }
}

fn normalized(formula: &str, frames: CountedFrames, budget: &StepBudget) -> Option<String> {
    let content = boxed::contents(formula, frames);
    budget.charge(u32::try_from(content.len()).ok()?.checked_mul(STEPS_PER_BYTE)?)?;
    normalize::normalize(&content)
}

/// One formula is the answer; several that can all be read are a set of answers.
fn read_formulas(formulas: &[Formula<'_>], budget: &StepBudget) -> (Option<SharedExpr>, String) {
    let mut values = Vec::new();
    let mut texts = Vec::new();
    for formula in formulas {
        let Some(text) = normalized(formula.content, CountedFrames::All, budget) else {
            values.push(None);
            texts.push(String::new());
            continue;
        };
        let value = parse::parse(&text, budget).and_then(|value| match formula.percent {
            true if value.is_collection() || !value.relations().is_empty() => None,
            true => Some(Arc::new(Expr::Percent(value))),
            false => Some(value),
        });
        values.push(value);
        texts.push(text);
    }
    if values.len() > 1
        && let Some(all) = values.iter().cloned().collect::<Option<Vec<_>>>()
    {
        let elements = all.iter().flat_map(|value| match &**value {
            Expr::Set(elements) | Expr::List(elements) => elements.clone(),
            _ => vec![value.clone()],
        });
        return (Some(Arc::new(Expr::List(elements.collect()))), texts.join(" and "));
    }
    match (values.into_iter().next(), texts.into_iter().next()) {
        (Some(value), Some(text)) => (value, text),
        _ => (None, String::new()),
    }
}

/// The parts of a text in brackets with words in them, as in `42 eggs (see step 1)`: asides.
fn asides(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => open = Some(at),
            b'\n' => open = None,
            b')' => {
                let inside =
                    open.take().filter(|open| text[*open..at].contains(|c: char| c.is_ascii_alphabetic()));
                found.extend(inside.map(|open| (open, at)));
            }
            _ => {}
        }
    }
    found
}

/// Where `word` begins in `text`, in upper or lower case.
fn occurrences(text: &str, word: &str) -> impl Iterator<Item = usize> {
    let windows = text.as_bytes().windows(word.len()).enumerate();
    windows.filter(|(_, found)| found.eq_ignore_ascii_case(word.as_bytes())).map(|(at, _)| at)
}

/// The place after the white space at `at`.
fn skip_space(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start().len()
}

/// Tries `target` after every occurrence of an announcement, as a search that never goes back
/// over what it found. `gap_ends` gives the places where the target may begin, in the order in
/// which they are tried.
fn announced<'a>(
    text: &str,
    announcement: &str,
    gap_ends: impl Fn(usize) -> Vec<usize>,
    target: impl Fn(usize) -> Option<(Found<'a>, usize)>,
    all: &mut Vec<Match<'a>>,
) {
    let starts: Vec<usize> = occurrences(text, announcement).collect();
    let mut from = 0;
    for &start in &starts[starts.len().saturating_sub(MAX_ANNOUNCEMENTS)..] {
        if start < from {
            continue;
        }
        if let Some((found, end)) = gap_ends(start + announcement.len()).into_iter().find_map(&target) {
            from = end;
            all.push(Match { start, end, found });
        }
    }
}

/// Tries `target` at every place of a text, as a search that never goes back over what it found.
fn everywhere<'a>(
    text: &str,
    target: impl Fn(usize) -> Option<(Found<'a>, usize)>,
    all: &mut Vec<Match<'a>>,
) {
    let mut at = 0;
    while at <= text.len() {
        match text.is_char_boundary(at).then(|| target(at)).flatten() {
            Some((found, end)) => {
                all.push(Match { start: at, end, found });
                at = end.max(at + 1);
            }
            None => at += 1,
        }
    }
}

/// The places from `at` on, up to `most` characters later, in order; `lines` says whether
/// line ends are passed.
fn within(text: &str, at: usize, most: usize, lines: bool) -> Vec<usize> {
    let mut places = vec![at];
    for (offset, c) in text[at..].char_indices().take(most) {
        if c == '\n' && !lines {
            break;
        }
        places.push(at + offset + c.len_utf8());
    }
    places
}

/// The places after "final answer" where what it is may begin: after "is", a colon, and some
/// of the white space.
fn after_is(text: &str, at: usize, lines: bool) -> Vec<usize> {
    let mut places = Vec::new();
    for gap in within(text, at, AFTER_FINAL_ANSWER, lines) {
        let is = skip_space(text, gap);
        if is > gap && text[is..].starts_with("is") {
            places.extend(after_colon(text, is + "is".len()));
        }
    }
    places
}

/// The places after an optional colon and white space, the last first.
fn after_colon(text: &str, at: usize) -> Vec<usize> {
    let at = at + usize::from(text[at..].starts_with(':'));
    let end = skip_space(text, at);
    let before = text[..end].char_indices().next_back().map(|(place, _)| place).filter(|place| *place >= at);
    let mut places = vec![end];
    places.extend(before);
    places
}

/// Whether "I hope" follows, after an optional full stop.
fn hoped(text: &str, at: usize) -> bool {
    let rest = text[at..].trim_start();
    rest.strip_prefix('.').unwrap_or(rest).trim_start().starts_with("I hope")
}
