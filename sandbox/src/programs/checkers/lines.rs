//! Files as sequences of lines. Lines that the output lacks read as empty.

use super::message::{ordinal, quote};
use super::stream::Files;
use super::verdict::Judgement;

/// `fcmp`: the lines are the same bytes.
pub(super) fn exact(files: &mut Files<'_>) -> Result<String, Judgement> {
    compare(files, |expected, found| expected == found)
}

/// `lcmp`: the lines have the same words.
pub(super) fn words(files: &mut Files<'_>) -> Result<String, Judgement> {
    compare(files, |expected, found| words_of(expected).eq(words_of(found)))
}

fn compare(files: &mut Files<'_>, same: impl Fn(&[u8], &[u8]) -> bool) -> Result<String, Judgement> {
    let mut count = 0;
    let mut single = String::new();
    while !files.answer.at_end() {
        let expected = files.answer.line();
        if expected.is_empty() && files.answer.at_end() {
            break;
        }
        let found = files.output.line();
        count += 1;
        if !same(&expected, &found) {
            let nth = ordinal(count);
            let (expected, found) = (quote(&expected), quote(&found));
            let message = format!("{nth} lines differ - expected: '{expected}', found: '{found}'");
            return Err(Judgement::wrong(message));
        }
        if count == 1 {
            single = quote(&found);
        }
    }
    Ok(if count == 1 { format!("single line: '{single}'") } else { format!("{count} lines") })
}

/// The words of a line: what C's `isspace` does not hold for.
fn words_of(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    line.split(is_space).filter(|word| !word.is_empty())
}
