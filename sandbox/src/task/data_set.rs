//! Data sets: one JSON object a line, of which orders draw one.

use std::ops::Range;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::task::TaskSeed;

/// Most rows of a data set.
pub const MAX_ROWS: usize = 1 << 20;
/// Longest row, in bytes.
pub const MAX_ROW_BYTES: usize = 1 << 20;

/// A file that is no data set of the form that its task reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// A line that is no row.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// No row at all.
    #[error("it has no rows")]
    Empty,
    /// More rows than are read.
    #[error("it has more than {MAX_ROWS} rows: split it")]
    TooManyRows,
}

/// The rows that one purpose draws from.
#[derive(Debug)]
pub struct Rows<R> {
    all: Arc<[R]>,
    /// Those of them that are drawn from; never empty: [`split`] and [`Rows::only`] see to it.
    range: Range<usize>,
}

impl<R> Clone for Rows<R> {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), range: self.range.clone() }
    }
}

impl<R> Rows<R> {
    fn of(rows: Vec<R>) -> Self {
        let range = 0..rows.len();
        Self { all: rows.into(), range }
    }

    fn rows(&self) -> &[R] {
        &self.all[self.range.clone()]
    }

    /// The row of `seed`.
    pub fn pick(&self, seed: TaskSeed) -> &R {
        let rows = self.rows();
        &rows[seed.draws().below(rows.len() as u64) as usize]
    }

    /// How many of these rows are held out from `train`: none where both are the same.
    pub fn held_out_from(&self, train: &Self) -> usize {
        if Arc::ptr_eq(&self.all, &train.all) { 0 } else { self.range.len() }
    }

    /// All rows, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, R> {
        self.rows().iter()
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.range.len()
    }

    /// One of these rows alone, which every seed draws; `None` past the last.
    pub fn only(&self, index: usize) -> Option<Self> {
        let at = self.range.clone().nth(index)?;
        Some(Self { all: self.all.clone(), range: at..at + 1 })
    }
}

/// Reads a data set; every row is checked by `check`, which may refuse it with a reason.
///
/// # Errors
/// [`DataError`], for the first line that is no row. Empty lines are passed over.
pub fn read<L: DeserializeOwned, R>(
    bytes: &[u8],
    check: impl Fn(L) -> Result<R, String>,
) -> Result<Vec<R>, DataError> {
    read_lines(bytes, |_, row| check(row))
}

/// The same where `check` wants to know the number of the line, from 1.
///
/// # Errors
/// As [`read`]: [`DataError`] of the first line that is no row.
pub fn read_lines<L: DeserializeOwned, R>(
    bytes: &[u8],
    mut check: impl FnMut(usize, L) -> Result<R, String>,
) -> Result<Vec<R>, DataError> {
    let mut rows = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let refuse = |reason: String| DataError::Line { line: index + 1, reason };
        if line.trim_ascii().is_empty() {
            continue;
        }
        if line.len() > MAX_ROW_BYTES {
            return Err(refuse(format!("it has {} bytes, more than {MAX_ROW_BYTES}", line.len())));
        }
        if rows.len() == MAX_ROWS {
            return Err(DataError::TooManyRows);
        }
        let row = serde_json::from_slice(line).map_err(|error| refuse(reason(&error)))?;
        rows.push(check(index + 1, row).map_err(refuse)?);
    }
    if rows.is_empty() { Err(DataError::Empty) } else { Ok(rows) }
}

/// What is wrong with a line. The line that serde names is always the first: it sees no other.
fn reason(error: &serde_json::Error) -> String {
    if error.classify() != Category::Data {
        return format!("it is not JSON, as column {} shows", error.column());
    }
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

/// Rows to train on, and rows that are held out for evaluation: `percent` of all, spread evenly.
/// Where no row is held out, evaluation asks what training asks, as [`Rows::held_out_from`] tells.
pub fn split<R>(rows: Vec<R>, percent: u32) -> (Rows<R>, Rows<R>) {
    let percent = u64::from(percent.min(50));
    // Row i is held out where the running share passes a whole number.
    let held = |index: u64| (index + 1) * percent / 100 > index * percent / 100;
    let (mut train, mut held_out) = (Vec::new(), Vec::new());
    for (index, row) in (0..).zip(rows) {
        if held(index) { held_out.push(row) } else { train.push(row) }
    }
    let train = Rows::of(train);
    let held_out = if held_out.is_empty() { train.clone() } else { Rows::of(held_out) };
    (train, held_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Result<Vec<u32>, DataError> {
        read(text.as_bytes(), |n: u32| if n < 9 { Ok(n) } else { Err(format!("{n} is too large")) })
    }

    #[test]
    fn rows_are_read_and_bad_lines_are_named() {
        assert_eq!(numbers("1\n\n2\r\n3").unwrap(), [1, 2, 3]);
        assert_eq!(numbers(" \n\n"), Err(DataError::Empty));
        assert_eq!(numbers("1\n9"), Err(DataError::Line { line: 2, reason: "9 is too large".into() }));
        let refused = |text: &str| numbers(text).unwrap_err().to_string();
        assert_eq!(refused("1\n{\n2"), "line 2: invalid type: map, expected u32");
        assert_eq!(refused("1\n\nnot"), "line 3: it is not JSON, as column 2 shows");
        let long = format!("1\n{}", " ".repeat(MAX_ROW_BYTES) + "1");
        assert!(numbers(&long).unwrap_err().to_string().contains("bytes"));
    }

    #[test]
    fn held_out_rows_are_a_share_and_never_trained_on() {
        let (train, held_out) = split((0..200).collect::<Vec<u32>>(), 10);
        assert_eq!((train.iter().len(), held_out.iter().len()), (180, 20));
        assert_eq!(held_out.held_out_from(&train), 20);
        assert!(held_out.iter().all(|row| !train.iter().any(|other| other == row)));
        assert!(held_out.iter().zip(held_out.iter().skip(1)).all(|(a, b)| b - a == 10), "spread evenly");
        let (train, held_out) = split(vec![1, 2, 3], 10);
        assert_eq!((train.iter().len(), held_out.iter().len()), (3, 3), "too few to hold any out");
        assert_eq!(held_out.held_out_from(&train), 0);
    }

    #[test]
    fn seeds_reach_every_row() {
        let (train, _) = split((0..5).collect::<Vec<u32>>(), 0);
        let picked: std::collections::BTreeSet<u32> =
            (0..=u8::MAX).map(|byte| *train.pick(TaskSeed([byte; 32]))).collect();
        assert_eq!(picked.len(), 5);
    }
    #[test]
    fn a_row_alone_is_what_every_seed_draws() {
        let (rows, _) = split(vec![7, 8, 9], 0);
        assert_eq!(rows.count(), 3);
        let second = rows.only(1).unwrap();
        assert!((0..=u8::MAX).all(|byte| *second.pick(TaskSeed([byte; 32])) == 8));
        assert_eq!((second.count(), second.iter().copied().collect::<Vec<_>>()), (1, vec![8]));
        assert!(second.only(0).is_some() && second.only(1).is_none() && rows.only(3).is_none());
    }
}
