//! A figure that was just measured, as a line of the records.

use super::figure::Figure;
use super::goals::GoalsFile;
use super::provenance::Stamp;
use super::records::{FILE, read_one};
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// A figure, and how it came about.
#[derive(Clone, Debug)]
pub(super) struct Measurement<'a> {
    /// The id of its goal in `docs/results/goals.toml`.
    pub(super) goal: &'a str,
    /// The figure, in `unit`.
    pub(super) figure: Figure,
    /// The unit of the figure, of `low` and of `high`: that of the goal.
    pub(super) unit: &'a str,
    /// The command that makes the figure, from the root of the workspace.
    pub(super) command: &'a str,
    /// Who says whether the goal is reached: its bound, or a bench that judges more than the figure, like an
    /// interval or the number of cases.
    pub(super) judged: JudgedBy,
    /// Runs that the figure speaks for: it is their middle one, their mean or the worst of them.
    pub(super) runs: Option<u64>,
    /// The least of the runs.
    pub(super) low: Option<f64>,
    /// The greatest of the runs.
    pub(super) high: Option<f64>,
    /// What the figure does not say, in at most forty words; nothing most of the time.
    pub(super) leaves_out: &'a str,
}

/// Who says whether a goal is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum JudgedBy {
    /// The bound that the goal sets, if it sets one.
    #[default]
    Bound,
    /// The bench, which says whether it is held.
    Bench(bool),
    /// Nobody, as the figure cannot decide it.
    Nobody,
}

impl<'a> Measurement<'a> {
    /// A figure of one run that the bound of its goal judges.
    pub(super) fn new(goal: &'a str, figure: impl Into<Figure>, unit: &'a str, command: &'a str) -> Self {
        let (runs, low, high) = (Some(1), None, None);
        let (figure, judged) = (figure.into(), JudgedBy::Bound);
        Self { goal, figure, unit, command, judged, runs, low, high, leaves_out: "" }
    }
}

/// Appends lines to the records below `root`, all of them at once.
pub(super) fn append_lines(root: &Path, lines: &[String]) -> anyhow::Result<()> {
    let path = root.join(FILE);
    let mut file =
        OpenOptions::new().append(true).open(&path).with_context(|| format!("cannot open {FILE}"))?;
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    file.write_all(format!("{before}{lines}").as_bytes()).with_context(|| format!("cannot write {FILE}"))
}

impl Measurement<'_> {
    /// The line, without its end, if the records may have it.
    /// Fails when it contradicts the goals, or has no command.
    pub(super) fn checked_line(&self, stamp: &Stamp, goals: &GoalsFile) -> anyhow::Result<String> {
        let line = self.line(stamp, goals);
        read_one(&line, goals).with_context(|| format!("cannot record `{}`", self.goal))?;
        ensure!(!self.command.trim().is_empty(), "cannot record `{}` without a command", self.goal);
        Ok(line)
    }

    /// The line, without its end.
    fn line(&self, stamp: &Stamp, goals: &GoalsFile) -> String {
        let goal = goals.goals.iter().find(|goal| goal.id() == self.goal);
        let held = match self.judged {
            JudgedBy::Bound => goal.and_then(|goal| goal.is_reached(self.figure)),
            JudgedBy::Bench(held) => Some(held),
            JudgedBy::Nobody => None,
        };
        let figure = match self.figure {
            Figure::Holds(holds) => json!(holds),
            Figure::Number(number) => plain(number),
        };
        json!({
            "goal": self.goal, "figure": figure, "unit": self.unit, "held": held, "command": self.command,
            "commit": stamp.commit, "date": stamp.date, "machine": stamp.machine, "runs": self.runs,
            "low": self.low.map(plain), "high": self.high.map(plain), "leaves_out": self.leaves_out,
        })
        .to_string()
    }
}

/// A number as people write it: a whole one without a point.
fn plain(number: f64) -> Value {
    // Above that, floating point has no units.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT { json!(number as i64) } else { json!(number) }
}
