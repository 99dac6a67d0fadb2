//! `docs/results.md`: the newest figure of each goal, rendered from what was measured.
//!
//! `docs/results/goals.toml` says which figures are asked for. `docs/results/records.jsonl` has one
//! measured figure a line. [`run`] writes the page, or checks it. [`Recorder`] adds the figures of
//! a command that has run to the records, and [`record_given`] those that are given by hand.
//!
//! May import `harness` and `output`.
//!
//! ```text
//! CommandReport ── recorder ──► report_lookup (json_pointer) ──► record, provenance ──► records.jsonl
//! GOAL=FIGURE ── manual ─────────────────────────────────────────────────┘                   │
//! goals.toml ──► goals ──► goals_and_records ◄── records ◄───────────────────────────────────┘
//!                                 └──► page, cells ──► results.md, or line_diff with --check
//! ```

mod cells;
mod command;
mod figure;
mod goals;
mod goals_and_records;
mod json_pointer;
mod line_diff;
mod manual;
mod page;
mod provenance;
mod record;
mod recorder;
mod records;
mod report_lookup;
#[cfg(test)]
mod tests;

pub use figure::Figure;
pub use manual::{GivenError, GivenFigure, record_given};
pub use recorder::Recorder;

use crate::harness::cargo::workspace_root;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use goals::GoalEntry;
use goals_and_records::{Book, HeldOrMissed, NewestFigure};
use report_lookup::GoalFinding;
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The page, below the root of the workspace.
const PAGE: &str = "docs/results.md";

/// Words that a cell of the page or a note has at most.
const MAX_WORDS: usize = 40;

/// Lines that differ, of which people and scripts are told at most so many.
const SHOWN: usize = 20;

/// Writes `docs/results.md` from the newest record of each goal. With `check` it writes nothing, and passes
/// when the page is what would be written.
///
/// # Errors
/// When the goals or the records cannot be read or contradict each other, when a goal has no record or its
/// newest one has no command, or when the page cannot be read or written.
pub fn run(check: bool, console: &Console) -> anyhow::Result<CommandReport> {
    run_in(&workspace_root(), check, console)
}

/// The command of every record that has one, with its line in `docs/results/records.jsonl`, from 1 on.
///
/// # Errors
/// When the goals or the records cannot be read or contradict each other.
pub fn commands() -> anyhow::Result<Vec<(usize, String)>> {
    let records = Book::read(&workspace_root())?.records;
    let numbered = records.into_iter().zip(1..);
    Ok(numbered.filter_map(|(record, line)| Some((line, record.command?))).collect())
}

/// What goals that name `command` as their first one do not find in the JSON that it printed.
///
/// # Errors
/// When no goal names the command, or the goals or the records cannot be read or contradict each other.
pub fn not_found(command: &str, json: &Value) -> anyhow::Result<Vec<String>> {
    let goals = Book::read(&workspace_root())?.goals.goals;
    let of_command: Vec<GoalEntry> =
        goals.into_iter().filter(|goal| goal.first.as_deref() == Some(command)).collect();
    ensure!(!of_command.is_empty(), "no goal of {} has the first command `{command}`", goals::FILE);
    let problem = |goal: &GoalEntry| GoalFinding::of(goal, goal.at.as_deref()?, json).err();
    Ok(of_command.iter().filter_map(problem).map(|error| error.to_string()).collect())
}

/// The first commands of goals that name one.
///
/// # Errors
/// When the goals or the records cannot be read or contradict each other.
pub fn first_commands() -> anyhow::Result<Vec<String>> {
    let goals = Book::read(&workspace_root())?.goals.goals;
    Ok(goals.into_iter().filter_map(|goal| goal.first).collect())
}

fn run_in(root: &Path, check: bool, console: &Console) -> anyhow::Result<CommandReport> {
    let book = Book::read(root)?;
    let newest = book.newest()?;
    let wanted = page::render(&book.goals, &newest)?;
    let found = read_page(&root.join(PAGE))?;
    let differing = line_diff::lines(&found, &wanted);
    if check {
        tell(&differing, console);
    } else {
        write_page(&root.join(PAGE), &wanted, differing.len(), console)?;
    }
    let holds = !check || differing.is_empty();
    let ids = |what: HeldOrMissed| {
        newest.iter().filter(|figure| figure.held == what).map(|figure| figure.goal.id()).collect::<Vec<_>>()
    };
    let json = json!({
        "passed": holds, "page": PAGE, "goals": newest.len(), "records": book.records.len(),
        "held": ids(HeldOrMissed::Held).len(), "missed": ids(HeldOrMissed::Missed),
        "not_shown": ids(HeldOrMissed::NotShown), "differing": differing.len(),
        "lines": differing.iter().take(SHOWN).collect::<Vec<_>>(),
        "claims": [{"claim": format!("{PAGE} is what its records give"), "holds": holds}],
    });
    console.say(summary(&newest));
    Ok(CommandReport { passed: holds, json })
}

/// The page as it is; empty where there is none yet.
fn read_page(path: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write_page(path: &Path, wanted: &str, differing: usize, console: &Console) -> anyhow::Result<()> {
    if differing == 0 {
        console.say(format!("{PAGE} is what its records give"));
        return Ok(());
    }
    fs::write(path, wanted).with_context(|| format!("cannot write {}", path.display()))?;
    console.say(format!("{PAGE} is written; {differing} lines changed"));
    Ok(())
}

/// Says which lines of the page are not what would be written.
fn tell(differing: &[String], console: &Console) {
    if differing.is_empty() {
        console.say(format!("{PAGE} is what its records give"));
        return;
    }
    console.say(format!("{PAGE} is not what its records give; `cargo lab results` writes it"));
    differing.iter().take(SHOWN).for_each(|line| console.say(format!("{PAGE}:{line}")));
    if let Some(more) = differing.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        console.say(format!("and {more} lines more"));
    }
}

/// Words of a text, with white space between them.
fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// How many goals are reached, in one sentence.
fn summary(newest: &[NewestFigure<'_>]) -> String {
    let count = |what: HeldOrMissed| newest.iter().filter(|figure| figure.held == what).count();
    let [held, missed, open] = [HeldOrMissed::Held, HeldOrMissed::Missed, HeldOrMissed::NotShown].map(count);
    let goals = held + missed + open;
    format!(
        "{} figures; {goals} have a goal to reach: {held} held, {missed} missed, {open} not shown",
        newest.len()
    )
}
