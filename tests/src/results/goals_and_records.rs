//! Goals and records together: the newest figure of each goal.

use super::goals;
use super::goals::{GoalEntry, GoalsFile};
use super::records;
use super::records::RecordLine;
use anyhow::{Context as _, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// What is asked for, and all that was measured.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) goals: GoalsFile,
    pub(super) records: Vec<RecordLine>,
}

/// The newest record of a goal.
#[derive(Debug)]
pub(super) struct NewestFigure<'a> {
    pub(super) goal: &'a GoalEntry,
    pub(super) record: &'a RecordLine,
    pub(super) command: &'a str,
    pub(super) held: HeldOrMissed,
}

/// What became of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldOrMissed {
    Held,
    Missed,
    /// The figure cannot decide it, as where too few cases were tried.
    NotShown,
    /// Nothing is asked of the figure.
    NotAsked,
}

impl Book {
    /// Reads both files below the root of a workspace.
    /// Fails when one cannot be read, or they contradict each other.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let text =
            |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"));
        Self::parse(&text(goals::FILE)?, &text(records::FILE)?)
    }

    /// Reads the texts of `goals.toml` and `records.jsonl`.
    /// Fails when they contradict themselves or each other; the error names file and line.
    pub(super) fn parse(goals: &str, records: &str) -> anyhow::Result<Self> {
        let goals = GoalsFile::parse(goals)?;
        let records = records::read(records, &goals)?;
        Ok(Self { goals, records })
    }

    /// The newest record of each goal that has one, with its line, by the goal's id. Among equal
    /// dates the last line counts.
    pub(super) fn newest_records(&self) -> HashMap<&str, (usize, &RecordLine)> {
        let mut newest: HashMap<&str, (usize, &RecordLine)> = HashMap::new();
        for (record, line) in self.records.iter().zip(1..) {
            let known = newest.entry(&record.goal).or_insert((line, record));
            if known.1.date <= record.date {
                *known = (line, record);
            }
        }
        newest
    }

    /// The newest figure of each goal, in the order of the goals. Goals that wait for their first
    /// command are left out.
    /// Fails when other goals have no record, or their newest record no command: the error names all of them.
    pub(super) fn newest(&self) -> anyhow::Result<Vec<NewestFigure<'_>>> {
        let newest = self.newest_records();
        let (mut figures, mut unmeasured, mut without_command) = (Vec::new(), Vec::new(), Vec::new());
        for goal in &self.goals.goals {
            match newest.get(goal.id()) {
                None if goal.first.is_some() => {}
                None => unmeasured.push(format!("`{}`", goal.id())),
                Some((line, record)) => match record.command.as_deref().filter(|command| !command.is_empty())
                {
                    None => without_command.push(format!("`{}` (line {line})", goal.id())),
                    Some(command) => figures.push(NewestFigure::new(goal, record, command)),
                },
            }
        }
        ensure!(unmeasured.is_empty(), "{}: no record for goal {}", records::FILE, unmeasured.join(", "));
        ensure!(
            without_command.is_empty(),
            "{}: the newest record has no command that makes its figure: goal {}",
            records::FILE,
            without_command.join(", ")
        );
        Ok(figures)
    }
}

impl<'a> NewestFigure<'a> {
    fn new(goal: &'a GoalEntry, record: &'a RecordLine, command: &'a str) -> Self {
        let held = match record.held {
            Some(true) => HeldOrMissed::Held,
            Some(false) => HeldOrMissed::Missed,
            None if goal.asks() => HeldOrMissed::NotShown,
            None => HeldOrMissed::NotAsked,
        };
        Self { goal, record, command, held }
    }
}
