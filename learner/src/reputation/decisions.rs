//! The operator's journal: one JSON object a line, only ever appended to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use echo_protocol::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};

use crate::reputation::{Decision, Subject};

/// Longest line, in bytes. A longer one says nothing.
pub const MAX_LINE_BYTES: usize = 1024;
/// Most bytes that are read in one go; the rest follows with the next.
const MAX_READ_BYTES: u64 = 1 << 20;
/// Longest journal, in bytes: some hundred thousand decisions.
const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// One decision of the operator: a line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// When it was made.
    pub at: UnixMillis,
    /// The key or network that it is about.
    pub subject: Subject,
    /// A ban with its reason, or a pardon.
    pub decision: Decision,
}

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("{path}: {cause} (is the disk full, or is the run directory another user's?)")]
    Io {
        /// The journal's path, `peers.journal` of the run directory.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It is too long.
    #[error("{path} is longer than 64 MiB: move it away; decisions that were followed stay")]
    TooLong {
        /// The journal's path, `peers.journal` of the run directory.
        path: PathBuf,
    },
}

/// A line, and where it ends.
#[derive(Debug)]
pub(crate) struct JournalLine {
    /// What it says, or why it says nothing.
    pub(crate) entry: Result<JournalEntry, String>,
    /// Bytes of the journal up to its end.
    pub(crate) end: u64,
}

/// Adds a decision. It is on disk when this returns.
///
/// # Errors
/// [`JournalError`]: it cannot be written, or would be too long.
pub fn append(path: &Path, entry: &JournalEntry) -> Result<(), JournalError> {
    let failed = |cause| JournalError::Io { path: path.to_owned(), cause };
    let line = serde_json::to_string(entry).map_err(|error| failed(error.into()))?;
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length >= MAX_JOURNAL_BYTES {
        return Err(JournalError::TooLong { path: path.to_owned() });
    }
    // One write, so that two commands at once make two lines; and a line break in front, in case a
    // line before was torn by a full disk.
    let lead = if length == 0 { "" } else { "\n" };
    file.write_all(format!("{lead}{line}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

/// The whole lines from byte `from` on, empty ones left out. A journal that is shorter than that is
/// another one, and read from its beginning. A file that is not there is an empty journal.
pub(crate) fn read(path: &Path, from: u64) -> Result<Vec<JournalLine>, JournalError> {
    let failed = |cause| JournalError::Io { path: path.to_owned(), cause };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let length = file.metadata().map_err(failed)?.len();
    let from = if from > length { 0 } else { from };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    file.take(MAX_READ_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(lines(&bytes, from))
}

fn lines(bytes: &[u8], from: u64) -> Vec<JournalLine> {
    let full = bytes.len() as u64 == MAX_READ_BYTES;
    // What does not end yet is being written, unless it is longer than any line.
    let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => &bytes[..=last],
        None if full => bytes,
        None => return Vec::new(),
    };
    let mut end = from;
    let mut lines = Vec::new();
    for line in whole.split_inclusive(|byte| *byte == b'\n') {
        end += line.len() as u64;
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let entry = if text.len() > MAX_LINE_BYTES {
            Err(format!("{} bytes, more than {MAX_LINE_BYTES}", text.len()))
        } else {
            serde_json::from_slice(text).map_err(|error| error.to_string())
        };
        lines.push(JournalLine { entry, end });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::PublicKey;

    fn entry(byte: u8, decision: Decision) -> JournalEntry {
        JournalEntry {
            at: UnixMillis(5),
            subject: Subject::Peer(PublicKey::from_bytes([byte; 32])),
            decision,
        }
    }

    #[test]
    fn what_is_appended_is_read_once_and_torn_lines_harm_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("peers.journal");
        assert!(read(&path, 0).unwrap().is_empty());
        let network = Subject::Network("203.0.113.0/24".parse().unwrap());
        let entries = [
            entry(1, Decision::Ban("spam".into())),
            JournalEntry { subject: network, ..entry(0, Decision::Pardon) },
            entry(2, Decision::Pardon),
        ];
        append(&path, &entries[0]).unwrap();
        let first = read(&path, 0).unwrap();
        assert_eq!(first[0].entry, Ok(entries[0].clone()));
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at\":1,\"sub").unwrap();
        assert!(read(&path, first[0].end).unwrap().is_empty(), "it may still be written");
        entries[1..].iter().for_each(|entry| append(&path, entry).unwrap());
        let more = read(&path, first[0].end).unwrap();
        assert!(more[0].entry.is_err());
        assert_eq!(more[1].entry, Ok(entries[1].clone()));
        assert_eq!(more[2].entry, Ok(entries[2].clone()));
        assert!(read(&path, more[2].end).unwrap().is_empty());
        assert_eq!(read(&path, more[2].end + 1).unwrap().len(), 4, "another journal");
    }

    #[test]
    fn an_endless_line_is_passed_over() {
        let noise = vec![b'x'; MAX_READ_BYTES as usize];
        let found = lines(&noise, 7);
        assert!(found[0].entry.is_err());
        assert_eq!(found[0].end, 7 + MAX_READ_BYTES);
        assert!(lines(&noise[..100], 7).is_empty());
    }
}
