//! The letters of multiple choice.

use super::{AFTER_ANSWER, Anchor, Found, Match, after_colon, after_is, announced, hoped, within};

/// The letters that can be chosen.
const CHOICES: [char; 4] = ['A', 'B', 'C', 'D'];

/// Finds the letters that are announced in this way.
pub(super) fn matches<'a>(text: &'a str, anchor: Anchor, all: &mut Vec<Match<'a>>) {
    let bare = |at| letter(text, at);
    let word = |at| spaced(text, at);
    match anchor {
        Anchor::Hoped => {
            let target = |at| bare(at).filter(|(_, end)| hoped(text, *end));
            announced(text, "final answer is", |at| after_colon(text, at), target, all);
        }
        Anchor::Final => announced(text, "final answer", |at| after_is(text, at, false), bare, all),
        Anchor::Colon => announced(text, "answer:", |at| within(text, at, AFTER_ANSWER, false), word, all),
        Anchor::Answer => announced(text, "answer", |at| within(text, at, AFTER_ANSWER, false), word, all),
        Anchor::Marked => {}
        Anchor::Start => all.extend(word_at(text, 0).map(|(found, end)| Match { start: 0, end, found })),
        Anchor::Anywhere => {
            let mut at = 0;
            while at < text.len() {
                match text.is_char_boundary(at).then(|| word(at)).flatten() {
                    Some((found, end)) => {
                        all.push(Match { start: at, end, found });
                        at = end.max(at + 1);
                    }
                    None => at += 1,
                }
            }
        }
    }
}

fn letter(text: &str, at: usize) -> Option<(Found<'static>, usize)> {
    let letter = text[at..].chars().next().filter(|c| CHOICES.contains(c))?;
    Some((Found::Choice(letter), at + letter.len_utf8()))
}

/// A letter at the beginning of the text or after white space.
fn spaced(text: &str, at: usize) -> Option<(Found<'static>, usize)> {
    let first = (at == 0).then(|| word_at(text, 0)).flatten();
    first.or_else(|| {
        let space = text[at..].chars().next().filter(|c| c.is_whitespace())?;
        word_at(text, at + space.len_utf8())
    })
}

/// A letter that may be set in bold type and that a mark, white space or the end follows.
fn word_at(text: &str, at: usize) -> Option<(Found<'static>, usize)> {
    let stars = |at: usize| if text[at..].starts_with("**") { 2 } else { 0 };
    let (found, end) = letter(text, at + stars(at))?;
    let end = end + stars(end);
    match text[end..].chars().next() {
        None => Some((found, end)),
        Some(c) if c.is_whitespace() || matches!(c, '.' | ',' | ':') => Some((found, end + c.len_utf8())),
        _ => None,
    }
}
