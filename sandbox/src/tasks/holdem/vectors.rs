//! Checks of the engine against hands that were recorded or played elsewhere, one JSON object a line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::replay::{Record, replay};
use super::table::Table;

/// Bytes of one line; a longer one disagrees, and what follows it is still read.
pub const MAX_LINE_BYTES: u64 = 4 << 20;

/// Lines of one file; the rest is not read, and is one disagreement.
pub const MAX_LINES: u64 = 1_000_000;

/// At most this many disagreements are described; further ones are only counted.
pub const MAX_DESCRIBED: usize = 64;

/// How far the engine agrees with a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Hands of the file.
    pub cases: u64,
    /// Hands that came out as the file says.
    pub agreed: u64,
    /// What the first hands that did not were about, at most [`MAX_DESCRIBED`].
    pub disagreements: Vec<String>,
}

impl Agreement {
    fn count(&mut self, outcome: Result<(), String>) {
        self.cases += 1;
        match outcome {
            Ok(()) => self.agreed += 1,
            Err(text) if self.disagreements.len() < MAX_DESCRIBED => self.disagreements.push(text),
            Err(_) => {}
        }
    }
}

/// A file that could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; check the path and the file's permissions", path.display())]
pub struct ReadError {
    path: PathBuf,
    source: std::io::Error,
}

/// What both forms of vectors have.
#[derive(Deserialize)]
struct Case {
    #[serde(flatten)]
    record: Record,
    finishing_stacks: Vec<u64>,
    #[serde(default)]
    steps: Vec<Step>,
}

/// What is said about the table before a decision.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Step {
    /// The index of the decision among the actions.
    at: usize,
    /// Counted from 1.
    actor: usize,
    can_fold: bool,
    call: u64,
    raise_to: Option<(u64, u64)>,
    pot: u64,
    bets: Vec<u64>,
    stacks: Vec<u64>,
}

impl Step {
    /// What the engine says before entry `at`; `None` when nobody is to act.
    fn of(at: usize, table: &Table) -> Option<Self> {
        let legal = table.legal()?;
        Some(Self {
            at,
            actor: legal.actor + 1,
            can_fold: legal.can_fold,
            call: legal.call,
            raise_to: legal.raise_to.map(std::ops::RangeInclusive::into_inner),
            pot: table.pot(),
            bets: table.bets().collect(),
            stacks: table.stacks().collect(),
        })
    }
}

/// Checks every hand of a file of random play: who acts, whether it may fold, what a call costs, from where to where it may raise,
/// pot, bets and stacks before every decision, and the final stacks.
///
/// # Errors
/// When the file cannot be read. A hand that cannot be played is a disagreement.
pub fn check_oracle(path: &Path) -> Result<Agreement, ReadError> {
    check_file(path, |line| check(line, true))
}

/// Checks every hand of a file of recorded play: that each action is legal in its turn, and the final stacks.
///
/// # Errors
/// When the file cannot be read. A hand that cannot be played is a disagreement.
pub fn check_phh(path: &Path) -> Result<Agreement, ReadError> {
    check_file(path, |line| check(line, false))
}

fn check(line: &[u8], with_steps: bool) -> Result<(), String> {
    let row: serde_json::Value =
        serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    let name = row["id"].as_str().unwrap_or("a hand without `id`").to_owned();
    check_case(row, with_steps).map_err(|text| format!("{name}: {text}"))
}

fn check_case(row: serde_json::Value, with_steps: bool) -> Result<(), String> {
    let case = Case::deserialize(row).map_err(|error| format!("malformed: {error}"))?;
    let mut steps = Vec::new();
    let table = replay(&case.record, |at, table| steps.extend(Step::of(at, table)));
    if with_steps {
        if let Some((ours, theirs)) = steps.iter().zip(&case.steps).find(|(ours, theirs)| ours != theirs) {
            return Err(format!("before action {}: got {ours:?}, want {theirs:?}", theirs.at));
        }
        if table.is_ok() && steps.len() != case.steps.len() {
            return Err(format!("{} decisions, want {}", steps.len(), case.steps.len()));
        }
    }
    let got: Vec<u64> = table.map_err(|error| error.to_string())?.stacks().collect();
    if got == case.finishing_stacks {
        return Ok(());
    }
    Err(format!("final stacks: got {got:?}, want {:?}", case.finishing_stacks))
}

fn check_file(path: &Path, check: fn(&[u8]) -> Result<(), String>) -> Result<Agreement, ReadError> {
    File::open(path)
        .and_then(|file| check_lines(BufReader::new(file), check))
        .map_err(|source| ReadError { path: path.to_owned(), source })
}

fn check_lines(
    mut reader: impl BufRead,
    check: fn(&[u8]) -> Result<(), String>,
) -> std::io::Result<Agreement> {
    let mut agreement = Agreement::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if number > MAX_LINES {
            agreement.count(Err(format!("the file has more than {MAX_LINES} lines")));
            break;
        }
        if read as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            reader.skip_until(b'\n')?;
            agreement.count(Err(format!("line {number}: longer than {MAX_LINE_BYTES} bytes")));
        } else if !line.trim_ascii().is_empty() {
            agreement.count(check(&line).map_err(|text| format!("line {number}: {text}")));
        }
    }
    Ok(agreement)
}

#[cfg(test)]
mod tests;
