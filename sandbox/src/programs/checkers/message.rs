//! The pieces that messages are made of.

use std::fmt::Display;

/// The most bytes of a file that a message quotes in full.
const MAX_QUOTED: usize = 64;
/// What is quoted of the beginning and the end of anything longer.
const QUOTED_ENDS: (usize, usize) = (30, 31);

/// The control characters that testlib keeps for the brackets around what it adds to a message.
const BRACKETS: (char, char) = ('\u{b}', '\u{11}');

/// `bytes` as a message quotes them: long ones shortened in the middle, and NULs shown as `~`.
pub(super) fn quote(bytes: &[u8]) -> String {
    let text = |part: &[u8]| String::from_utf8_lossy(part).replace('\0', "~");
    if bytes.len() <= MAX_QUOTED {
        return text(bytes);
    }
    let (head, tail) = QUOTED_ENDS;
    format!("{}...{}", text(&bytes[..head]), text(&bytes[bytes.len() - tail..]))
}

/// `1st`, `2nd`, `3rd`, `4th`, ...
pub(super) fn ordinal(n: usize) -> String {
    let ending = match (n / 10 % 10, n % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// The `count` items with spaces between them; of more than five, the first `lead` and the last two.
pub(super) fn list<T: Display>(items: impl Iterator<Item = T>, count: usize, lead: usize) -> String {
    let mut text = String::new();
    for (index, item) in items.enumerate() {
        if count > 5 && index == lead {
            text += "... ";
        }
        if count <= 5 || index < lead || index + 2 >= count {
            text += &format!("{item} ");
        }
    }
    text.trim_end().to_owned()
}

/// A message as it is printed: without blanks around it, and with the one pair of reserved brackets
/// turned into round ones. A message gets such a pair from what it quotes only.
pub(super) fn printable(message: &str) -> String {
    let message = message.trim_matches(is_blank_char);
    let only = |bracket: char| {
        let mut found = message.match_indices(bracket);
        found.next().filter(|_| found.next().is_none()).map(|(at, _)| at)
    };
    match (only(BRACKETS.0), only(BRACKETS.1)) {
        (Some(open), Some(close)) if open < close => {
            message.replace(BRACKETS.0, "(").replace(BRACKETS.1, ")")
        }
        _ => message.to_owned(),
    }
}

fn is_blank_char(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_quotes_keep_their_ends() {
        let long: Vec<u8> = (0..65).map(|i| b'0' + i % 10).collect();
        assert_eq!(quote(&long[..64]).len(), 64);
        assert_eq!(quote(&long), "012345678901234567890123456789...4567890123456789012345678901234");
        assert_eq!(quote(b"a\0\xffb"), "a~\u{fffd}b");
    }

    #[test]
    fn ordinals_are_english() {
        let found = [1, 2, 3, 4, 11, 12, 13, 21, 101, 111, 112, 1_000_002].map(ordinal);
        let expected = [
            "1st",
            "2nd",
            "3rd",
            "4th",
            "11th",
            "12th",
            "13th",
            "21st",
            "101st",
            "111th",
            "112th",
            "1000002nd",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lists_of_more_than_five_are_shortened() {
        assert_eq!(list(1..1, 0, 2), "");
        assert_eq!(list(1..=5, 5, 2), "1 2 3 4 5");
        assert_eq!(list(1..=6, 6, 2), "1 2 ... 5 6");
        assert_eq!(list(1..=6, 6, 3), "1 2 3 ... 5 6");
    }

    #[test]
    fn one_pair_of_reserved_brackets_is_shown_as_round_ones() {
        assert_eq!(printable(" \ta\u{b}b\u{11}c\r\n"), "a(b)c");
        for kept in ["a\u{11}b\u{b}", "\u{b}\u{b}\u{11}", "\u{b}a\u{11}\u{11}", "x\u{b}"] {
            assert_eq!(printable(kept), kept);
        }
    }
}
