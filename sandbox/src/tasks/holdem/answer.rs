//! Actions as text: how a language model says what it does, and how that is read.
//!
//! ```text
//! action: fold | check | call | raise N
//! ```
//!
//! The last line with `action:` counts, so that a model may think before it acts; an answer without
//! one must be just the action. Case plays no part, `bet` is `raise`, `to` may stand before N, a
//! full stop at the end. N is what the seat's bet of this round becomes, so an all-in is a raise to
//! the most, or a call.

use super::action::{Action, Legal};
use crate::task::Response;

/// The longest answer that is read, in bytes. A longer one is malformed.
pub const MAX_ANSWER_BYTES: usize = 16 << 10;

/// The most digits of N.
const MAX_DIGITS: usize = 15;

const MARK: &str = "action:";

/// Why an answer is no action. The seat then checks where that is free and folds elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerFault {
    /// It was cut by length.
    Cut,
    /// It does not name an action in the form that is asked for.
    Malformed,
    /// It names an action that the rules do not allow now.
    Illegal,
}

impl AnswerFault {
    /// The stable code used in metadata and metrics.
    pub fn code(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Malformed => "malformed",
            Self::Illegal => "illegal",
        }
    }
}

/// The text of a legal action.
pub fn write(action: Action, legal: &Legal) -> String {
    match action {
        Action::Fold => format!("{MARK} fold"),
        Action::Call if legal.call == 0 => format!("{MARK} check"),
        Action::Call => format!("{MARK} call"),
        Action::RaiseTo(to) => format!("{MARK} raise {to}"),
    }
}

/// The action that an answer names, where the rules allow it.
///
/// # Errors
/// The [`AnswerFault`] of an answer that was cut, names no action, or one that the rules forbid.
pub fn read(response: &Response<'_>, legal: &Legal) -> Result<Action, AnswerFault> {
    let text = response.answer().ok_or(AnswerFault::Cut)?;
    if text.len() > MAX_ANSWER_BYTES {
        return Err(AnswerFault::Malformed);
    }
    let text = text.to_ascii_lowercase();
    let said = match text.rfind(MARK) {
        Some(at) => text[at + MARK.len()..].lines().next().unwrap_or_default(),
        None => &text,
    };
    let said = said.trim();
    let words: Vec<&str> = said.strip_suffix('.').unwrap_or(said).split_ascii_whitespace().take(4).collect();
    let free = legal.call == 0;
    let (action, allowed) = match words[..] {
        ["fold"] => (Action::Fold, legal.can_fold),
        ["check"] => (Action::Call, free),
        ["call"] => (Action::Call, !free),
        ["raise" | "bet", to] | ["raise" | "bet", "to", to] => {
            let to = number(to).ok_or(AnswerFault::Malformed)?;
            (Action::RaiseTo(to), legal.raise_to.as_ref().is_some_and(|range| range.contains(&to)))
        }
        _ => return Err(AnswerFault::Malformed),
    };
    if allowed { Ok(action) } else { Err(AnswerFault::Illegal) }
}

fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits && text.len() <= MAX_DIGITS { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facing(call: u64) -> Legal {
        Legal { actor: 0, can_fold: call > 0, call, raise_to: Some(40..=180) }
    }

    fn said(text: &str, legal: &Legal) -> Result<Action, AnswerFault> {
        read(&Response { text, finished: true }, legal)
    }

    #[test]
    fn every_action_is_read_as_it_is_written() {
        for call in [0, 20] {
            let legal = facing(call);
            for action in [Action::Call, Action::RaiseTo(40), Action::RaiseTo(180)] {
                assert_eq!(said(&write(action, &legal), &legal), Ok(action));
            }
        }
        assert_eq!(said(&write(Action::Fold, &facing(20)), &facing(20)), Ok(Action::Fold));
    }

    #[test]
    fn the_last_action_counts() {
        let legal = facing(20);
        for (text, action) in [
            ("Action: Raise 50", Action::RaiseTo(50)),
            ("raise to 50.", Action::RaiseTo(50)),
            ("a fold?\naction: fold\nno, action: CALL\nthe odds are good", Action::Call),
            (" bet 60 \n", Action::RaiseTo(60)),
        ] {
            assert_eq!(said(text, &legal), Ok(action), "{text}");
        }
    }

    #[test]
    fn what_is_no_action_says_why() {
        let legal = facing(20);
        for text in [
            "",
            "action:",
            "i call",
            "call\ncall",
            "raise",
            "raise -50",
            "raise +50",
            "raise 50 chips",
            "raise ５０",
            "raise 99999999999999999999",
            "action: raise 5 0",
            "call..",
        ] {
            assert_eq!(said(text, &legal), Err(AnswerFault::Malformed), "{text:?}");
        }
        for text in ["check", "raise 39", "raise 181"] {
            assert_eq!(said(text, &legal), Err(AnswerFault::Illegal), "{text}");
        }
        for text in ["call", "fold"] {
            assert_eq!(said(text, &facing(0)), Err(AnswerFault::Illegal), "{text}");
        }
        let closed = Legal { raise_to: None, ..facing(20) };
        assert_eq!(said("raise 50", &closed), Err(AnswerFault::Illegal));
        assert_eq!(read(&Response { text: "call", finished: false }, &legal), Err(AnswerFault::Cut));
        assert_eq!(said(&" ".repeat(MAX_ANSWER_BYTES), &legal), Err(AnswerFault::Malformed));
        assert_eq!(said(&"x".repeat(MAX_ANSWER_BYTES + 1), &legal), Err(AnswerFault::Malformed));
    }
}
