//! The curves that a metrics file holds.

use super::PlotError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// Most points of a curve; far more than a run has updates.
pub const MAX_POINTS: usize = 1_000_000;
/// Longest row that is understood, in bytes.
const MAX_ROW_BYTES: u64 = 1 << 20;

/// What is drawn: values by the number of updates made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Mean reward of the batch of each update; never empty.
    pub rewards: BTreeMap<u64, f64>,
    /// Accuracy on the held-out orders, where it was measured.
    pub accuracies: BTreeMap<u64, f64>,
}

/// The part of a row that is drawn; rows carry more.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Update { update: u64, reward: f64 },
    Evaluation { evaluated: u64, held_out_accuracy: f64 },
}

/// Reads the learner's `metrics.jsonl`. Lines of other kinds, and a last line cut off by a crash,
/// are passed over; of several rows for one update the last counts, as a learner that resumed
/// repeats what it had not yet saved.
///
/// # Errors
/// [`PlotError::Read`], [`PlotError::NoUpdates`] without a row of an update, or
/// [`PlotError::TooManyRows`] with more than [`MAX_POINTS`].
pub fn read_curves(path: &Path) -> Result<Curves, PlotError> {
    let failed = |source| PlotError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut curves = Curves::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(MAX_ROW_BYTES).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(Row::Update { update, reward }) => curves.rewards.insert(update, reward),
            Ok(Row::Evaluation { evaluated, held_out_accuracy }) => {
                curves.accuracies.insert(evaluated, held_out_accuracy)
            }
            Err(_) => continue,
        };
        if curves.rewards.len().max(curves.accuracies.len()) > MAX_POINTS {
            return Err(PlotError::TooManyRows { path: path.to_owned() });
        }
    }
    if curves.rewards.is_empty() {
        return Err(PlotError::NoUpdates { path: path.to_owned() });
    }
    Ok(curves)
}
