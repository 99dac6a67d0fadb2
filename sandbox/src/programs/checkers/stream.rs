//! Reading a file as the checkers do.

use std::borrow::Cow;

use super::message::quote;
use super::number;
use super::verdict::{CheckerVerdict, Judgement};

/// The largest file that is judged, in bytes.
pub const MAX_FILE_BYTES: usize = 128 << 20;
/// The longest token that is read, in bytes.
pub const MAX_TOKEN_BYTES: usize = 32 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const LF: u8 = b'\n';
const CR: u8 = b'\r';
/// What stands in a line for the end of a file right after a carriage return.
const END_OF_FILE: u8 = 0xff;

/// Whose file it is, and so what it means when it is malformed.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Contestant,
    Jury,
}

impl Owner {
    fn refuse(self, message: String) -> Judgement {
        let verdict = match self {
            Self::Contestant => CheckerVerdict::PresentationError,
            Self::Jury => CheckerVerdict::Fail,
        };
        Judgement::new(verdict, message)
    }
}

/// The two files that are compared.
#[derive(Debug)]
pub(super) struct Files<'a> {
    /// The contestant's output: what is wrong here is its fault.
    pub(super) output: FileStream<'a>,
    /// The jury's answer: what is wrong here makes the verdict `Fail`.
    pub(super) answer: FileStream<'a>,
}

impl<'a> Files<'a> {
    /// Opens them, and refuses files that are too large. A byte order mark is no part of the
    /// output; that of an answer is read as content.
    pub(super) fn open(input: &[u8], output: &'a [u8], answer: &'a [u8]) -> Result<Self, Judgement> {
        for (bytes, owner) in [(input, Owner::Jury), (output, Owner::Contestant), (answer, Owner::Jury)] {
            let size = bytes.len();
            if size > MAX_FILE_BYTES {
                let message = format!("File size exceeds {MAX_FILE_BYTES} bytes, size is {size}");
                return Err(owner.refuse(message));
            }
        }
        let output = output.strip_prefix(BYTE_ORDER_MARK).unwrap_or(output);
        Ok(Self {
            output: FileStream { rest: output, owner: Owner::Contestant },
            answer: FileStream { rest: answer, owner: Owner::Jury },
        })
    }

    /// Whether another item follows in both. Skips the blanks before it.
    pub(super) fn both_go_on(&mut self) -> bool {
        !self.answer.seek_end() && !self.output.seek_end()
    }
}

/// A file being read. A clone reads on from the same place.
#[derive(Debug, Clone)]
pub(super) struct FileStream<'a> {
    rest: &'a [u8],
    owner: Owner,
}

impl<'a> FileStream<'a> {
    /// The judgement on a file that has not the expected form.
    pub(super) fn malformed(&self, message: String) -> Judgement {
        self.owner.refuse(message)
    }

    /// Whether all is read.
    pub(super) fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Skips blanks, and says whether all is read then.
    pub(super) fn seek_end(&mut self) -> bool {
        let blanks = self.rest.iter().take_while(|byte| is_blank(**byte)).count();
        self.rest = &self.rest[blanks..];
        self.at_end()
    }

