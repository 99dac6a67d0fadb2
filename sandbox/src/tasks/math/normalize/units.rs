//! Units of measurement after a value.

use std::sync::LazyLock;

use regex::Regex;

/// What counts as a unit at the end of an answer, with a plural -s or -es allowed; the dots
/// stand for any character. The reference's list, which was gathered from the answers of word
/// problems and has oddities.
const UNITS: &[&str] = &[
    " m east",
    "a .",
    "a . m",
    "ab",
    "acre",
    "am",
    "apple",
    "are",
    "b .",
    "bc",
    "by",
    "c",
    "c .",
    "cc",
    "cent",
    "children ticket",
    "cm",
    "cm 2",
    "coin",
    "cu . m",
    "cu cm",
    "cube",
    "cubic",
    "d",
    "d .",
    "day",
    "decrease",
    "deg",
    "degree",
    "digit",
    "dm",
    "e .",
    "east",
    "edge",
    "excess",
    "f .",
    "feet",
    "ft",
    "g",
    "g .",
    "gain",
    "gal",
    "gallon",
    "gm",
    "h",
    "h .",
    "hectare",
    "hour",
    "hr",
    "inch",
    "inches",
    "increase",
    "integerpoint",
    "kg",
    "km",
    "kmh",
    "kmph",
    "l",
    "lb",
    "less",
    "liter",
    "litre",
    "loss",
    "lt",
    "m",
    "m square",
    "man",
    "mark",
    "meal",
    "men",
    "meter",
    "metre",
    "mile",
    "min",
    "minute",
    "minw",
    "mm",
    "monkey",
    "month",
    "more",
    "mp",
    "mph",
    "mt",
    "mtr",
    "multiple",
    "no change",
    "noon",
    "number",
    "o",
    "ohm",
    "p . m",
    "per",
    "pi sq m",
    "pie",
    "pm",
    "pound",
    "prime",
    "profit",
    "profit of rs",
    "pure",
    "q .",
    "ratio",
    "rd",
    "rise",
    "rounds",
    "rs",
    "rs .",
    "rupee",
    "s",
    "s .",
    "sec",
    "second",
    "soldier",
    "sq",
    "sq . m",
    "sq inch",
    "sq m",
    "square",
    "st",
    "student",
    "sue",
    "Surface",
    "t",
    "th",
    "tile",
    "toy",
    "unit",
    "way",
    "west",
    "woman",
    "women",
    "yard",
    "year",
    "yr",
    "° f",
    "π r 2",
    "∏ cm ³",
];

/// A unit word at the end of a text, after a digit, a closing brace or white space (the first group).
static TRAILING: LazyLock<Regex> = LazyLock::new(|| {
    let words = UNITS.join("|");
    Regex::new(&format!(r"(?<kept>[\d}}\s])\s*(?:{words})(?:e?s)?\s*$"))
        .expect("the units make a valid pattern")
});

/// How many unit words may follow each other.
const MAX_WORDS: usize = 2;

/// Takes the units off the end. What would leave nothing is no unit.
pub(super) fn strip(text: &str) -> String {
    let mut kept = without_text(text).filter(|rest| !rest.is_empty()).unwrap_or(text).to_owned();
    for _ in 0..MAX_WORDS {
        kept = TRAILING.replace(&kept, "$kept").into_owned();
    }
    kept
}

/// The text before a `\text{...}` or `\mbox{...}` that reaches to the end, an
/// exponent aside: `15\text{ cm}^2`.
fn without_text(text: &str) -> Option<&str> {
    let start = ["\\text{", "\\mbox{"].iter().filter_map(|command| text.find(command)).min()?;
    let body = strip_square(&text[start..]);
    body.ends_with('}').then(|| text[..start].trim())
}

/// Without `^2` or `{^2}` at the end.
fn strip_square(text: &str) -> &str {
    let digit = |c: char| c.is_ascii_digit();
    let bare = text.strip_suffix(digit).and_then(|rest| rest.strip_suffix('^'));
    let braced = text.strip_suffix('}').and_then(|rest| rest.strip_suffix(digit)?.strip_suffix("{^"));
    bare.or(braced).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_go_and_values_stay() {
        assert_eq!(strip("15\\mbox{ cm}^2"), "15");
        assert_eq!(strip("12 square feet"), "12");
        assert_eq!(strip("5 meters"), "5");
        assert_eq!(strip("\\frac{1}{2}km"), "\\frac{1}{2}");
        assert_eq!(strip("\\text{Evelyn}"), "\\text{Evelyn}");
        assert_eq!(strip("x+y"), "x+y");
    }
}
