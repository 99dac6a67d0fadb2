//! What is said behind a value: units, and other words.
//!
//! Words are kept, as `\unit{...}` with one spelling for each, so that what one side says can be
//! held against what the other says. A letter behind a value is a factor, not a unit, unless it is
//! set upright: `5m` is a product, `5\text{ m}` a length.

use super::super::token::UNIT;

/// What may be a unit without being set as text: words that no product of unknowns looks like.
const BARE: &[&str] = &[
    "acre",
    "apple",
    "cent",
    "centimeter",
    "centimetre",
    "cm",
    "coin",
    "cubic",
    "day",
    "degree",
    "degrees",
    "digit",
    "dollar",
    "euro",
    "feet",
    "foot",
    "gallon",
    "gram",
    "hectare",
    "hour",
    "inch",
    "inches",
    "kg",
    "kilogram",
    "kilometer",
    "kilometre",
    "km",
    "kmh",
    "kmph",
    "liter",
    "litre",
    "meter",
    "metre",
    "mile",
    "minute",
    "ml",
    "mm",
    "month",
    "mph",
    "ohm",
    "people",
    "per",
    "pound",
    "rupee",
    "sec",
    "second",
    "sq",
    "square",
    "student",
    "unit",
    "usd",
    "way",
    "week",
    "yard",
    "year",
];

/// The same, where a space is before them.
const SPACED: &[&str] = &["ft", "hr", "lb", "oz", "hrs", "min", "mins", "deg"];

/// How many words without `\text{}` are looked at.
const MAX_WORDS: usize = 4;

/// Words after which a value is another one, or none.
const CHANGING: &[&str] = &[
    "not",
    "no",
    "wrong",
    "incorrect",
    "false",
    "or",
    "least",
    "most",
    "hundred",
    "thousand",
    "million",
    "billion",
    "trillion",
    "dozen",
    "half",
    "negative",
    "minus",
    "plus",
    "except",
    "over",
    "percent",
    "percentage",
];

/// Words that say nothing.
const EMPTY: &[&str] = &[
    "unit",
    "per",
    "degree",
    "deg",
    "exactly",
    "approximately",
    "about",
    "approx",
    "total",
    "only",
    "of",
    "the",
    "a",
    "an",
    "and",
    "is",
    "answer",
    "in",
];

/// What may announce a value.
const LABELS: &[&str] =
    &["answer", "so", "thus", "therefore", "hence", "approximately", "about", "exactly", "rs"];

/// Spellings of the same.
const SAME: &[(&str, &str)] = &[
    ("centimeter", "cm"),
    ("centimetre", "cm"),
    ("meter", "m"),
    ("metre", "m"),
    ("kilometer", "km"),
    ("kilometre", "km"),
    ("millimeter", "mm"),
    ("millimetre", "mm"),
    ("inche", "inch"),
    ("foot", "ft"),
    ("feet", "ft"),
    ("yard", "yd"),
    ("mile", "mi"),
    ("gram", "g"),
    ("kilogram", "kg"),
    ("liter", "l"),
    ("litre", "l"),
    ("milliliter", "ml"),
    ("second", "s"),
    ("sec", "s"),
    ("minute", "min"),
    ("hour", "h"),
    ("hr", "h"),
    ("year", "yr"),
    ("dollar", "usd"),
    ("cubic", "3"),
    ("cube", "3"),
    ("cubed", "3"),
    ("square", "2"),
    ("squared", "2"),
    ("sq", "2"),
    ("celsius", "c"),
    ("fahrenheit", "f"),
];

/// Marks the words behind every value of a list.
pub(super) fn mark(formula: &str) -> String {
    // What is not balanced is not understood anyway, and would be walked again and again.
    if !is_balanced(formula) {
        return formula.to_owned();
    }
    if let Some((open, list, close)) = in_braces(formula) {
        return format!("{open}{}{close}", mark(list));
    }
    let elements = elements(formula);
    let mut out = String::with_capacity(formula.len() + 16);
    let count = elements.len();
    for (index, (element, separator)) in elements.into_iter().enumerate() {
        if index > 0
            && index + 1 == count
            && let Some(domain) = domain(element)
        {
            // The comma goes too: x = 3k with k in Z.
            out.pop();
            out.push_str(&format!("{UNIT}{domain}}}"));
            return out;
        }
        out.push_str(&marked(element));
        out.push_str(separator);
    }
    out
}

