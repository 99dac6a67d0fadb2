//! What is done to a formula before it is parsed: notations that mean the same are made the same,
//! units and decoration go, and arguments without braces get them.

mod arguments;
pub(crate) mod boxed;
mod units;

use super::token::MAX_FORMULA_BYTES;

/// Normalizes `formula`. `None` where it is longer than [`MAX_FORMULA_BYTES`].
pub(crate) fn normalize(formula: &str) -> Option<String> {
    if formula.len() > MAX_FORMULA_BYTES {
        return None;
    }
    let plain = rewrite(formula, removal);
    let plain = rewrite(&plain, synonym).replace(['\n', '\t'], " ");
    let plain = if plain.contains("matrix") { plain } else { rewrite(&plain, doubled_backslash) };
    let plain = units::strip(&plain);
    Some(arguments::brace(&plain).trim().to_owned())
}

/// At a place of a text: how many bytes to replace there, and by what.
type Rule = fn(&Place<'_>) -> Option<(usize, &'static str)>;

struct Place<'a> {
    before: Option<char>,
    rest: &'a str,
    /// How many bytes of white space `rest` starts with.
    space: usize,
}

impl Place<'_> {
    fn starts(&self, words: &[&str]) -> Option<usize> {
        words.iter().find(|word| self.rest.starts_with(**word)).map(|word| word.len())
    }

    /// `word` after any white space: the length of both.
    fn spaced(&self, word: &str) -> Option<usize> {
        self.rest[self.space..].starts_with(word).then_some(self.space + word.len())
    }

    /// `{`, `inner` and `}` after `from` bytes, with white space around `inner`.
    fn braced(&self, from: usize, inner: &[&str]) -> Option<usize> {
        let rest = self.rest.get(from..)?.strip_prefix('{')?.trim_start();
        let rest = inner.iter().find_map(|word| rest.strip_prefix(word))?.trim_start();
        Some(self.rest.len() - rest.strip_prefix('}')?.len())
    }
}

fn rewrite(text: &str, rule: Rule) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut before = None;
    let mut space_end = 0;
    while let Some(next) = text[at..].chars().next() {
        if space_end < at {
            space_end = at;
        }
        if space_end == at {
            space_end = text.len() - text[at..].trim_start().len();
        }
        let place = Place { before, rest: &text[at..], space: space_end - at };
        let length = match rule(&place) {
            Some((length, replacement)) => {
                out.push_str(replacement);
                length
            }
            None => {
                out.push(next);
                next.len_utf8()
            }
        };
        at += length;
        before = text[..at].chars().next_back();
    }
    out
}

/// Decoration that says nothing.
fn removal(place: &Place<'_>) -> Option<(usize, &'static str)> {
    if let Some(length) = place.starts(&["\\mathrm{T}"]) {
        return Some((length, "T"));
    }
    if let Some(length) = place.starts(&["\\mathrm{d}", "{\\rm d}"]) {
        return Some((length, "d"));
    }
    if let Some(length) = place.starts(&["\\mathrm{th}", "\\displaystyle", "\\$", "$"]) {
        return Some((length, ""));
    }
    if let Some(length) = place.starts(&["\\left", "\\right", "\\mleft", "\\mright"])
        && place.rest[length..].starts_with(['(', ')', '[', ']', '{', '}', '|', '\\'])
    {
        return Some((length, ""));
    }
    if place.rest.starts_with("\\!") {
        let rest = place.rest[2..].trim_start();
        return Some((place.rest.len() - rest.len(), ""));
    }
    if place.rest.starts_with("\\text") {
        let rest = place.rest["\\text".len()..].trim_start();
        if let Some(length) = place.braced(place.rest.len() - rest.len(), &[""]) {
            return Some((length, ""));
        }
    }
    (place.before != Some('\\') && place.rest.starts_with(['"', '\''])).then_some((1, ""))
}

