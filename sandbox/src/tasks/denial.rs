//! Whether a text takes an answer back just before it: "not 5", "cannot be 5", `\ge 5`.
//!
//! Only what stands directly before a value is looked at. "The answer is not 4 but 5" denies the 4.

/// Bytes before a value that are looked at; the longest denial is "is not exactly equal to".
const LOOKED_AT: usize = 64;
/// Words that may stand between a denial and what it denies.
const BETWEEN: [&str; 6] = ["be", "equal", "to", "a", "the", "exactly"];
/// So many of them.
const MAX_BETWEEN: usize = 3;
/// Words that deny what follows, compare with it, or turn its sign.
const DENYING: [&str; 6] = ["not", "cannot", "never", "than", "minus", "negative"];
/// Signs of comparison. A lone `<` or `>` is looked at more closely.
const SIGNS: [&str; 31] = [
    "<=",
    ">=",
    "!=",
    "≤",
    "≥",
    "≠",
    "≮",
    "≯",
    "≪",
    "≫",
    "≦",
    "≧",
    "\\lt",
    "\\gt",
    "\\le",
    "\\leq",
    "\\leqq",
    "\\leqslant",
    "\\ge",
    "\\geq",
    "\\geqq",
    "\\geqslant",
    "\\ll",
    "\\gg",
    "\\ne",
    "\\neq",
    "\\not",
    "\\not=",
    "\\neg",
    "\\lnot",
    "\\nsim",
];

/// Whether words directly before a value deny it.
pub(crate) fn by_words(before: &str) -> bool {
    let mut rest = end(before);
    for _ in 0..=MAX_BETWEEN {
        rest = rest.trim_end_matches([' ', '\t', '*', '_', '$', '(', '"', '`']);
        let length: usize = rest
            .chars()
            .rev()
            .take_while(|c| c.is_alphabetic() || matches!(c, '\'' | '’'))
            .map(char::len_utf8)
            .sum();
        let (earlier, word) = rest.split_at(rest.len() - length);
        // A command of LaTeX is no word.
        if word.is_empty() || earlier.ends_with('\\') {
            return false;
        }
        let word = word.to_lowercase();
        if DENYING.contains(&word.as_str()) || word.ends_with("n't") || word.ends_with("n’t") {
            return true;
        }
        if !BETWEEN.contains(&word.as_str()) {
            return false;
        }
        rest = earlier;
    }
    false
}

/// Whether a sign of comparison directly before a value says that it is a bound, or what it is not.
pub(crate) fn by_sign(before: &str) -> bool {
    let text = end(before).trim_end_matches([' ', '\t', '*', '$', '(', '{']);
    if SIGNS.iter().any(|sign| text.ends_with(sign)) {
        return true;
    }
    if let Some(earlier) = text.strip_suffix('<') {
        return !earlier.ends_with('<');
    }
    text.strip_suffix('>').is_some_and(|earlier| {
        // Arrows, and the end of a calculation: <<3+4=7>>7.
        let arrow = earlier.ends_with(['=', '-', '>', '|']);
        // A line that is quoted.
        let quote = earlier.trim_end_matches([' ', '\t']).is_empty()
            || earlier.trim_end_matches([' ', '\t']).ends_with('\n');
        // <b>
        let tag = earlier.rsplit_once('<').is_some_and(|(_, name)| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && !name.contains('\n')
        });
        !(arrow || quote || tag)
    })
}

fn end(before: &str) -> &str {
    &before[before.floor_char_boundary(before.len().saturating_sub(LOOKED_AT))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_not_to_be_is_denied() {
        for before in [
            "The answer is not ",
            "It isn't ",
            "It isn’t ",
            "It cannot be ",
            "It can't be equal to ",
            "**Not** ",
            "never exactly ",
            "more than $",
            "negative ",
        ] {
            assert!(by_words(before), "{before}");
        }
        for before in
            ["", "is ", "It is not. ", "not 4 but ", "The knot ", "a knot of ", "\\not ", "not\n", "to be "]
        {
            assert!(!by_words(before), "{before}");
        }
    }

    #[test]
    fn a_bound_is_no_value() {
        for before in ["x > ", "$>", "\\boxed{> ", "\\ge ", "\\geq{", "≥ ", "!= ", "\\not= ", "x <", "x >= "]
        {
            assert!(by_sign(before), "{before}");
        }
        for before in
            ["", "= ", "> ", "so\n> ", "=> ", "-> ", "<<3+4=7>>", "<b>", "</think>", "\\angle ", "<<"]
        {
            assert!(!by_sign(before), "{before}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert!(by_words(&format!("{} not ", "é".repeat(99))));
        assert!(!by_sign(&"é".repeat(99)));
    }
}