/// A list of values, and the braces around it.
fn in_braces(formula: &str) -> Option<(&str, &str, &str)> {
    let inside = |open: &str, close: &str| formula.trim().strip_prefix(open)?.strip_suffix(close);
    let found = [("\\{", "\\}"), ("{", "}")]
        .into_iter()
        .find_map(|(open, close)| Some((open, inside(open, close)?, close)));
    found.filter(|(_, list, _)| is_balanced(list) && elements(list).len() > 1)
}

/// Whether every brace is closed, and none before it was opened.
fn is_balanced(formula: &str) -> bool {
    let depth = formula.bytes().try_fold(0_usize, |depth, byte| match byte {
        b'{' => Some(depth + 1),
        b'}' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

/// The parts between commas and semicolons that nothing encloses, each with what separates it from
/// the next.
fn elements(formula: &str) -> Vec<(&str, &str)> {
    let bytes = formula.as_bytes();
    let (mut found, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, byte) in bytes.iter().enumerate() {
        let escaped = at > 0 && bytes[at - 1] == b'\\';
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b';' if depth == 0 && !escaped => {
                found.push((&formula[start..at], &formula[at..=at]));
                start = at + 1;
            }
            b'\\' if depth == 0 && formula[at..].starts_with("\\lor ") => {
                found.push((&formula[start..at], "\\lor "));
                start = at + "\\lor ".len();
            }
            _ => {}
        }
    }
    found.push((&formula[start..], ""));
    found
}

/// The words of `k \in \mathbb{Z}`, which says over what a family goes.
fn domain(element: &str) -> Option<String> {
    let element = element.trim();
    let letter = element.chars().next().filter(char::is_ascii_alphabetic)?;
    let set = element[1..].trim_start().strip_prefix("\\in")?.trim_start();
    let set = match set {
        "ℤ" => "Z",
        "ℕ" => "N",
        "ℝ" => "R",
        "ℚ" => "Q",
        other => other.strip_prefix("\\mathbb{")?.strip_suffix('}')?,
    };
    let known = set.len() == 1 && "ZNRQ".contains(set);
    known.then(|| format!("{} in {}", letter, set.to_lowercase()))
}

fn marked(element: &str) -> String {
    let (lead, rest) = match leading(element.trim_start()) {
        Some((text, rest)) => (Some(text), rest),
        None => (None, element),
    };
    let rest = match lead.map(str::trim) {
        Some(text) if is_label(text) && !rest.trim().is_empty() => rest,
        // A choice with its value: (E) 12.
        Some(text) if choice(text).is_some() && !rest.trim().is_empty() => {
            let letter = choice(text).unwrap_or_default();
            return format!("{letter}{UNIT}{}}}", words(rest).unwrap_or_default().join(" "));
        }
        Some(text) if rest.trim().is_empty() && is_numeric(text) => return text.to_owned(),
        _ => element,
    };
    behind(rest).or_else(|| degrees(rest)).or_else(|| bare(rest)).unwrap_or_else(|| rest.to_owned())
}

/// The text that an element begins with, and what follows it.
fn leading(element: &str) -> Option<(&str, &str)> {
    let after = ["\\text", "\\mbox"].iter().find_map(|command| element.strip_prefix(command))?;
    let inner =
        super::enclosed(after.trim_start(), b'{', b'}').filter(|_| after.trim_start().starts_with('{'))?;
    Some((inner, &after.trim_start()[inner.len() + 2..]))
}

fn is_label(text: &str) -> bool {
    let lower = text.to_lowercase();
    let negated = lower.split_whitespace().any(|word| CHANGING.contains(&word));
    let last = lower.trim_end_matches([':', '=', '.', '$', ' ']);
    let announces = lower.ends_with([':', '=']) || last.ends_with(" is") || LABELS.contains(&last);
    !negated && (announces || !lower.contains(|c: char| c.is_alphanumeric()))
}

/// The letter of `(E)`.
fn choice(text: &str) -> Option<&str> {
    let letter = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    (letter.len() == 1 && letter.bytes().all(|byte| (b'A'..=b'J').contains(&byte))).then_some(letter)
}

fn is_numeric(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b" .,-+/$".contains(&byte))
}

/// `\text{...}` and what belongs to it, from a value to the end.
fn behind(element: &str) -> Option<String> {
    let mut rest = element;
    let mut start = None;
    while let Some(c) = rest.chars().next() {
        let at = element.len() - rest.len();
        if let Some((_, after)) = leading(rest) {
            start = start.or(Some(at));
            rest = after;
        } else if let Some(after) = joint(rest).filter(|_| start.is_some()) {
            rest = after;
        } else {
            if !c.is_whitespace() {
                start = None;
            }
            // What is enclosed is passed over as a whole.
            let group = rest.starts_with('{').then(|| super::enclosed(rest, b'{', b'}')).flatten();
            rest = &rest[group.map_or(c.len_utf8(), |group| group.len() + 2)..];
        }
    }
    let start = start?;
    let value = element[..start].trim_end();
    let open = value.ends_with(['+', '-', '*', '/', '=', '^', '_', '<', '>', '(', '|', '\\'])
        || ["\\cdot", "\\times", "\\in", "\\le", "\\ge", "\\ne", "\\neq", "\\leq", "\\geq", "\\lor", "\\pm"]
            .iter()
            .any(|sign| value.ends_with(sign));
    if value.is_empty() || open {
        return None;
    }
    let words = words(&element[start..])?;
    Some(with_words(value, &words))
}

/// What may stand between the texts of a unit: a power, a product, a quotient.
fn joint(rest: &str) -> Option<&str> {
    if let Some(power) = rest.strip_prefix('^') {
        if let Some(inner) = power.starts_with('{').then(|| super::enclosed(power, b'{', b'}')).flatten() {
            let plain = inner.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b' ');
            return plain.then(|| &power[inner.len() + 2..]);
        }
        return power.strip_prefix(|c: char| c.is_ascii_digit());
    }
    let after = ["\\cdot", "/"].iter().find_map(|sign| rest.strip_prefix(sign))?;
    leading(after.trim_start()).map(|_| after)
}