/// Notations for the same thing.
fn synonym(place: &Place<'_>) -> Option<(usize, &'static str)> {
    const LISTED: &[&str] = &["and", "or"];
    // Longer words first.
    const PERCENT: &[&str] = &["percentage", "percent", "pct"];
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
    if let Some(length) = place.starts(&["\\mathrm", "\\mathit", "\\mathbf"]) {
        return Some((length, "\\text"));
    }
    if let Some(length) = place.starts(&["\\textnormal", "\\textbf", "\\textit", "\\textrm"]) {
        return Some((length, "\\text"));
    }
    if let Some(length) = place.starts(&["\\dfrac", "\\tfrac", "\\cfrac"]) {
        return Some((length, "\\frac"));
    }
    // The dot after one space, or at the beginning of a group, starts a decimal.
    if place.space > 0
        && let Some(space) = place.rest.chars().next()
        && place.rest[space.len_utf8()..].starts_with('.')
    {
        return Some((space.len_utf8() + 1, " 0."));
    }
    if place.rest.starts_with("{.") {
        return Some((2, "{0."));
    }
    if place.rest.starts_with("~=") {
        return Some((2, "\\approx"));
    }
    if let Some(length) = place.braced(place.space, &[","]) {
        return Some((length, ","));
    }
    let comma = usize::from(place.rest.starts_with(','));
    let listed = &place.rest[comma..];
    let listed = listed.trim_start();
    let from = place.rest.len() - listed.len();
    if !letter(place.before)
        && let Some(word) = LISTED.iter().find(|word| listed.starts_with(**word))
        && !letter(listed[word.len()..].chars().next())
    {
        return Some((from + word.len(), ","));
    }
    if listed.starts_with("\\text")
        && let Some(length) = place.braced(from + "\\text".len(), LISTED)
    {
        return Some((length, ","));
    }
    if place.before != Some('\\')
        && let Some(rest) = place.rest.strip_prefix('\\')
        && let Some(space) = rest.chars().next().filter(|c| c.is_whitespace())
    {
        return Some((1 + space.len_utf8(), " "));
    }
    if place.rest.starts_with("infinity") {
        return Some(("infinity".len(), "\\infty"));
    }
    if listed.starts_with("\\ldots") && from == comma {
        return Some((comma + "\\ldots".len(), " "));
    }
    for word in PERCENT {
        if let Some(length) = place.spaced(word) {
            return Some((length, "\\%"));
        }
        if place.rest.starts_with("\\text{")
            && let Some(length) = enclosed_word(place.rest, word)
        {
            return Some((length, "\\%"));
        }
    }
    if place.before != Some('\\') && place.rest.starts_with("inf") {
        return Some(("inf".len(), "\\infty"));
    }
    place.rest.starts_with(" sqrt").then_some((" sqrt".len(), "\\sqrt"))
}

/// The length of `\text{word}`.
fn enclosed_word(text: &str, word: &str) -> Option<usize> {
    let after = text.strip_prefix("\\text{")?.strip_prefix(word)?.strip_prefix('}')?;
    Some(text.len() - after.len())
}

/// What the bracket at the start of `text` encloses.
fn enclosed(text: &str, open: u8, close: u8) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        if byte == open {
            depth += 1;
        } else if byte == close {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 {
            return text.get(1..at);
        }
    }
    None
}

/// `\\frac` was meant as `\frac`, where no rows of a matrix can be meant.
fn doubled_backslash(place: &Place<'_>) -> Option<(usize, &'static str)> {
    let command = place.rest.strip_prefix("\\\\")?;
    command.starts_with(|c: char| c.is_ascii_alphabetic()).then_some((2, "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(formula: &str) -> String {
        normalize(formula).unwrap()
    }

    #[test]
    fn notations_for_the_same_become_the_same() {
        assert_eq!(of("\\left( \\dfrac12 \\right]"), "( \\frac{1}{2} ]");
        assert_eq!(of("11,\\! 111"), "11,111");
        assert_eq!(of("6 \\text{ and } 8"), "6, 8");
        assert_eq!(of("1 or 2"), "1, 2");
        assert_eq!(of("1 and more"), "1,");
        assert_eq!(of("x{,}y"), "x,y");
        assert_eq!(of("28 percentage"), "28\\%");
        assert_eq!(of("-infinity"), "-\\infty");
        assert_eq!(of("\\infty"), "\\infty");
        assert_eq!(of("\\\\frac{1}{2}"), "\\frac{1}{2}");
        assert_eq!(of("\\begin{pmatrix}a\\\\b\\end{pmatrix}"), "\\begin{pmatrix}a\\\\b\\end{pmatrix}");
        assert_eq!(of("\\$ .5"), "0.5");
    }

    #[test]
    fn long_white_space_is_walked_once() {
        let text = format!("1{}2", " ".repeat(MAX_FORMULA_BYTES - 2));
        assert!(normalize(&text).is_some());
        assert_eq!(normalize(&format!("{text}3")), None);
    }
}
