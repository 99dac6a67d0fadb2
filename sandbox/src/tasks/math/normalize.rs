//! What is done to a formula before it is parsed: notations that mean the same are made the same,
//! decoration goes, units are marked, and arguments without braces get them.

mod arguments;
pub(crate) mod boxed;
pub(crate) mod characters;
mod decoration;
mod units;

use super::token::MAX_FORMULA_BYTES;

/// Normalizes `formula`. `None` where it is longer than [`MAX_FORMULA_BYTES`].
pub(crate) fn normalize(formula: &str) -> Option<String> {
    if formula.len() > MAX_FORMULA_BYTES {
        return None;
    }
    let plain = decoration::strip(&characters::spell_out(formula));
    let plain = rewrite(&plain, removal);
    let plain = if is_inequality(&plain) { rewrite(&plain, alternative) } else { plain };
    let plain = rewrite(&plain, synonym).replace(['\n', '\t'], " ");
    let plain = if plain.contains("matrix") { plain } else { rewrite(&plain, doubled_backslash) };
    let plain = decoration::without_trail(decoration::without_lead(&plain));
    let plain = units::mark(described(plain).unwrap_or(plain));
    let plain = arguments::brace(decoration::without_trail(&plain));
    Some(ungrouped(plain.trim()).to_owned())
}

/// Whether the formula compares sizes.
fn is_inequality(formula: &str) -> bool {
    const SIGNS: &[&str] = &["<", ">", "\\lt", "\\gt", "\\le", "\\ge", "\\ne", "≤", "≥", "≠"];
    SIGNS.iter().any(|sign| formula.contains(sign))
}

/// Between inequalities "or" joins what they describe.
fn alternative(place: &Place<'_>) -> Option<(usize, &'static str)> {
    const JOINT: &str = " \\lor ";
    if let Some(length) = place.starts(&["\\vee"]) {
        return Some((length, JOINT));
    }
    if place.rest.starts_with("\\text")
        && let Some(length) = place.braced("\\text".len(), &["or"])
    {
        return Some((length, JOINT));
    }
    let word = place.rest.strip_prefix("or")?;
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
    (!letter(place.before) && place.before != Some('\\') && !letter(word.chars().next()))
        .then_some((2, JOINT))
}

/// The condition of `\{x \mid x > 5\}`.
fn described(formula: &str) -> Option<&str> {
    let inner = formula.trim().strip_prefix("\\{")?.strip_suffix("\\}")?;
    let (name, condition) = ["\\mid", "\\colon", ":", "|"].iter().find_map(|bar| inner.split_once(bar))?;
    let name = name.trim();
    let name = name.split_once("\\in").map_or(name, |(name, domain)| {
        if matches!(domain.trim(), "\\mathbb{R}" | "ℝ") { name.trim() } else { "" }
    });
    let single = name.len() == 1 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    (single && is_inequality(condition)).then_some(condition)
}

