//! Figures that are given by hand, as those of `cargo bench` or `fuzz/run`.

use super::figure::Figure;
use super::goals_and_records::Book;
use super::provenance::Stamp;
use super::record::{JudgedBy, Measurement, append_lines};
use super::records::FILE;
use crate::harness::cargo::workspace_root;
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use serde_json::json;
use std::path::Path;
use std::str::FromStr;

/// A figure with its goal: `GOAL=FIGURE`.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenFigure {
    /// The id of the goal.
    pub goal: String,
    /// A number in the goal's unit, or whether the goal holds.
    pub figure: Figure,
}

/// Why a text is no [`GivenFigure`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not like GOAL=FIGURE, where the figure is a number, true or false")]
pub struct GivenError(String);

impl FromStr for GivenFigure {
    type Err = GivenError;

    fn from_str(text: &str) -> Result<Self, GivenError> {
        let read = || {
            let (goal, figure) = text.split_once('=')?;
            let number = || figure.parse().ok().filter(|number: &f64| number.is_finite());
            let figure = match figure.parse() {
                Ok(holds) => Figure::Holds(holds),
                Err(_) => Figure::Number(number()?),
            };
            Some(Self { goal: goal.to_owned(), figure })
        };
        read().ok_or_else(|| GivenError(text.to_owned()))
    }
}

/// Appends these figures to `docs/results/records.jsonl`, or none of them. Without `command`, each has that
/// of its goal's newest record.
///
/// # Errors
/// When a goal is unknown, or has no command yet and none is given; when `goals.toml` has no such machine,
/// git does not tell the commit, or a file cannot be read or written. No record is added then.
pub fn record_given(
    figures: &[GivenFigure],
    command: Option<&str>,
    console: &Console,
) -> anyhow::Result<CommandReport> {
    let root = workspace_root();
    let book = Book::read(&root)?;
    let stamp = Stamp::of_this_run(&root, &book.goals)?;
    append(&root, &book, &stamp, figures, command)?;
    let records = figures.len();
    console.say(format!("{records} figures written to {FILE}; `cargo lab results` puts them on the page"));
    Ok(CommandReport { passed: true, json: json!({"passed": true, "recorded": records}) })
}

/// Appends them below `root`, whose goals and records are in `book`.
pub(super) fn append(
    root: &Path,
    book: &Book,
    stamp: &Stamp,
    figures: &[GivenFigure],
    command: Option<&str>,
) -> anyhow::Result<()> {
    let newest = book.newest_records();
    let line = |given: &GivenFigure| {
        let id = given.goal.as_str();
        let goal = book.goals.goals.iter().find(|goal| goal.id() == id);
        let goal = goal.with_context(|| format!("goal `{id}` is unknown"))?;
        let known = || newest.get(id)?.1.command.as_deref();
        let command = command.or_else(known);
        let command =
            command.with_context(|| format!("goal `{id}` has no command yet: name it in --command"))?;
        let measured = Measurement::new(id, given.figure, &goal.unit, command);
        // Where more than the bound decides, the figure alone does not.
        let judged = if goal.held_at.is_some() { JudgedBy::Nobody } else { JudgedBy::Bound };
        Measurement { runs: None, judged, ..measured }.checked_line(stamp, &book.goals)
    };
    let lines = figures.iter().map(line).collect::<anyhow::Result<Vec<_>>>()?;
    append_lines(root, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_a_goal() {
        let given = |goal: &str, figure: Figure| Ok(GivenFigure { goal: goal.to_owned(), figure });
        assert_eq!("fuzz-code=1.5e6".parse(), given("fuzz-code", Figure::Number(1.5e6)));
        assert_eq!("loss=-3".parse(), given("loss", Figure::Number(-3.0)));
        assert_eq!("right=true".parse(), given("right", Figure::Holds(true)));
        for text in ["fuzz-code", "fuzz-code=", "fuzz-code=yes", "fuzz-code=NaN", "a=1=2"] {
            assert_eq!(text.parse::<GivenFigure>(), Err(GivenError(text.to_owned())));
        }
    }
}
