//! The file of an evaluation: what it is of in the first line, and one row a line.
//!
//! Rows are appended as they are answered, and are on the disk before the next one is. A process that
//! is killed leaves at most half of a line behind, which is dropped. When all rows are there, the file
//! is written again in their order: so it does not show how often the evaluation was interrupted.

use crate::storage::atomic_file::{FileError, write_whole};
use crate::training::evaluation::statistics::RowScore;
use echo_policy::model::precision::Precision;
use echo_protocol::wire::content_id::ContentId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// What an evaluation is of: all that its rows depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pinned {
    /// The form of the file.
    pub evaluation: u32,
    /// BLAKE3 of the policy's form and weights.
    pub model: ContentId,
    /// BLAKE3 of the tokens of the first prompt: tokenizer, chat template and what is put around prompts.
    pub prompt: ContentId,
    /// BLAKE3 of the task's file; none where there is none.
    pub data: Option<ContentId>,
    /// The task's name.
    pub task: String,
    /// The parameters that it is given.
    pub params: BTreeMap<String, i64>,
    /// Responses to each row.
    pub samples: u32,
    /// Divides the logits; 0: the likeliest token always.
    pub temperature: f32,
    /// Nucleus mass; 1 is off.
    pub top_p: f32,
    /// Most likely tokens kept; 0 is off.
    pub top_k: u32,
    /// Longest response, in tokens.
    pub max_new_tokens: u32,
    /// What is computed in.
    pub precision: Precision,
    /// Decides every draw.
    pub seed: u64,
    /// Whether rows hold what was written.
    pub texts: bool,
}

impl Pinned {
    /// The form that this program writes.
    pub const FORM: u32 = 1;

    /// A name for the evaluation, of twelve hexadecimal digits: the same for the same one.
    ///
    /// # Errors
    /// Never in practice: it has a JSON form.
    pub fn short_name(&self) -> serde_json::Result<String> {
        let id = ContentId::of(&serde_json::to_vec(self)?);
        Ok(id.to_string()[..12].to_owned())
    }

    /// The keys in which another one differs.
    fn differing(&self, other: &Self) -> Vec<String> {
        let value = |pinned: &Self| serde_json::to_value(pinned).unwrap_or_default();
        let (ours, theirs) = (value(self), value(other));
        let keys = ours.as_object().into_iter().flatten();
        keys.filter(|(key, value)| theirs.get(key.as_str()) != Some(*value))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

/// One response to a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRow {
    /// What it is worth, 0 to 1.
    pub reward: f32,
    /// Whether it counts as right.
    pub correct: bool,
    /// Its tokens, those that end turns included.
    pub tokens: u32,
    /// Whether the length cut it.
    pub cut: bool,
    /// What was written, where texts are kept: turn by turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
}

/// A row with its responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnsweredRow {
    /// Its number, from 0 in the order of the file.
    pub row: usize,
    /// BLAKE3 of what is asked and what is right.
    pub content: ContentId,
    /// Its responses, in the order of their numbers.
    pub samples: Vec<SampleRow>,
}

impl AnsweredRow {
    /// What the statistics need of it.
    #[must_use]
    pub fn score(&self) -> RowScore {
        RowScore {
            rewards: self.samples.iter().map(|sample| f64::from(sample.reward)).collect(),
            right: self.samples.iter().filter(|sample| sample.correct).count(),
        }
    }
}

/// Why a file of an evaluation cannot be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no file of an evaluation.
    #[error("{0} is something else than an evaluation: name another file, or move it away")]
    Foreign(PathBuf),
    /// It is one of something else.
    #[error(
        "{path} is an evaluation of something else: its {} differ; name another file, or move it away to begin anew",
        .keys.join(", ")
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// Keys of its first line that differ.
        keys: Vec<String>,
    },
    /// A line before the last is no row.
    #[error(
        "{path}, line {line}: it is no row of this evaluation; remove the line, and the row is answered again"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
    },
    /// Another process is at it.
    #[error("{0} is being written by another evaluation: wait for it, or name another file")]
    Busy(PathBuf),
    /// The file cannot be put in order.
    #[error(transparent)]
    Whole(#[from] FileError),
    /// A row that has no JSON form.
    #[error("a row cannot be written: {0}")]
    Row(#[from] serde_json::Error),
}

/// The file, open and held, with its rows.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    first: Vec<u8>,
    rows: BTreeMap<usize, AnsweredRow>,
}

impl Journal {
    /// Begins the file of an evaluation, or goes on with it. Half of a last line is dropped.
    ///
    /// # Errors
    /// When it cannot be read or written, is another evaluation's, is damaged, or somebody else writes it.
    pub fn open(path: &Path, pinned: &Pinned) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(failed)?;
        // A file system without locks has nothing to hold: then two writers are the operator's to avoid.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(JournalError::Busy(path.to_owned()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut first = serde_json::to_vec(pinned)?;
        first.push(b'\n');
        let (kept, rows) = read(path, &bytes, &first, pinned)?;
        file.set_len(kept as u64).map_err(failed)?;
        let mut journal = Self { path: path.to_owned(), file, first, rows };
        if kept == 0 {
            let first = journal.first.clone();
            journal.append(&first)?;
        }
        Ok(journal)
    }

    /// The rows that are answered, by their numbers.
    #[must_use]
    pub fn rows(&self) -> &BTreeMap<usize, AnsweredRow> {
        &self.rows
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a row, durably.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, row: AnsweredRow) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        self.append(&line)?;
        self.rows.insert(row.row, row);
        Ok(())
    }

    /// Puts the rows of the file in order.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&self) -> Result<(), JournalError> {
        let mut whole = self.first.clone();
        for row in self.rows.values() {
            serde_json::to_writer(&mut whole, row)?;
            whole.push(b'\n');
        }
        Ok(write_whole(&self.path, &whole)?)
    }

    fn append(&mut self, line: &[u8]) -> Result<(), JournalError> {
        let written = self.file.write_all(line).and_then(|()| self.file.sync_data());
        written.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }
}

