//! Cases that were recorded elsewhere, one JSON object a line, and how far what comes out
//! here agrees with them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Longest line of a case file, in bytes; a longer one disagrees, and what follows it is still read.
pub const MAX_LINE_BYTES: u64 = 16 << 20;
/// Most lines of a case file; the rest is not read, and is one disagreement.
pub const MAX_LINES: u64 = 1_000_000;
/// At most this many disagreements are described; further ones are only counted.
pub const MAX_DESCRIBED: usize = 64;

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// It came out as recorded.
    Agrees,
    /// It came out otherwise, or is no case; the text says how.
    Disagrees(String),
}

impl From<Result<(), String>> for CaseOutcome {
    fn from(outcome: Result<(), String>) -> Self {
        outcome.map_or_else(Self::Disagrees, |()| Self::Agrees)
    }
}

/// How far a file agrees. `cases - agreed` disagree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VectorAgreement {
    /// Cases of the file.
    pub cases: u64,
    /// Cases that came out as the file says.
    pub agreed: u64,
    /// What the first cases that did not agree were about, at most [`MAX_DESCRIBED`].
    pub disagreements: Vec<String>,
}

impl VectorAgreement {
    fn count(&mut self, line: u64, case: CaseOutcome) {
        self.cases += 1;
        match case {
            CaseOutcome::Agrees => self.agreed += 1,
            CaseOutcome::Disagrees(text) if self.disagreements.len() < MAX_DESCRIBED => {
                self.disagreements.push(format!("line {line}: {text}"));
            }
            CaseOutcome::Disagrees(_) => {}
        }
    }
}

/// A file that could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}; check that it exists and that its permissions allow it", path.display())]
pub struct VectorReadError {
    path: PathBuf,
    source: std::io::Error,
}

/// Checks every line of a file that is not empty.
///
/// # Errors
/// When the file cannot be read. A line that is no case disagrees.
pub fn check_lines(
    path: &Path,
    check: impl FnMut(&[u8]) -> CaseOutcome,
) -> Result<VectorAgreement, VectorReadError> {
    File::open(path)
        .and_then(|file| read(BufReader::new(file), check))
        .map_err(|source| VectorReadError { path: path.to_owned(), source })
}

fn read(
    mut reader: impl BufRead,
    mut check: impl FnMut(&[u8]) -> CaseOutcome,
) -> std::io::Result<VectorAgreement> {
    let mut agreement = VectorAgreement::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if number > MAX_LINES {
            agreement
                .count(number, CaseOutcome::Disagrees(format!("the file has more than {MAX_LINES} lines")));
            break;
        }
        if read as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            reader.skip_until(b'\n')?;
            agreement.count(number, CaseOutcome::Disagrees(format!("longer than {MAX_LINE_BYTES} bytes")));
        } else if !line.trim_ascii().is_empty() {
            agreement.count(number, check(&line));
        }
    }
    Ok(agreement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_the_first_disagreements_described() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = ["1", "", "1", "x", "1"].join("\n") + &"\nx".repeat(100);
        std::fs::write(file.path(), lines).unwrap();
        let agreement = check_lines(file.path(), |line| match line.trim_ascii() {
            b"1" => CaseOutcome::Agrees,
            other => CaseOutcome::from(Err(String::from_utf8_lossy(other).into_owned())),
        });
        let agreement = agreement.unwrap();
        assert_eq!((agreement.cases, agreement.agreed), (104, 3));
        assert_eq!((agreement.disagreements.len(), agreement.disagreements[0].as_str()), (64, "line 4: x"));
    }

    #[test]
    fn an_endless_line_is_a_disagreement_and_the_next_is_read() {
        let long = std::io::repeat(b'1').take(2 * MAX_LINE_BYTES).chain(&b"\n1\n"[..]);
        let agreement = read(BufReader::new(long), |_| CaseOutcome::Agrees).unwrap();
        assert_eq!((agreement.cases, agreement.agreed), (2, 1));
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_it() {
        let error = check_lines(Path::new("/no/such/file"), |_| CaseOutcome::Agrees).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"));
    }
}
