//! Words around a program that stands in no fences, told apart by their form alone.

/// Words that begin a line of a program, and of English as well.
const KEYWORDS: [&str; 34] = [
    "assert", "async", "await", "break", "case", "class", "continue", "def", "del", "do", "elif", "else",
    "enum", "except", "finally", "for", "from", "global", "if", "import", "lambda", "match", "nonlocal",
    "not", "pass", "print", "raise", "return", "struct", "try", "using", "while", "with", "yield",
];

/// The text without the lines of words before and behind the program; all of it where all are words.
pub(super) fn without(text: &str) -> &str {
    let (mut from, mut start, mut end) = (0, None, 0);
    for line in text.split_inclusive('\n') {
        let at = from;
        from += line.len();
        if !line.trim().is_empty() && !are_words(line) {
            start = start.or(Some(at));
            end = from;
        }
    }
    let Some(start) = start else { return text };
    let start = if text[..start].trim().is_empty() { 0 } else { start };
    let end = if text[end..].trim().is_empty() { text.len() } else { end };
    &text[start..end]
}

/// Whether some line is not of words.
pub(super) fn has_code(text: &str) -> bool {
    text.lines().any(|line| !line.trim().is_empty() && !are_words(line))
}

/// Whether a text has what most programs have and most outputs have not.
pub(super) fn looks_like_code(text: &str) -> bool {
    ["(", "=", ";", "import "].iter().any(|sign| text.contains(sign))
}

/// Whether a line is a sentence, or the beginning of one. Only what no program says at its margin is.
fn are_words(line: &str) -> bool {
    let line = line.trim_end();
    let words: Vec<&str> = line.split_whitespace().map(bare).collect();
    let Some(first) = words.first() else { return false };
    if line.starts_with(char::is_whitespace)
        || !is_word(first)
        || KEYWORDS.contains(first)
        || line.contains('=')
    {
        return false;
    }
    let is_capital = first.starts_with(char::is_uppercase);
    let all = words.iter().all(|word| is_word(word));
    match line.trim_end_matches(['*', '_']).chars().next_back() {
        Some('.' | '!' | '?') => words.get(1).map_or(is_capital, |second| is_word(second)),
        Some(':') => all && (is_capital || words.len() > 2),
        _ => all && is_capital && words.len() > 2,
    }
}

/// A word without the signs of a sentence.
fn bare(word: &str) -> &str {
    word.trim_matches(['.', ',', ':', '!', '?', '*', '_', '`', '"'])
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || ['\'', '’', '-'].contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_words_and_programs_are_not() {
        let words = [
            "Sure!",
            "Explanation:",
            "Here is the program:",
            "this reads n, and prints it:",
            "This program reads `n` and prints f(n).",
            "Here is the program",
            "**Explanation:**",
            "I don't know.",
        ];
        assert_eq!(words.map(are_words), [true; 8]);
        for code in [
            "x",
            "else:",
            "if a is b:",
            "from math import gcd",
            "class Node:",
            "x = 3.",
            "print(x)",
            "    It is.",
            "# It is a comment.",
            "int main() {",
            "using namespace std;",
            "Node()",
            "",
            "print 5",
            "x y z",
        ] {
            assert!(!are_words(code), "{code}");
        }
    }
}
