//! What the JSON of a report says of a goal.

use super::cells::INTERVAL;
use super::figure::Figure;
use super::goals::GoalEntry;
use super::json_pointer;
use super::record::{JudgedBy, Measurement};
use anyhow::{Context as _, bail};
use serde_json::Value;

/// Digits that a figure keeps; whole numbers keep all of theirs.
const DIGITS: i32 = 4;

/// What was found of a goal.
#[derive(Debug)]
pub(super) struct GoalFinding {
    figure: Figure,
    judged: JudgedBy,
    runs: Option<u64>,
    low: Option<f64>,
    high: Option<f64>,
    leaves_out: String,
}

/// A report in which the figures of a goal are looked up.
struct Looked<'a> {
    goal: &'a str,
    json: &'a Value,
}

impl Looked<'_> {
    fn at(&self, pointer: &str) -> anyhow::Result<&Value> {
        let found = json_pointer::find(self.json, pointer).filter(|value| !value.is_null());
        found.with_context(|| format!("goal `{}`: the output has nothing at `{pointer}`", self.goal))
    }

    /// What `read` makes of the value there, which is `kind`. Nothing without a pointer.
    fn read<T>(
        &self,
        pointer: Option<&str>,
        kind: &str,
        read: fn(&Value) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        let Some(pointer) = pointer else { return Ok(None) };
        let found = read(self.at(pointer)?);
        let missing = || format!("goal `{}`: the output has no {kind} at `{pointer}`", self.goal);
        found.with_context(missing).map(Some)
    }

    fn number(&self, pointer: Option<&str>) -> anyhow::Result<Option<f64>> {
        self.read(pointer, "number", Value::as_f64)
    }
}

impl GoalFinding {
    /// Looks where `goal` says that its figures are, `at` first. Fails when a pointer leads to nothing, or
    /// to something of another kind; the error names goal and pointer.
    pub(super) fn of(goal: &GoalEntry, at: &str, json: &Value) -> anyhow::Result<Self> {
        let looked = Looked { goal: goal.id(), json };
        let (times, plus) = (goal.times.unwrap_or(1.0), goal.plus.unwrap_or(0.0));
        let of_goal = |number: f64| number * times + plus;
        let figure = match looked.at(at)? {
            Value::Bool(holds) => Figure::Holds(*holds),
            Value::Number(number) => Figure::Number(of_goal(number.as_f64().unwrap_or(f64::NAN))),
            _ => bail!("goal `{}`: the output has no figure at `{at}`", goal.id()),
        };
        let runs = looked.read(goal.runs_at.as_deref(), "whole number", Value::as_u64)?;
        let held = looked.read(goal.held_at.as_deref(), "true or false", Value::as_bool)?;
        let half = looked.number(goal.interval_at.as_deref())?.map(|half| half * times);
        let found = Self {
            figure,
            // Before it is rounded.
            judged: match goal.is_reached(figure) {
                Some(reached) => JudgedBy::Bench(reached && held.unwrap_or(true)),
                None => JudgedBy::Bound,
            },
            runs,
            low: looked.number(goal.low_at.as_deref())?.map(of_goal),
            high: looked.number(goal.high_at.as_deref())?.map(of_goal),
            leaves_out: String::new(),
        };
        Ok(match half {
            Some(half) => found.within(half),
            None => found,
        })
    }

    /// The same with an interval of 95 % that goes so far to both sides.
    fn within(self, half: f64) -> Self {
        let Figure::Number(figure) = self.figure else { return self };
        let seeds = self.runs.unwrap_or_default();
        Self {
            low: Some(figure - half),
            high: Some(figure + half),
            leaves_out: format!("{INTERVAL}{seeds} seeds: ± {}", rounded(half)),
            ..self
        }
    }

    /// The figure of `goal` that `command` made.
    pub(super) fn measurement<'a>(&'a self, goal: &'a GoalEntry, command: &'a str) -> Measurement<'a> {
        let figure = match self.figure {
            Figure::Number(number) => Figure::Number(rounded(number)),
            holds => holds,
        };
        Measurement {
            judged: self.judged,
            runs: self.runs,
            low: self.low.map(rounded),
            high: self.high.map(rounded),
            leaves_out: &self.leaves_out,
            ..Measurement::new(goal.id(), figure, &goal.unit, command)
        }
    }
}

/// The number to [`DIGITS`] digits, but not to fewer than it has before the point.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let places = (DIGITS - 1 - number.abs().log10().floor() as i32).clamp(0, 300);
    let scale = 10f64.powi(places);
    (number * scale).round() / scale
}
