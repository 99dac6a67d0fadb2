//! Data sets: rows of which orders draw one.
//!
//! A task reads JSON lines, one object a line. [`as_lines`] makes them of the other forms in which
//! people have rows (a JSON array, Parquet), and says what else a file is. It is called once, by
//! whoever founds a run, so that a node reads JSON lines alone.
//!
//! - `error`: rows that are named, and why a file is no data set;
//! - [`fields`]: the values of a row, with words for those that are of another type;
//! - `form`: from any file to JSON lines;
//! - `parquet`: the rows of a Parquet file, within bounds.

mod error;
pub mod fields;
mod form;
mod parquet;

use std::ops::Range;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::task::TaskSeed;

pub use error::{DataError, MAX_SHOWN_ROWS, NamedRows};
pub use form::as_lines;

/// Most rows of a data set.
pub const MAX_ROWS: usize = 1 << 20;
/// Longest row, in bytes.
pub const MAX_ROW_BYTES: usize = 1 << 20;

/// Why a line is not among the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// It is no row of the task: the file is refused.
    Wrong(String),
    /// It is a row, and no answer could earn on it: it is left out.
    Dead(String),
}

impl From<String> for Unusable {
    fn from(reason: String) -> Self {
        Self::Wrong(reason)
    }
}

impl From<&str> for Unusable {
    fn from(reason: &str) -> Self {
        Self::Wrong(reason.to_owned())
    }
}

/// The rows of a file, and those that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRows<R> {
    /// In the order of the file; at least one.
    pub rows: Vec<R>,
    /// Those that no answer could earn on.
    pub left_out: NamedRows,
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

/// Reads JSON lines. Each row is checked by `check`, which gets its number, from 1: that of its
/// line. Empty lines are passed over, and so is a byte-order mark.
///
/// # Errors
/// [`DataError`] with all lines that are no rows.
pub fn read<L: DeserializeOwned, R>(
    bytes: &[u8],
    mut check: impl FnMut(usize, L) -> Result<R, Unusable>,
) -> Result<ReadRows<R>, DataError> {
    let (mut rows, mut wrong, mut left_out) = (Vec::new(), NamedRows::default(), NamedRows::default());
    let bytes = form::without_mark(bytes);
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        if rows.len() + wrong.count() + left_out.count() == MAX_ROWS {
            return Err(DataError::TooManyRows);
        }
        if line.len() > MAX_ROW_BYTES {
            let reason = format!("it has {} bytes, more than {MAX_ROW_BYTES}", line.len());
            left_out.push(number, &reason);
            continue;
        }
        let row = serde_json::from_slice(line)
            .map_err(|error| Unusable::Wrong(form::not_a_row(line, &error)))
            .and_then(|row| check(number, row));
        match row {
            Ok(row) => rows.push(row),
            Err(Unusable::Wrong(reason)) => wrong.push(number, &reason),
            Err(Unusable::Dead(reason)) => left_out.push(number, &reason),
        }
    }
    match (wrong.count(), rows.is_empty(), left_out.count()) {
        (1.., _, _) => Err(DataError::Rows(wrong)),
        (0, true, 0) => Err(DataError::Empty),
        (0, true, _) => Err(DataError::AllDead(left_out)),
        (0, false, _) => Ok(ReadRows { rows, left_out }),
    }
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

    fn numbers(text: &str) -> Result<ReadRows<u32>, DataError> {
        read(text.as_bytes(), |_, n: u32| match n {
            0..9 => Ok(n),
            9 => Err(Unusable::Dead("9 earns nothing".into())),
            _ => Err(format!("{n} is too large").into()),
        })
    }

    #[test]
    fn rows_are_read_and_all_bad_lines_are_named() {
        assert_eq!(numbers("\u{feff}1\n\n2\r\n3").unwrap().rows, [1, 2, 3]);
        assert_eq!(numbers(" \n\n"), Err(DataError::Empty));
        let refused = |text: &str| numbers(text).unwrap_err().to_string();
        assert_eq!(refused("1\n10"), "row 2: 10 is too large");
        assert_eq!(
            refused("10\n1\n11"),
            "2 rows cannot be used:\n  row 1: 10 is too large\n  row 3: 11 is too large"
        );
        let many = refused(&"10\n".repeat(8));
        assert!(
            many.starts_with("8 rows") && many.ends_with("row 5: 10 is too large\n  and 3 more"),
            "{many}"
        );
        assert!(refused("1\n{\n2").starts_with("row 2: it is not JSON"), "{}", refused("1\n{\n2"));
        assert!(refused("1\n\"a\"").starts_with("row 2: it is a text"), "{}", refused("1\n\"a\""));
        assert!(refused("1\n\nnot").starts_with("row 3: it is not JSON"), "{}", refused("1\n\nnot"));
    }

    #[test]
    fn dead_rows_are_left_out_and_a_file_of_them_is_refused() {
        let read = numbers("1\n9\n2").unwrap();
        assert_eq!((read.rows, read.left_out.count()), (vec![1, 2], 1));
        assert_eq!(read.left_out.iter().collect::<Vec<_>>(), [(2, "9 earns nothing")]);
        let long = format!("1\n{}", " ".repeat(MAX_ROW_BYTES) + "1");
        assert!(numbers(&long).unwrap().left_out.to_string().contains("bytes"));
        let all = numbers("9\n9").unwrap_err();
        assert!(matches!(&all, DataError::AllDead(rows) if rows.count() == 2), "{all}");
        assert!(all.to_string().contains("9 earns nothing"), "{all}");
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
