//! Rows that are named with a reason, and why a file is no data set.

use std::fmt;

use super::MAX_ROWS;

/// Rows that a message names; of further ones it says how many there are.
pub const MAX_SHOWN_ROWS: usize = 5;
/// Rows that are kept with their reasons: whoever lists them all has no use for more.
const MAX_KEPT_ROWS: usize = 1_000;
/// Characters of a reason; it may quote what stands in the file.
const MAX_REASON_CHARS: usize = 300;

/// Rows of a file, each with what is said of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedRows {
    named: Vec<(usize, String)>,
    count: usize,
}

impl NamedRows {
    /// Takes a row in: its number, from 1, and what is said of it.
    pub fn push(&mut self, row: usize, reason: &str) {
        self.count += 1;
        if self.named.len() < MAX_KEPT_ROWS {
            self.named.push((row, reason.chars().take(MAX_REASON_CHARS).collect()));
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What is to be said of them where they are left out beside `rest` others; `None` where there are none.
    pub fn remark(&self, task: &str, rest: usize) -> Option<String> {
        let all = self.count + rest;
        (self.count > 0).then(|| {
            format!(
                "task {task}: {} of {all} rows are left out, as no answer could earn on them:\n{self}",
                self.count
            )
        })
    }

    /// The first thousand of them, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        self.named.iter().map(|(row, reason)| (*row, reason.as_str()))
    }
}

/// One a line, at most [`MAX_SHOWN_ROWS`], and how many more there are.
impl fmt::Display for NamedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (row, reason)) in self.iter().take(MAX_SHOWN_ROWS).enumerate() {
            let start = if at == 0 { "" } else { "\n" };
            write!(f, "{start}  row {row}: {reason}")?;
        }
        match self.count.saturating_sub(MAX_SHOWN_ROWS) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// A file that is no data set of the form that its task reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// Rows that the task does not read.
    #[error("{}", wrong(.0))]
    Rows(NamedRows),
    /// Only rows on which nothing can be earned.
    #[error("no answer can earn on any of its rows:\n{0}")]
    AllDead(NamedRows),
    /// The file is something else than rows.
    #[error("{0}")]
    Form(String),
    /// No row at all.
    #[error("it has no rows")]
    Empty,
    /// More rows than are read.
    #[error("it has more than {MAX_ROWS} rows: split it")]
    TooManyRows,
}

fn wrong(rows: &NamedRows) -> String {
    match rows.count() {
        1 => rows.to_string().trim_start().to_owned(),
        count => format!("{count} rows cannot be used:\n{rows}"),
    }
}
