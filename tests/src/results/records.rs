//! What was measured: `docs/results/records.jsonl`, one figure a line.

use super::figure::Figure;
use super::goals::{Better, GoalEntry, GoalsFile};
use super::{MAX_WORDS, words};
use anyhow::{anyhow, bail, ensure};
use serde::Deserialize;

/// The file, below the root of the workspace.
pub(super) const FILE: &str = "docs/results/records.jsonl";

/// One line of the records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordLine {
    pub(super) goal: String,
    figure: Option<Figure>,
    unit: String,
    /// Whether the goal is reached; nothing where none is set, or where the figure cannot decide it.
    pub(super) held: Option<bool>,
    /// The command that makes the figure, from the root of the workspace.
    pub(super) command: Option<String>,
    #[expect(dead_code, reason = "the page has no room for commits")]
    commit: Option<String>,
    pub(super) date: String,
    pub(super) machine: String,
    pub(super) runs: Option<u64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    /// What the figure does not say.
    pub(super) leaves_out: String,
}

impl RecordLine {
    /// The figure. [`read`] lets none through that has no figure.
    pub(super) fn figure(&self) -> Figure {
        self.figure.unwrap_or(Figure::Number(f64::NAN))
    }
}

/// Reads the text of `records.jsonl`; the record of line n is at n - 1.
/// Fails when a line is no record or contradicts the goals; the error names the line.
pub(super) fn read(text: &str, goals: &GoalsFile) -> anyhow::Result<Vec<RecordLine>> {
    let read_line = |(line, number): (&str, usize)| {
        read_one(line, goals).map_err(|error| error.context(format!("{FILE}, line {number}")))
    };
    text.lines().zip(1..).map(read_line).collect()
}

/// Reads one line of `records.jsonl`.
/// Fails as [`read`], without the line.
pub(super) fn read_one(line: &str, goals: &GoalsFile) -> anyhow::Result<RecordLine> {
    let record: RecordLine = serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        // The line that serde knows is that of the object, which has only one.
        let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
        anyhow!("column {}: {reason}", error.column())
    })?;
    let Some(goal) = goals.goals.iter().find(|goal| goal.id() == record.goal) else {
        bail!("goal `{}` is unknown", record.goal);
    };
    record.check(goal, goals)?;
    Ok(record)
}

impl RecordLine {
    fn check(&self, goal: &GoalEntry, goals: &GoalsFile) -> anyhow::Result<()> {
        let Self { goal: id, unit, machine, date, .. } = self;
        let known = goals.machines.iter().any(|known| known.id.get_ref() == machine);
        ensure!(known, "goal `{id}`: machine `{machine}` is unknown");
        ensure!(*unit == goal.unit, "goal `{id}` is in `{}`, not in `{unit}`", goal.unit);
        ensure!(is_date(date), "goal `{id}`: `{date}` is no date like 2026-11-28");
        let Some(figure) = self.figure else { bail!("goal `{id}` has no figure") };
        let is_number = matches!(figure, Figure::Number(_));
        ensure!(is_number != (goal.better == Better::Holds), "goal `{id}` has a figure of another kind");
        let said = words(&self.leaves_out);
        ensure!(
            said <= MAX_WORDS,
            "goal `{id}`: `leaves_out` has {said} words, of at most {MAX_WORDS}; history.md has room for more"
        );
        self.check_range(figure)?;
        self.check_verdict(goal, figure)
    }

    fn check_range(&self, figure: Figure) -> anyhow::Result<()> {
        if let Figure::Number(number) = figure {
            let inside =
                self.low.is_none_or(|low| low <= number) && self.high.is_none_or(|high| number <= high);
            ensure!(inside, "goal `{}`: the figure is not between `low` and `high`", self.goal);
        }
        Ok(())
    }

    /// A figure that is good enough may miss its goal, as with an interval that is too wide. No
    /// other figure holds it.
    fn check_verdict(&self, goal: &GoalEntry, figure: Figure) -> anyhow::Result<()> {
        let Some(held) = self.held else { return Ok(()) };
        ensure!(goal.asks(), "goal `{}` has no bound, so nothing can be held or missed", self.goal);
        ensure!(
            !held || goal.is_reached(figure) == Some(true),
            "goal `{}` is not held by its figure",
            self.goal
        );
        ensure!(held || figure != Figure::Holds(true), "goal `{}` is not missed by its figure", self.goal);
        Ok(())
    }
}

fn is_date(text: &str) -> bool {
    let like = |(byte, form): (u8, u8)| if form == b'-' { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().zip(*b"0000-00-00").all(like)
}