/// The rows of a file, and how many of its bytes hold: 0 where it has not begun.
fn read(
    path: &Path,
    bytes: &[u8],
    first: &[u8],
    pinned: &Pinned,
) -> Result<(usize, BTreeMap<usize, AnsweredRow>), JournalError> {
    let mut rows = BTreeMap::new();
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
        // Half of the first line, or none of it.
        return if first.starts_with(bytes) {
            Ok((0, rows))
        } else {
            Err(JournalError::Foreign(path.to_owned()))
        };
    };
    let mut lines = bytes[..=end].split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    let mut kept = 0;
    while let Some((index, line)) = lines.next() {
        if index == 0 {
            let found: Pinned =
                serde_json::from_slice(line).map_err(|_| JournalError::Foreign(path.to_owned()))?;
            let keys = pinned.differing(&found);
            if !keys.is_empty() {
                return Err(JournalError::Other { path: path.to_owned(), keys });
            }
        } else {
            let row = serde_json::from_slice::<AnsweredRow>(line).ok();
            match row.filter(|row| row.samples.len() == pinned.samples as usize) {
                Some(row) => drop(rows.insert(row.row, row)),
                // A disk that lost power may leave a line of zeros.
                None if lines.peek().is_none() => break,
                None => return Err(JournalError::Damaged { path: path.to_owned(), line: index + 1 }),
            }
        }
        kept += line.len();
    }
    Ok((kept, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned() -> Pinned {
        let id = ContentId::of(b"x");
        Pinned {
            evaluation: Pinned::FORM,
            model: id,
            prompt: id,
            data: Some(id),
            task: "math".into(),
            params: BTreeMap::new(),
            samples: 2,
            temperature: 0.6,
            top_p: 0.95,
            top_k: 0,
            max_new_tokens: 4,
            precision: Precision::F32,
            seed: 0,
            texts: false,
        }
    }

    fn row(row: usize) -> AnsweredRow {
        let sample = SampleRow { reward: 0.1, correct: row == 1, tokens: 3, cut: false, text: Vec::new() };
        AnsweredRow { row, content: ContentId::of(&[row as u8]), samples: vec![sample; 2] }
    }

    #[test]
    fn rows_are_kept_through_a_cut_at_any_byte_and_end_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let mut journal = Journal::open(&path, &pinned()).unwrap();
        [2, 0, 1].into_iter().for_each(|index| journal.write(row(index)).unwrap());
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&path, &pinned()).unwrap();
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(journal.rows().len(), lines.saturating_sub(1), "cut at {cut}");
            let missing: Vec<usize> = (0..3).filter(|index| !journal.rows().contains_key(index)).collect();
            missing.into_iter().for_each(|index| journal.write(row(index)).unwrap());
            journal.finish().unwrap();
            drop(journal);
            let again = Journal::open(&path, &pinned()).unwrap();
            assert_eq!(again.rows().values().cloned().collect::<Vec<_>>(), [row(0), row(1), row(2)]);
            let text = std::fs::read_to_string(&path).unwrap();
            let numbers: Vec<usize> = text
                .lines()
                .skip(1)
                .map(|line| serde_json::from_str::<AnsweredRow>(line).unwrap().row)
                .collect();
            assert_eq!(numbers, [0, 1, 2], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_of_zeros_at_the_end_is_dropped_and_one_before_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        Journal::open(&path, &pinned()).unwrap().write(row(0)).unwrap();
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&good[..], b"\0\0\0\n"].concat()).unwrap();
        assert_eq!(Journal::open(&path, &pinned()).unwrap().rows().len(), 1);
        let last = serde_json::to_vec(&row(1)).unwrap();
        std::fs::write(&path, [&good[..], b"{}\n", &last, b"\n"].concat()).unwrap();
        let refused = Journal::open(&path, &pinned()).unwrap_err().to_string();
        assert!(refused.contains("line 3"), "{refused}");
    }

    #[test]
    fn another_evaluation_and_another_file_are_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let held = Journal::open(&path, &pinned()).unwrap();
        let busy = Journal::open(&path, &pinned()).unwrap_err();
        assert!(matches!(busy, JournalError::Busy(_)), "{busy}");
        drop(held);
        let other = Pinned { temperature: 1.0, data: None, ..pinned() };
        let refused = Journal::open(&path, &other).unwrap_err().to_string();
        assert!(refused.contains("data, temperature"), "{refused}");
        for foreign in ["{\"question\": \"1+1?\"}\n", "notes"] {
            std::fs::write(&path, foreign).unwrap();
            let refused = Journal::open(&path, &pinned()).unwrap_err();
            assert!(matches!(refused, JournalError::Foreign(_)), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign, "nothing is lost");
        }
    }
}
