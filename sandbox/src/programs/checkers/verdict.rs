//! What a checker decides, and how checker programs say it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::message;

/// What a checker decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CheckerVerdict {
    /// The output is accepted.
    #[serde(rename = "ok")]
    Ok,
    /// The output has the right form, and is not right.
    #[serde(rename = "wa")]
    WrongAnswer,
    /// The output has not the form that was asked for, ends too early or goes on too long.
    #[serde(rename = "pe")]
    PresentationError,
    /// The jury's answer is malformed, or the checker broke. Says nothing about the output
    /// and is never scored.
    #[serde(rename = "fail")]
    Fail,
    /// The output is worth the points that open the message. Only of an author's checker program.
    #[serde(rename = "points")]
    Points,
}

impl CheckerVerdict {
    /// The verdict of a checker program that ended with this code. Codes 4 and 8 are testlib's for
    /// unread output and for output that ends too early, where it was built to tell them apart. Any
    /// other code is a broken checker.
    #[must_use]
    pub fn from_exit_code(code: i32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::WrongAnswer,
            2 | 4 | 8 => Self::PresentationError,
            7 => Self::Points,
            _ => Self::Fail,
        }
    }

    /// The code that testlib's programs end with.
    #[must_use]
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::WrongAnswer => 1,
            Self::PresentationError => 2,
            Self::Fail => 3,
            Self::Points => 7,
        }
    }

    /// How testlib's programs open their message.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::WrongAnswer => "wrong answer",
            Self::PresentationError => "wrong output format",
            Self::Fail => "FAIL",
            Self::Points => "points",
        }
    }
}

/// A verdict and what led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The class that testlib's exit code stands for.
    pub verdict: CheckerVerdict,
    /// testlib's message, without the label that opens it.
    pub message: String,
}

impl Judgement {
    pub(super) fn new(verdict: CheckerVerdict, message: String) -> Self {
        Self { verdict, message: message::printable(&message) }
    }

    pub(super) fn wrong(message: String) -> Self {
        Self::new(CheckerVerdict::WrongAnswer, message)
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verdict.label(), self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_name_verdicts() {
        use CheckerVerdict::*;
        for verdict in [Ok, WrongAnswer, PresentationError, Fail, Points] {
            assert_eq!(CheckerVerdict::from_exit_code(verdict.exit_code()), verdict);
        }
        assert_eq!([4, 8].map(CheckerVerdict::from_exit_code), [PresentationError; 2]);
        // A crash, a partial score of another system, a shell that found no program.
        assert_eq!([-1, 16, 127, 139, i32::MAX].map(CheckerVerdict::from_exit_code), [Fail; 5]);
    }
}
