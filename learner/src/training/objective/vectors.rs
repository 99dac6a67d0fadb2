//! Checks objectives against recorded losses and gradients (one JSON object a line).
//!
//! A line carries `objective`, `params`, `groups`, `mask`, `logp`, `behav_logp`, `prox_logp`,
//! `ref_logp`, `advantages`, and what a reference implementation made of them: `loss` and
//! `grad_logp`. Objectives that do not exist here are counted as skipped. Where a line also has
//! `rewards`, and the format says how they became its `advantages`, these are compared too.

mod case;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use case::{Errors, ObjectiveCase};

/// What an f64 check allows where the reference itself rounds intermediate values to f32, as
/// AReaL's decoupled PPO does: its figures are off by up to 2e-7 from the formula worked in f64.
pub const SINGLE_REFERENCE_TOLERANCE: f64 = 1e-6;
/// Gradients are recorded with ten decimals: an absolute difference of half a unit there says nothing.
pub const GRADIENT_ROUNDING: f64 = 5.01e-11;
/// Rewards and advantages are recorded with ten decimals too, and a deviation well below one
/// divides the former: an absolute difference up to this says nothing. A term of 1e-6 beside the
/// deviation is three orders larger.
pub const ADVANTAGE_ROUNDING: f64 = 1e-9;
/// Losses are means of terms of order one that often cancel; below this magnitude their error is absolute.
pub const LOSS_FLOOR: f64 = 1.0;

/// Longest line read from a case file, in bytes.
pub const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;
/// Most lines read from a case file.
pub const MAX_CASES: usize = 100_000;
/// Most failures that a report describes; further ones are only counted.
pub const MAX_FAILURES_DESCRIBED: usize = 32;

/// The arithmetic a check runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckArithmetic {
    /// As in training, where a policy gives log-probabilities in f32; passes at a relative error of 1e-5.
    F32,
    /// As most references were computed; passes at a relative error of 1e-10, and at
    /// [`SINGLE_REFERENCE_TOLERANCE`] where the reference rounds to f32 on its way.
    F64,
}

impl CheckArithmetic {
    /// Largest relative error that passes for an objective of this name.
    #[must_use]
    pub fn tolerance(self, objective: &str) -> f64 {
        match (self, objective) {
            (Self::F32, _) => 1e-5,
            (Self::F64, "decoupled_ppo") => SINGLE_REFERENCE_TOLERANCE,
            (Self::F64, _) => 1e-10,
        }
    }

    /// A value as a policy in this arithmetic would give it.
    fn round(self, value: f64) -> f64 {
        match self {
            Self::F32 => f64::from(value as f32),
            Self::F64 => value,
        }
    }
}

/// What a check found. `cases = passed + failed + skipped`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ObjectiveVectorReport {
    /// Lines that were read from the file.
    pub cases: usize,
    /// Lines whose loss, gradient and advantages agree.
    pub passed: usize,
    /// Lines that disagree, or that an objective refused.
    pub failed: usize,
    /// Lines for objectives that do not exist here.
    pub skipped: usize,
    /// Largest relative error of the compared lines: |Δ| over the reference's magnitude. The
    /// magnitude of a gradient is its largest entry (beyond [`GRADIENT_ROUNDING`]), as is that of
    /// advantages (beyond [`ADVANTAGE_ROUNDING`]); that of a loss is at least [`LOSS_FLOOR`].
    pub worst: f64,
    /// The same for each objective that exists here. (An f64 check does not hold all to one tolerance.)
    pub worst_by_objective: BTreeMap<String, f64>,
    /// The first failures, each with its line.
    pub failures: Vec<String>,
}

/// Why a case file could not be checked.
#[derive(Debug, Error)]
pub enum ObjectiveVectorError {
    /// The file cannot be read.
    #[error("cannot read objective vectors {path}: {source}")]
    Read {
        /// The case file's path, as it was given.
        path: PathBuf,
        /// What the system said when it was read.
        source: std::io::Error,
    },
    /// A line is not a case.
    #[error("{path}, line {line}: not an objective vector ({reason}); expected one JSON object a line")]
    Malformed {
        /// The case file's path, as it was given.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What the parser did not understand.
        reason: String,
    },
    /// The file is larger than the limits allow.
    #[error("{path} has more than {MAX_CASES} lines: split the file")]
    TooManyCases {
        /// The case file's path, as it was given.
        path: PathBuf,
    },
}

/// Compares every line of a file with what this crate computes.
///
/// # Errors
/// [`ObjectiveVectorError`] when the file cannot be read or a line is not a case. A disagreement is
/// no error: it is counted in the report.
pub fn check_file(
    path: &Path,
    precision: CheckArithmetic,
) -> Result<ObjectiveVectorReport, ObjectiveVectorError> {
    let read_error = |source| ObjectiveVectorError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(read_error)?);
    let mut report = ObjectiveVectorReport::default();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut text).map_err(read_error)? == 0 {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        if report.cases == MAX_CASES {
            return Err(ObjectiveVectorError::TooManyCases { path: path.to_owned() });
        }
        let malformed = |reason| ObjectiveVectorError::Malformed { path: path.to_owned(), line, reason };
        let case: ObjectiveCase = serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        case.check().map_err(malformed)?;
        report.add(line, &case, precision);
    }
    Ok(report)
}

impl ObjectiveVectorReport {
    fn add(&mut self, line: usize, case: &ObjectiveCase, precision: CheckArithmetic) {
        self.cases += 1;
        let Some(objective) = case.objective() else {
            self.skipped += 1;
            return;
        };
        let failure = match case.errors(&objective, precision) {
            Ok(Errors { loss, gradient, advantages }) => {
                let error = loss.max(gradient).max(advantages);
                self.worst = self.worst.max(error);
                let worst = self.worst_by_objective.entry(case.objective.clone()).or_insert(0.0);
                *worst = worst.max(error);
                (error > precision.tolerance(&case.objective)).then(|| {
                    format!(
                        "relative error of the loss {loss:.3e}, of the gradient {gradient:.3e}, of the advantages \
                         {advantages:.3e}"
                    )
                })
            }
            Err(error) => Some(error.to_string()),
        };
        match failure {
            None => self.passed += 1,
            Some(reason) => {
                self.failed += 1;
                if self.failures.len() < MAX_FAILURES_DESCRIBED {
                    self.failures.push(format!("line {line} ({}): {reason}", case.objective));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