    /// The next token: bytes between blanks.
    pub(super) fn word(&mut self) -> Result<&'a [u8], Judgement> {
        self.expect("token")?;
        let length = self.rest.iter().take_while(|byte| !is_blank(**byte)).count();
        let (word, rest) = self.rest.split_at(length);
        if length > MAX_TOKEN_BYTES {
            let read = quote(&word[..=MAX_TOKEN_BYTES]);
            return Err(
                self.malformed(format!("Length of token exceeds {MAX_TOKEN_BYTES}, token is '{read}...'"))
            );
        }
        self.rest = rest;
        Ok(word)
    }

    /// The next token, as a 32-bit integer.
    pub(super) fn int32(&mut self) -> Result<i32, Judgement> {
        self.expect("int32")?;
        let word = self.word()?;
        let value = self.integer(word)?;
        i32::try_from(value).map_err(|_| self.unexpected("int32", word))
    }

    /// The next token, as a 64-bit integer.
    pub(super) fn int64(&mut self) -> Result<i64, Judgement> {
        self.expect("int64")?;
        let word = self.word()?;
        self.integer(word)
    }

    /// The next token, as a real number; never NaN.
    pub(super) fn double(&mut self) -> Result<f64, Judgement> {
        self.expect("double")?;
        let word = self.word()?;
        number::real(word).ok_or_else(|| self.unexpected("double", word))
    }

    /// The 64-bit integer that a token of this file is.
    pub(super) fn integer(&self, word: &[u8]) -> Result<i64, Judgement> {
        number::integer(word).ok_or_else(|| self.unexpected("integer", word))
    }

    /// The bytes up to the end of the line, which is skipped; none at the end of the file.
    ///
    /// A line ends with LF or CR LF. Any other CR is dropped, and the byte after it is taken as it
    /// comes, even if it is a CR too; where the file ends instead, [`END_OF_FILE`] is taken.
    pub(super) fn line(&mut self) -> Cow<'a, [u8]> {
        let length = self.rest.iter().take_while(|byte| **byte != LF).count();
        let (line, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..).unwrap_or_default();
        let line_feed = !rest.is_empty();
        let Some(first) = line.iter().position(|byte| *byte == CR) else { return line.into() };
        if line_feed && first + 1 == line.len() {
            return line[..first].into();
        }
        let mut kept = line[..first].to_vec();
        let mut bytes = line[first..].iter().copied();
        while let Some(byte) = bytes.next() {
            if byte != CR {
                kept.push(byte);
            } else if let Some(next) = bytes.next() {
                kept.push(next);
            } else if !line_feed {
                kept.push(END_OF_FILE);
            }
        }
        kept.into()
    }

    fn expect(&mut self, what: &str) -> Result<(), Judgement> {
        if self.seek_end() {
            return Err(self.malformed(format!("Unexpected end of file - {what} expected")));
        }
        Ok(())
    }

    fn unexpected(&self, expected: &str, word: &[u8]) -> Judgement {
        let found = quote(word);
        let null = if word.contains(&0) { " (it contains \\0)" } else { "" };
        self.malformed(format!("Expected {expected}, but \"{found}\" found{null}"))
    }
}

/// Whether a byte separates tokens: space, tab, line feed or carriage return.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | LF | CR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<Vec<u8>> {
        let mut stream = FileStream { rest: text, owner: Owner::Jury };
        let mut lines = Vec::new();
        while !stream.at_end() {
            lines.push(stream.line().into_owned());
        }
        lines
    }

    #[test]
    fn only_cr_lf_and_lf_end_lines() {
        assert_eq!(lines(b"a\r\n\nb"), [b"a".as_slice(), b"", b"b"]);
        assert_eq!(lines(b"a\rb\n"), [b"ab"]);
        assert_eq!(lines(b"\r\r\n"), [b"\r"]);
        assert_eq!(lines(b"\r\r\r\nx"), [b"\r", b"x"]);
        assert_eq!(lines(b"a\r"), [b"a\xff"]);
        assert_eq!(lines(b"a\r\r"), [b"a\r"]);
    }

    #[test]
    fn the_end_gives_empty_lines() {
        let mut stream = FileStream { rest: b"", owner: Owner::Contestant };
        assert!(stream.line().is_empty());
        assert!(stream.line().is_empty());
    }

    #[test]
    fn endless_tokens_are_refused() {
        let long = vec![b'x'; MAX_TOKEN_BYTES + 1];
        assert_eq!(
            FileStream { rest: &long[1..], owner: Owner::Jury }.word().map(<[u8]>::len),
            Ok(MAX_TOKEN_BYTES)
        );
        let refused = FileStream { rest: &long, owner: Owner::Contestant }.word().unwrap_err();
        let quoted = format!("{}...{}", "x".repeat(30), "x".repeat(31));
        let message = format!("wrong output format Length of token exceeds 33554432, token is '{quoted}...'");
        assert_eq!(refused.to_string(), message);
    }
}
