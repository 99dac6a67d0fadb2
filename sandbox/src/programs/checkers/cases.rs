//! Files of numbered cases: `Case 1: ... Case 2: ...`.

use super::message::{list, quote};
use super::stream::{FileStream, Files};
use super::verdict::{CheckerVerdict, Judgement};

const CASE: &[u8] = b"Case";

/// `caseicmp`: one 64-bit integer a case.
pub(super) fn single(files: &mut Files<'_>) -> Result<String, Judgement> {
    let (expected, found) = (read_single(&mut files.answer)?, read_single(&mut files.output)?);
    for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
        if expected != found {
            let number = index + 1;
            let message = format!("Expected {expected} found {found} [test case {number}]");
            return Err(Judgement::wrong(message));
        }
    }
    let count = expected.len();
    if count != found.len() {
        let message = format!("Expected {count} test case(s) but found {}", found.len());
        return Err(Judgement::new(CheckerVerdict::PresentationError, message));
    }
    Ok(format!("{count} case(s): {}", list(expected.iter(), count, 3)))
}

/// The values of all cases: fewer bytes than the file, since each follows its `Case` and number.
fn read_single(stream: &mut FileStream<'_>) -> Result<Vec<i64>, Judgement> {
    let mut values = Vec::new();
    while !stream.seek_end() {
        let number = values.len() + 1;
        read_case_word(stream, number)?;
        read_number(stream, number)?;
        values.push(stream.int64()?);
    }
    Ok(values)
}

/// `casencmp`: any number of 64-bit integers in each case.
pub(super) fn integers(files: &mut Files<'_>) -> Result<String, Judgement> {
    // A token counts up to its first NUL.
    fn item<'a>(stream: &FileStream<'a>, word: &'a [u8]) -> Result<&'a [u8], Judgement> {
        let item = word.split(|byte| *byte == 0).next().unwrap_or_default();
        stream.integer(item).map(|_| item)
    }
    let describe = |case: &Case<'_>| list(case.items().map(String::from_utf8_lossy), case.count, 3);
    sequences(files, item, describe)
}

/// `casewcmp`: any number of tokens in each case.
pub(super) fn words(files: &mut Files<'_>) -> Result<String, Judgement> {
    let describe = |case: &Case<'_>| {
        let mut joined = Vec::new();
        for word in case.items() {
            joined.extend_from_slice(word);
            joined.push(b' ');
        }
        joined.pop();
        quote(&joined)
    };
    sequences(files, |_, word| Ok(word), describe)
}

/// What of a token is compared, if it is an item of the file at all.
type Item = for<'a> fn(&FileStream<'a>, &'a [u8]) -> Result<&'a [u8], Judgement>;

fn sequences(
    files: &mut Files<'_>,
    item: Item,
    describe: impl Fn(&Case<'_>) -> String,
) -> Result<String, Judgement> {
    let mut number = 0;
    let (mut answer_open, mut output_open) = (false, false);
    while !files.answer.seek_end() {
        number += 1;
        let expected = Case::read(&mut files.answer, number, &mut answer_open, item)?;
        let found = Case::read(&mut files.output, number, &mut output_open, item)?;
        if expected.count != found.count || !expected.items().eq(found.items()) {
            let text = |case: &Case<'_>| format!("\"{}\" [size={}]", describe(case), case.count);
            let (expected, found) = (text(&expected), text(&found));
            let message = format!(
                "Sequences differ: jury has {expected}, but participant has {found} [test case {number}]"
            );
            return Err(Judgement::wrong(message));
        }
    }
    Ok(format!("{number} test cases(s)"))
}

/// The items of one case, read again where they are needed rather than kept.
struct Case<'a> {
    start: FileStream<'a>,
    count: usize,
    item: Item,
}

impl<'a> Case<'a> {
    /// Reads the case of this number, up to the next `Case`. `open` says whether its own
    /// `Case` was read with the case before; it stays set, so once a `Case` ended a case,
    /// none is asked for again.
    fn read(
        stream: &mut FileStream<'a>,
        number: usize,
        open: &mut bool,
        item: Item,
    ) -> Result<Self, Judgement> {
        if !*open {
            read_case_word(stream, number)?;
        }
        read_number(stream, number)?;
        let mut case = Self { start: stream.clone(), count: 0, item };
        while !stream.seek_end() {
            let word = stream.word()?;
            if word == CASE {
                *open = true;
                break;
            }
            item(stream, word)?;
            case.count += 1;
        }
        Ok(case)
    }

    fn items(&self) -> impl Iterator<Item = &'a [u8]> {
        let (mut stream, item) = (self.start.clone(), self.item);
        (0..self.count).map_while(move |_| stream.word().and_then(|word| item(&stream, word)).ok())
    }
}

fn read_case_word(stream: &mut FileStream<'_>, number: usize) -> Result<(), Judgement> {
    let word = stream.word()?;
    if word == CASE {
        return Ok(());
    }
    let found = quote(word);
    Err(stream.malformed(format!("Expected 'Case' but found '{found}' [test case {number}]")))
}

fn read_number(stream: &mut FileStream<'_>, number: usize) -> Result<(), Judgement> {
    let expected = format!("{number}:");
    let word = stream.word()?;
    if word == expected.as_bytes() {
        return Ok(());
    }
    let found = quote(word);
    Err(stream.malformed(format!("Expected '{expected}' but found '{found}' [test case {number}]")))
}
