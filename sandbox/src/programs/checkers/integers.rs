//! Files as sequences of integers.

use super::message::{list, ordinal, quote};
use super::number::is_integer;
use super::stream::Files;
use super::verdict::{CheckerVerdict, Judgement};
use super::words::same_length;

/// `icmp`: one 32-bit integer.
pub(super) fn one(files: &mut Files<'_>) -> Result<String, Judgement> {
    let (expected, found) = (files.answer.int32()?, files.output.int32()?);
    if expected != found {
        return Err(Judgement::wrong(format!("expected {expected}, found {found}")));
    }
    Ok(format!("answer is {expected}"))
}

/// `hcmp`: one integer of any length.
pub(super) fn huge(files: &mut Files<'_>) -> Result<String, Judgement> {
    let (expected, found) = (files.answer.word()?, files.output.word()?);
    if !is_integer(expected) {
        let message = format!("{} is not a valid integer", quote(expected));
        return Err(Judgement::new(CheckerVerdict::Fail, message));
    }
    if !files.answer.seek_end() {
        let message = "expected exactly one token in the answer file".to_owned();
        return Err(Judgement::new(CheckerVerdict::Fail, message));
    }
    if !is_integer(found) {
        let message = format!("{} is not a valid integer", quote(found));
        return Err(Judgement::new(CheckerVerdict::PresentationError, message));
    }
    if expected != found {
        let message = format!("expected '{}', found '{}'", quote(expected), quote(found));
        return Err(Judgement::wrong(message));
    }
    Ok(format!("answer is '{}'", quote(expected)))
}

/// `ncmp`: the same 64-bit integers in the same order.
pub(super) fn ordered(files: &mut Files<'_>) -> Result<String, Judgement> {
    const LISTED: usize = 5;
    let mut count = 0;
    let mut first = Vec::new();
    while files.both_go_on() {
        let (expected, found) = (files.answer.int64()?, files.output.int64()?);
        count += 1;
        if expected != found {
            let nth = ordinal(count);
            let message = format!("{nth} numbers differ - expected: '{expected}', found: '{found}'");
            return Err(Judgement::wrong(message));
        }
        if count <= LISTED {
            first.push(expected);
        }
    }
    same_length(files, count, |stream| stream.int64().map(drop))?;
    if count > LISTED {
        return Ok(format!("{count} numbers"));
    }
    let numbers = list(first.iter(), count, count);
    Ok(format!("{count} number(s): \"{}\"", quote(numbers.as_bytes())))
}

/// `uncmp`: the same 64-bit integers in any order.
pub(super) fn unordered(files: &mut Files<'_>) -> Result<String, Judgement> {
    let mut expected = Vec::new();
    while !files.answer.seek_end() {
        expected.push(files.answer.int64()?);
    }
    // More than the jury's are read, since they may be malformed, and not kept.
    let mut found = Vec::new();
    let mut found_count = 0;
    while !files.output.seek_end() {
        let number = files.output.int64()?;
        found_count += 1;
        if found.len() < expected.len() {
            found.push(number);
        }
    }
    let count = expected.len();
    if count != found_count {
        return Err(Judgement::wrong(format!("Expected {count} elements, but {found_count} found")));
    }
    expected.sort_unstable();
    found.sort_unstable();
    if expected != found {
        let message =
            format!("Expected sequence and output are different (as unordered sequences) [size={count}]");
        return Err(Judgement::wrong(message));
    }
    let numbers = list(expected.iter(), count, 2);
    Ok(match count {
        0 => "empty sequence".to_owned(),
        1 => format!("1 number: {numbers}"),
        _ => format!("{count} numbers (in increasing order): {numbers}"),
    })
}
