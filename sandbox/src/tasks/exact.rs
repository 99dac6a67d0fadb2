//! The verdict where exactly one text is right.

use crate::task::{Miss, Response, Verdict};

/// Right when the whole response, trailing whitespace aside, is `expected`.
pub(crate) fn judge(expected: &str, response: &Response<'_>) -> Verdict {
    match response.answer() {
        None => Verdict::wrong(Miss::Cut),
        Some(answer) if answer == expected => Verdict::right(),
        Some(_) => Verdict::wrong(Miss::WrongAnswer),
    }
}
