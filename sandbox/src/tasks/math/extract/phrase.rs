//! Words and terms that are announced without delimiters: `The answer is Nadia.`, `Answer: pi/2`.

use super::{Anchor, Found, MAX_ANNOUNCEMENTS, Match, occurrences};

/// The longest phrase that is read, in bytes.
const MAX_PHRASE_BYTES: usize = 64;

/// Names that may stand in a term beside single letters.
const NAMES: &[&str] = &["pi", "sqrt", "exp", "ln", "log", "sin", "cos", "tan"];

/// Words that are no answers.
const NO_ANSWERS: &[&str] =
    &["a", "an", "the", "not", "this", "that", "it", "as", "in", "to", "of", "for", "option"];

/// Finds what is announced in this way.
pub(super) fn matches<'a>(text: &'a str, anchor: Anchor, all: &mut Vec<Match<'a>>) {
    if !matches!(anchor, Anchor::Final | Anchor::Colon | Anchor::Answer) {
        return;
    }
    const ANSWER: &str = "answer";
    let starts: Vec<usize> = occurrences(text, ANSWER).collect();
    for &start in &starts[starts.len().saturating_sub(MAX_ANNOUNCEMENTS)..] {
        let Some((colon, from)) = announced(text, start + ANSWER.len()) else { continue };
        let is_final = start
            .checked_sub("final ".len())
            .and_then(|at| text.get(at..start))
            .is_some_and(|word| word.eq_ignore_ascii_case("final "));
        let own = match (is_final, colon) {
            (true, false) => Anchor::Final,
            (_, true) => Anchor::Colon,
            (false, false) => Anchor::Answer,
        };
        if own != anchor {
            continue;
        }
        if let Some((phrase, end)) = phrase(text, from) {
            all.push(Match { start, end, found: Found::Phrase(phrase) });
        }
    }
}

/// Whether there is a colon after "answer", or "is", and where what it announces begins.
fn announced(text: &str, at: usize) -> Option<(bool, usize)> {
    let decoration = |c: char| c == '*' || c == '_' || c == ' ';
    let rest = text[at..].trim_start_matches(decoration);
    let (colon, rest) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => {
            let rest = rest
                .strip_prefix("is")
                .filter(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))?;
            (rest.starts_with(':'), rest.strip_prefix(':').unwrap_or(rest))
        }
    };
    let rest = rest.trim_start_matches(decoration);
    Some((colon, text.len() - rest.len()))
}

/// The phrase that begins here, if it is a word or a term and the sentence ends behind it.
fn phrase(text: &str, from: usize) -> Option<(&str, usize)> {
    let rest = &text[from..];
    let mut end = rest.len();
    for (at, c) in rest.char_indices() {
        if at > MAX_PHRASE_BYTES {
            return None;
        }
        let after = &rest[at + c.len_utf8()..];
        // Stars end bold type, unless they multiply.
        let multiplies =
            c == '*' && after.trim_start_matches('*').starts_with(|c: char| c.is_alphanumeric() || c == '(');
        let stops = matches!(c, '\n' | '!' | '?' | '*' | '`') && !multiplies;
        if stops
            || (c == '.' && !after.starts_with(|c: char| c.is_ascii_digit()))
            || rest[at..].starts_with("<|")
        {
            end = at;
            break;
        }
    }
    let phrase = rest[..end].trim();
    let words = phrase.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let is_word = !phrase.is_empty() && phrase.chars().all(char::is_alphabetic);
    if is_word {
        let lower = phrase.to_lowercase();
        let lone_letter = phrase.len() == 1;
        return (lone_letter || !NO_ANSWERS.contains(&lower.as_str())).then_some((phrase, from + end));
    }
    // A number and a letter: in plain text, a unit.
    let measured = phrase.split_once(' ').is_some_and(|(number, unit)| {
        number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',')
            && unit.chars().all(char::is_alphabetic)
    });
    let known = !measured && words.clone().all(|word| word.chars().count() == 1 || NAMES.contains(&word));
    // What has neither letters nor signs of terms is a number, which is read elsewhere.
    let is_term = words.clone().next().is_some() || phrase.contains(['√', 'π']);
    let signs = phrase.chars().all(|c| c.is_alphanumeric() || " +-*/^().,=√π²³·<>≤≥∞".contains(c));
    (known && is_term && signs && !phrase.contains(", ")).then_some((phrase, from + end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let mut all = Vec::new();
        for anchor in [Anchor::Final, Anchor::Colon, Anchor::Answer] {
            matches(text, anchor, &mut all);
        }
        all.iter()
            .filter_map(|one| if let Found::Phrase(phrase) = one.found { Some(phrase) } else { None })
            .collect()
    }

    #[test]
    fn words_and_terms_are_found_and_sentences_are_not() {
        assert_eq!(found("The answer is Nadia."), ["Nadia"]);
        assert_eq!(found("**Answer:** A"), ["A"]);
        assert_eq!(found("The final answer is 14 - i."), ["14 - i"]);
        assert_eq!(found("The answer is pi/2"), ["pi/2"]);
        for none in ["The answer is 42.", "The answer is that he has 5.", "The answer is 42 eggs.", "answer"]
        {
            assert!(found(none).is_empty(), "{none}");
        }
    }
}
