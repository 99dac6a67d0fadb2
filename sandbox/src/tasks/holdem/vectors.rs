//! Checks of the engine against hands that were recorded or played elsewhere, one JSON object a line.

use std::path::Path;

use serde::Deserialize;

use super::replay::{HandRecord, replay};
use super::table::Table;
use crate::conformance::{VectorAgreement, VectorReadError, check_lines};

/// What both forms of vectors have.
#[derive(Deserialize)]
struct Case {
    #[serde(flatten)]
    record: HandRecord,
    finishing_stacks: Vec<u64>,
    #[serde(default)]
    steps: Vec<Step>,
}

/// What is said about the table before a decision.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Step {
    /// The index of the decision among the actions.
    at: usize,
    /// The seat to act, counted from 1 as in records.
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

/// Checks every hand of a file of random play: who acts, whether it may fold, what a call
/// costs, from where to where it may raise, pot, bets and stacks before every decision,
/// and the final stacks.
///
/// # Errors
/// When the file cannot be read. A hand that cannot be played is a disagreement.
pub fn check_oracle(path: &Path) -> Result<VectorAgreement, VectorReadError> {
    check_lines(path, |line| check(line, true).into())
}

/// Checks every hand of a file of recorded play: that each action is legal in its turn, and the final stacks.
///
/// # Errors
/// When the file cannot be read. A hand that cannot be played is a disagreement.
pub fn check_phh(path: &Path) -> Result<VectorAgreement, VectorReadError> {
    check_lines(path, |line| check(line, false).into())
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

#[cfg(test)]
mod tests;
