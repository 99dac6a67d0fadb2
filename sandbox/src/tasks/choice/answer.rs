//! The letter that a response gives as its answer.
//!
//! The first of these that there is, each time the last of its kind:
//!
//! 1. what stands within `\boxed{…}`;
//! 2. an announcement, such as "answer: B", "The answer is (B)" or "the correct option is B";
//! 3. a letter in brackets, `(B)`;
//! 4. a letter that stands alone. `A` and `I` before a word in lower case are words.
//!
//! Of 3 and 4, a letter that is denied, as in "not B", does not count.
//!
//! Thinking was taken away before. Of `<answer>…</answer>` only the inside is looked at. Where several
//! letters are given at one place, as in "A or B", no answer is.

use std::sync::LazyLock;

use regex::{Match, Regex};

use crate::tasks::denial;

/// What a response says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// The option at this place.
    One(usize),
    /// More than one, or one that there is not.
    Unclear,
}

/// What may stand between an announcement and its letter: marks, and LaTeX's upright or bold type.
const FRAME: &str = r"(?:[\s*_:=\-\(\[\{\$`\x22'.]|\\(?:text(?:bf|rm|it)?|mathrm|mathbf|\(|\[))*";

static ANNOUNCED: LazyLock<Regex> = LazyLock::new(|| {
    let announcement = r"\b(?:answer|(?:correct|right|best)\s+(?:option|choice|letter|answer))";
    let link = r"(?:\s+(?:is|would\s+be|must\s+be|should\s+be))?";
    let noun = r"(?:(?:option|choice|letter)\b)?";
    regex(&format!(r"(?i){announcement}\b{FRAME}{link}\b{FRAME}{noun}{FRAME}\b([a-z])\b"))
});
static BRACKETED: LazyLock<Regex> = LazyLock::new(|| regex(r"\(([A-Z])\)"));
static ALONE: LazyLock<Regex> = LazyLock::new(|| regex(r"\b([A-Z])\b"));
/// Another letter behind the first, which takes the answer back.
static ANOTHER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[\s)\]}*.$]*(?:,|/|&|\bor\b|\band\b)[\s(\[{*$]*([A-Z])(?:[^\w']|$)"));
/// The same before it.
static BEFORE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[A-Z][\s)\]}*.$]*(?:,|/|&|\bor\b|\band\b)[\s(\[{*$]*$"));
static BOXED: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(r"(?i)^{FRAME}{}{FRAME}([a-z])(?:[^\w].*)?$", r"(?:(?:option|choice)\b)?"))
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is written out above")
}

/// Finds the answer among so many options; `None` where there is none.
pub(super) fn find(response: &str, options: usize) -> Option<Said> {
    let text = said(response);
    if let Some(inside) = last_box(text) {
        let inside = inside.trim();
        let letter = BOXED.captures(inside).and_then(|captures| captures.get(1));
        return Some(letter.map_or(Said::Unclear, |letter| given(inside, &letter, options)));
    }
    [(&*ANNOUNCED, true), (&*BRACKETED, false), (&*ALONE, false)].into_iter().find_map(
        |(pattern, announced): (&Regex, bool)| {
            let letters = pattern.captures_iter(text).filter_map(|captures| captures.get(1));
            // A letter that is none of the options is part of the text, unless it is announced.
            let is_meant = |letter: &Match<'_>| {
                let denied = !announced && denial::by_words(&text[..letter.start()]);
                !denied
                    && !is_word(text, letter, announced)
                    && (announced || place(letter.as_str()) < options)
            };
            let letter = letters.filter(is_meant).last()?;
            let beside = !announced && BEFORE.is_match(&text[..letter.start()]);
            Some(if beside { Said::Unclear } else { given(text, &letter, options) })
        },
    )
}

/// The place of a letter among options.
fn place(letter: &str) -> usize {
    usize::from(letter.as_bytes()[0].to_ascii_uppercase().wrapping_sub(b'A'))
}

/// What a letter in a text comes to.
fn given(text: &str, letter: &Match<'_>, options: usize) -> Said {
    let place = place(letter.as_str());
    if place < options && !takes_back(&text[letter.end()..], options) {
        Said::One(place)
    } else {
        Said::Unclear
    }
}

/// What a response says in the end: within the last `<answer>`.
fn said(response: &str) -> &str {
    let inside = response.rfind("<answer>").map(|at| &response[at + "<answer>".len()..]);
    inside.map_or(response, |inside| inside.split("</answer>").next().unwrap_or(inside))
}

/// What the last `\boxed{…}` holds.
fn last_box(text: &str) -> Option<&str> {
    let start = text.rfind("\\boxed{")? + "\\boxed{".len();
    let mut depth = 1;
    let end = text[start..].char_indices().find(|(_, character)| {
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map(|(at, _)| &text[start..start + at])
}

/// Whether a letter is the article or the pronoun, or part of a word with an apostrophe. Where an
/// answer is announced, capital letters are no words.
fn is_word(text: &str, letter: &Match<'_>, announced: bool) -> bool {
    let behind = &text[letter.end()..];
    let before = text[..letter.start()].chars().next_back();
    let goes_on = behind.starts_with(['\'', '’']) && behind.chars().nth(1).is_some_and(char::is_alphabetic);
    let began = before.is_some_and(|c| matches!(c, '\'' | '’'))
        && text[..letter.start()].chars().rev().nth(1).is_some_and(char::is_alphabetic);
    let next = behind.trim_start_matches([' ', '\t']);
    let lower = next.len() < behind.len() && next.starts_with(char::is_lowercase);
    let may_be_word = match letter.as_str() {
        "a" | "i" => true,
        "A" | "I" => !announced,
        _ => false,
    };
    goes_on || began || (may_be_word && lower)
}

/// Whether what follows a letter gives another one beside it.
fn takes_back(behind: &str, options: usize) -> bool {
    let other = ANOTHER.captures(behind).and_then(|captures| captures.get(1));
    other.is_some_and(|letter| place(letter.as_str()) < options && !is_word(behind, &letter, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letter_is_found_as_it_is_given() {
        for (response, expected) in [
            ("B", 1),
            ("b.", usize::MAX),
            ("B. Paris", 1),
            ("(C)", 2),
            ("answer: B", 1),
            ("Answer: **d**", 3),
            ("The answer is (B) because A is wrong.", 1),
            ("The answer is A since the others are not.", 0),
            ("The correct option is C.", 2),
            ("The correct answer: option D", 3),
            ("Final answer is \\text{B}.", 1),
            ("I think (A) at first, but no: (C) it is.", 2),
            ("So \\boxed{B}. The answer is C.", 1),
            ("\\boxed{\\textbf{(D)} 42}", 3),
            ("answer: A\nNo, wait. Answer: B", 1),
            ("A closer look at the text shows D", 3),
            ("It is B</think>", 1),
            ("<answer>C</answer> and more about A", 2),
            ("That's I'm sure D.", 3),
            ("It is C, not B.", 2),
            ("(C) rather than (B)", 2),
        ] {
            let found = find(response, 4);
            match expected {
                usize::MAX => assert_eq!(found, None, "{response}"),
                place => assert_eq!(found, Some(Said::One(place)), "{response}"),
            }
        }
    }

    #[test]
    fn hedges_and_what_is_no_option_earn_nothing() {
        for response in [
            "answer: A or B",
            "A or B",
            "(A) or (B)",
            "\\boxed{A, C}",
            "\\boxed{42}",
            "The answer is F",
            "answer: B/C",
        ] {
            assert_eq!(find(response, 4), Some(Said::Unclear), "{response}");
        }
        for response in
            ["", "I do not know", "A good question", "42", "X", "It is not B.", "It can't be (B)."]
        {
            assert_eq!(find(response, 4), None, "{response}");
        }
    }
}