fn with_words(value: &str, words: &[String]) -> String {
    match words {
        [] => value.to_owned(),
        words => format!("{value}{UNIT}{}}}", words.join(" ")),
    }
}

/// `^\circ C`.
fn degrees(element: &str) -> Option<String> {
    let text = element.trim_end();
    let scale = text.chars().next_back().filter(|c| matches!(c, 'C' | 'F'))?;
    let value = text[..text.len() - 1].trim_end();
    let degrees = ["^\\circ", "^{\\circ}", "^{ \\circ }"].iter().any(|sign| value.ends_with(sign));
    degrees.then(|| with_words(value, &[scale.to_ascii_lowercase().to_string()]))
}

/// Words at the end that are known to be units.
fn bare(element: &str) -> Option<String> {
    let mut rest = element.trim_end();
    let mut words = Vec::new();
    while words.len() < MAX_WORDS {
        let word_end = powerless(rest);
        let length = word_end.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
        let (before, word) = word_end.split_at(word_end.len() - length);
        let lower = word.to_lowercase();
        let spaced = before.ends_with(char::is_whitespace) || before.ends_with('/');
        let known =
            |list: &[&str]| list.contains(&lower.as_str()) || list.contains(&lower.trim_end_matches('s'));
        let free = spaced || before.ends_with(|c: char| c.is_ascii_digit() || matches!(c, '}' | ')'));
        if word.is_empty() || !free || !(known(BARE) || (spaced && known(SPACED))) {
            break;
        }
        words.extend(canonical(word));
        if word_end.len() < rest.len() {
            words.extend(self::words(&rest[word_end.len()..]).unwrap_or_default());
        }
        rest = before.trim_end().trim_end_matches('/').trim_end();
    }
    let shorter = rest.len() < element.trim_end().len();
    // Without a digit there is no value, and short words behind unknowns may be unknowns.
    let unknowns = words_of(rest).any(|word| !word.is_empty());
    (shorter && !unknowns && rest.contains(|c: char| c.is_ascii_digit())).then(|| with_words(rest, &words))
}