/// Without braces around all of it.
fn ungrouped(formula: &str) -> &str {
    match enclosed(formula, b'{', b'}') {
        Some(inner) if formula.starts_with('{') && inner.len() + 2 == formula.len() => inner.trim(),
        _ => formula,
    }
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
    // 5^{\text{th}}, after a digit.
    if place.before.is_some_and(|c| c.is_ascii_digit())
        && let Some(length) = ordinal(place.rest)
    {
        return Some((length, ""));
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

/// The length of the ending of an ordinal number, set high.
fn ordinal(text: &str) -> Option<usize> {
    let high = text.strip_prefix('^')?.trim_start();
    let (high, braced) = high.strip_prefix('{').map_or((high, false), |inner| (inner.trim_start(), true));
    let upright = ["\\text{", "\\mathrm{", "\\textrm{", "\\rm "].iter().find_map(|command| {
        let inner = high.strip_prefix(command)?.trim_start();
        let after = ["th", "st", "nd", "rd"].iter().find_map(|ending| inner.strip_prefix(ending))?;
        if command.ends_with('{') { after.trim_start().strip_prefix('}') } else { Some(after) }
    });
    // Not set as text, the others are products.
    let after = upright.or_else(|| high.strip_prefix("th").filter(|_| braced))?;
    let after = if braced { after.trim_start().strip_prefix('}')? } else { after };
    Some(text.len() - after.len())
}

/// A large number's name after a digit: the length of what it replaces, and its power of ten.
fn magnitude(place: &Place<'_>) -> Option<(usize, &'static str)> {
    if !place.before.is_some_and(|c| c.is_ascii_digit()) {
        return None;
    }
    let word = place.rest.trim_start();
    let text = word.strip_prefix("\\text{").map(str::trim_start);
    // As text, what follows the name stays in it.
    let powers = match text {
        Some(_) => MAGNITUDES.map(|(name, _, power)| (name, power)),
        None => MAGNITUDES.map(|(name, power, _)| (name, power)),
    };
    powers.into_iter().find_map(|(name, power)| {
        let after = text.unwrap_or(word).strip_prefix(name)?;
        let ends = !after.starts_with(|c: char| c.is_ascii_alphabetic());
        ends.then_some((place.rest.len() - after.len(), power))
    })
}

const MAGNITUDES: [(&str, &str, &str); 5] = [
    ("hundred", " \\cdot 10^{2}", " \\cdot 10^{2}\\text{"),
    ("thousand", " \\cdot 10^{3}", " \\cdot 10^{3}\\text{"),
    ("million", " \\cdot 10^{6}", " \\cdot 10^{6}\\text{"),
    ("billion", " \\cdot 10^{9}", " \\cdot 10^{9}\\text{"),
    ("trillion", " \\cdot 10^{12}", " \\cdot 10^{12}\\text{"),
];

/// Names that programs write without a backslash.
const FUNCTIONS: &[(&str, &str)] = &[
    ("exp", "\\exp"),
    ("ln", "\\ln"),
    ("log", "\\log"),
    ("sin", "\\sin"),
    ("cos", "\\cos"),
    ("tan", "\\tan"),
    ("arcsin", "\\arcsin"),
    ("arccos", "\\arccos"),
    ("arctan", "\\arctan"),
];

/// Notations for the same thing.
fn synonym(place: &Place<'_>) -> Option<(usize, &'static str)> {
    const LISTED: &[&str] = &["and", "or"];
    // Longer words first.
    const PERCENT: &[&str] = &["percentage", "percent", "pct"];
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
    if let Some(replaced) = magnitude(place) {
        return Some(replaced);
    }
    // Whole words only, and no commands.
    if !letter(place.before) && place.before != Some('\\') {
        let ends = |length: usize| !letter(place.rest[length..].chars().next());
        if let Some(length) = place.starts(&["infinity", "inf"]).filter(|length| ends(*length)) {
            return Some((length, "\\infty "));
        }
        if place.rest.starts_with("pi") && ends(2) {
            return Some((2, "\\pi "));
        }
        let called = |name: &str| place.rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('('));
        if let Some((name, command)) = FUNCTIONS.iter().find(|(name, _)| called(name)) {
            return Some((name.len(), command));
        }
    }
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
        && let Some(decimals) = place.rest[space.len_utf8()..].strip_prefix('.')
        && decimals.starts_with(|c: char| c.is_ascii_digit())
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
        && !(*word == "or" && continues_a_text(&listed[word.len()..]))
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
    place.rest.starts_with(" sqrt").then_some((" sqrt".len(), "\\sqrt"))
}

/// Whether a word follows, and the brace around both ends after it: `\text{ or more}` says
/// something of the value before it, and lists nothing.
fn continues_a_text(rest: &str) -> bool {
    let brace = rest.find(['{', '}']);
    rest.trim_start().starts_with(|c: char| c.is_alphabetic())
        && brace.is_some_and(|at| rest[at..].starts_with('}') && !rest[..at].ends_with('\\'))
}

/// The length of `\text{word}`.
fn enclosed_word(text: &str, word: &str) -> Option<usize> {
    let after =
        text.strip_prefix("\\text{")?.trim_start().strip_prefix(word)?.trim_start().strip_prefix('}')?;
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
        assert_eq!(of("1 and more"), "1, more");
        assert_eq!(of("5\\text{ or more}"), "5\\text{ or more}");
        assert_eq!(of("\\{x or y\\}"), "\\{x , y\\}");
        assert_eq!(of("x{,}y"), "x,y");
        assert_eq!(of("28 percentage"), "28\\%");
        assert_eq!(of("-infinity"), "-\\infty");
        assert_eq!(of("infinitely many"), "infinitely many");
        assert_eq!(of("x<3 or x>5"), "x<3  \\lor  x>5");
        assert_eq!(of("\\{x \\mid x > 5\\}"), "x > 5");
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
