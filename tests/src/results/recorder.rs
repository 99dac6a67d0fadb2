//! `--record`: the figures of a command that has run.

#[cfg(test)]
mod tests;

use super::SHOWN;
use super::command::{LabCommand, typed};
use super::goals;
use super::goals::GoalEntry;
use super::goals_and_records::Book;
use super::provenance::Stamp;
use super::record::append_lines;
use super::records::FILE;
use super::report_lookup::GoalFinding;
use crate::harness::cargo::workspace_root;
use crate::output::console::{CommandReport, Console, NotRecorded};
use anyhow::{bail, ensure};
use serde_json::{Value, json};
use std::env;
use std::path::PathBuf;

/// Records the figures of one command of the lab.
#[derive(Debug)]
pub struct Recorder {
    root: PathBuf,
    /// When, where and from which tree the command began.
    stamp: Stamp,
    /// Goals whose newest record, or first command, is this one, with the command as it is there.
    goals: Vec<(GoalEntry, String)>,
}

/// What became of the figures of a report.
#[derive(Debug, Default)]
struct Outcome {
    /// Lines that are to be appended.
    lines: Vec<String>,
    /// What was not found, or cannot be recorded.
    problems: Vec<String>,
    /// Goals that are left out, as they do not say where their figures are.
    silent: Vec<String>,
    /// Goals that are left out, as the command did not pass.
    unpassed: Vec<String>,
}

impl Recorder {
    /// For the command with these words after `cargo lab`, before it runs. `--json` and `--record` may be
    /// among them. `ECHO_MACHINE` names the machine where `goals.toml` does not tell it.
    ///
    /// # Errors
    /// When no figure of the command could be recorded afterwards: no goal has it in its newest record, none
    /// of those says where its figure is, this machine is unknown, or git does not tell the commit.
    pub fn new(words: &[String]) -> anyhow::Result<Self> {
        let root = workspace_root();
        let book = Book::read(&root)?;
        let goals = goals_of(&book, words, |name| env::var(name).ok())?;
        let stamp = Stamp::of_this_run(&root, &book.goals)?;
        Ok(Self { root, stamp, goals })
    }

    /// Appends the figures of the command's report to `docs/results/records.jsonl`, and returns it
    /// with how many these were.
    ///
    /// # Errors
    /// [`NotRecorded`], which has the report, when a figure is not where its goal says, or cannot be written.
    /// All others are written nevertheless.
    pub fn record(&self, report: CommandReport, console: &Console) -> anyhow::Result<CommandReport> {
        let CommandReport { passed, json } = report;
        let mut outcome = self.look(passed, &json);
        if let Err(error) = append_lines(&self.root, &outcome.lines) {
            outcome.lines.clear();
            outcome.problems.push(format!("{error:#}"));
        }
        outcome.tell(console);
        let mut fields = match json {
            Value::Object(fields) => fields,
            other => [("report".to_owned(), other)].into_iter().collect(),
        };
        fields.insert("recorded".to_owned(), json!(outcome.lines.len()));
        if outcome.problems.is_empty() {
            return Ok(CommandReport { passed, json: Value::Object(fields) });
        }
        fields.insert("error".to_owned(), json!(outcome.problems.join("; ")));
        Err(NotRecorded(Value::Object(fields)).into())
    }

    /// Looks for the figure of every goal.
    fn look(&self, passed: bool, json: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        let book = match Book::read(&self.root) {
            Ok(book) => book,
            Err(error) => {
                outcome.problems.push(format!("nothing is recorded: {error:#}"));
                return outcome;
            }
        };
        for (goal, command) in &self.goals {
            let id = goal.id().to_owned();
            let Some(at) = &goal.at else {
                outcome.silent.push(id);
                continue;
            };
            if goal.only_passed && !passed {
                outcome.unpassed.push(id);
                continue;
            }
            let line = GoalFinding::of(goal, at, json)
                .and_then(|found| found.measurement(goal, command).checked_line(&self.stamp, &book.goals));
            match line {
                Ok(line) => outcome.lines.push(line),
                Err(error) => outcome.problems.push(format!("{error:#}")),
            }
        }
        outcome
    }
}

/// The goals whose newest record has the command with these words, each with the command as it is there.
/// Goals without a record have their first command.
fn goals_of(
    book: &Book,
    words: &[String],
    value: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<(GoalEntry, String)>> {
    let (words, newest) = (typed(words), book.newest_records());
    let (mut goals, mut otherwise) = (Vec::new(), Vec::new());
    for goal in &book.goals.goals {
        let known = match newest.get(goal.id()) {
            Some((_, record)) => record.command.as_deref(),
            None => goal.first.as_deref(),
        };
        let Some(known) = known else { continue };
        match LabCommand::read(known).filter(|command| command.is(&words)) {
            Some(command) if command.has_variables(&value) => goals.push((goal.clone(), known.to_owned())),
            Some(_) => otherwise.push(known),
            None => {}
        }
    }
    let line = words.join(" ");
    if let ([], [known, ..]) = (goals.as_slice(), otherwise.as_slice()) {
        bail!("nothing can be recorded: the records of this command set other variables: {known}");
    }
    ensure!(
        !goals.is_empty(),
        "nothing can be recorded: no goal's newest record in {FILE} has the command `cargo lab {line}`"
    );
    ensure!(
        goals.iter().any(|(goal, _)| goal.at.is_some()),
        "nothing can be recorded: {} does not say where the figures of `cargo lab {line}` are in its output",
        goals::FILE
    );
    Ok(goals)
}

impl Outcome {
    fn tell(&self, console: &Console) {
        console.say(format!(
            "{} figures written to {FILE}; `cargo lab results` puts them on the page",
            self.lines.len()
        ));
        for (goals, why) in [
            (&self.unpassed, "not recorded, as the command did not pass"),
            (&self.silent, "not recorded, as goals.toml does not say where they are in the output"),
        ] {
            let more = if goals.len() > SHOWN { ", …" } else { "" };
            if !goals.is_empty() {
                let shown = goals.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
                console.say(format!("{why}: {shown}{more}"));
            }
        }
    }
}