/// The words in a formula that are no commands.
fn words_of(formula: &str) -> impl Iterator<Item = &str> {
    formula.split('\\').enumerate().map(|(index, part)| {
        let command = if index == 0 { 0 } else { part.bytes().take_while(u8::is_ascii_alphabetic).count() };
        part[command..].trim_matches(|c: char| !c.is_ascii_alphabetic())
    })
}

/// Without `^2` or `^{2}` at the end.
fn powerless(text: &str) -> &str {
    let digit = |c: char| c.is_ascii_digit();
    let bare = text.strip_suffix(digit).and_then(|rest| rest.strip_suffix('^'));
    let braced = text.strip_suffix('}').and_then(|rest| rest.strip_suffix(digit)?.strip_suffix("^{"));
    bare.or(braced).unwrap_or(text)
}

/// The words of a text in one spelling each; `None` where one of them changes the value.
fn words(text: &str) -> Option<Vec<String>> {
    // Of `a.m.` the dots are no ends of words.
    let plain = text.replace("\\text", " ").replace("\\mbox", " ").replace("\\cdot", " ").replace('.', "");
    let mut found: Vec<String> = Vec::new();
    for word in plain.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let lower = word.to_lowercase();
        if CHANGING.contains(&lower.as_str()) {
            return None;
        }
        if let Some(word) = canonical(word)
            && !found.contains(&word)
        {
            found.push(word);
        }
    }
    Some(found)
}

/// A word in lower case and the singular, as the unit that it names; nothing where it says nothing.
fn canonical(word: &str) -> Option<String> {
    const SHORTEST_PLURAL: usize = 4;
    let lower = word.to_lowercase();
    let singular = match lower.strip_suffix('s') {
        Some(shorter) if lower.len() >= SHORTEST_PLURAL && !shorter.ends_with('s') => shorter.to_owned(),
        _ if lower == "hrs" => "hr".to_owned(),
        _ => lower,
    };
    if EMPTY.contains(&singular.as_str()) {
        return None;
    }
    let known = SAME.iter().find(|(name, _)| *name == singular);
    Some(known.map_or(singular, |(_, unit)| (*unit).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_behind_a_value_are_kept_apart_from_it() {
        assert_eq!(mark("15\\mbox{ cm}^2"), "15\\unit{cm 2}");
        assert_eq!(mark("12 square feet"), "12\\unit{ft 2}");
        assert_eq!(mark("5 meters"), "5\\unit{m}");
        assert_eq!(mark("\\frac{1}{2}km"), "\\frac{1}{2}\\unit{km}");
        assert_eq!(mark("18\\text{ kg}\\cdot\\text{m}"), "18\\unit{kg m}");
        assert_eq!(mark("7\\text{ a.m.}"), "7\\unit{am}");
        assert_eq!(mark("3\\text{ red}, 2\\text{ blue}"), "3\\unit{red}, 2\\unit{blue}");
        assert_eq!(mark("n = 3k, k \\in \\mathbb{Z}"), "n = 3k\\unit{k in z}");
        assert_eq!(mark("5^\\circ C"), "5^\\circ\\unit{c}");
    }

    #[test]
    fn words_behind_values_in_braces_are_marked_too() {
        for list in ["35 cm,4", "35\\text{ cm},4"] {
            for (open, close) in [("{", "}"), ("\\{", "\\}")] {
                let found = mark(&format!("{open}{list}{close}"));
                assert_eq!(found, format!("{open}{}{close}", mark(list)));
                assert!(found.contains(UNIT), "{found}");
            }
        }
    }

    #[test]
    fn unknowns_and_other_words_stay() {
        for same in [
            "\\text{Evelyn}",
            "x+y",
            "2t",
            "5m",
            "3ab",
            "5 m",
            "\\frac12gt^2",
            "x = \\text{Nadia}",
            "5\\text{ or more}",
            "2\\text{ h }30",
            "V_\\text{max}",
            "2rs",
        ] {
            assert_eq!(mark(same), same);
        }
    }

    #[test]
    fn labels_before_a_value_go() {
        assert_eq!(mark("\\text{Answer: }5"), "5");
        assert_eq!(mark("\\text{The answer is } 5").trim(), "5");
        assert_eq!(mark("\\text{not }5"), "\\text{not }5");
        assert_eq!(mark("\\text{(E) } 12"), "E\\unit{12}");
    }
}
