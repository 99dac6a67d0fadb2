//! The page: what was missed, then a table for each section.

use super::goals::{FILE, GoalsFile, SectionEntry};
use super::goals_and_records::{HeldOrMissed, NewestFigure};
use super::{MAX_WORDS, cells, words};
use anyhow::ensure;

/// Columns of a line that is not of a table.
const WIDTH: usize = 104;

const HEAD: &str = "\
# Results

`cargo lab results` writes this page; do not edit it. It shows the newest figure of each goal in
[goals.toml](results/goals.toml), as measured in [records.jsonl](results/records.jsonl). What older
measurements taught is in [history.md](results/history.md).
";

const HOW_TO_READ: &str = r#"- "Held" and "missed" stand before the goal's limit. "-" is a figure without a goal. "Not shown" is a
  figure that cannot decide its goal.
- Parentheses give the lowest and the highest of several runs, or an interval of 95 % where they say so. A
  figure without runs comes from one run, or nobody wrote down from how many.
- Numbers like [1] point to notes below the table. The [machines](#machines) are at the end.
"#;

/// A table of figures with the notes below it.
#[derive(Default)]
struct FigureTable {
    rows: Vec<String>,
    notes: Vec<String>,
}

/// The whole page, as Markdown.
/// Fails when a cell has more words than fit; the error names the goal.
pub(super) fn render(goals: &GoalsFile, newest: &[NewestFigure<'_>]) -> anyhow::Result<String> {
    let mut blocks = vec![HEAD.to_owned(), paragraph(&format!("{}.", super::summary(newest)))];
    blocks.push(HOW_TO_READ.to_owned());
    blocks.push(contents(&goals.sections, newest));
    let misses = [
        (
            HeldOrMissed::Missed,
            "Missed",
            "These figures do not reach their goals. Their sections have them as well.",
        ),
        (
            HeldOrMissed::NotShown,
            "Not shown",
            "These figures are too few or too uncertain to decide their goals.",
        ),
    ];
    for (what, title, intro) in misses {
        blocks.extend(gathered(goals, newest, what, title, intro)?);
    }
    for section in measured(&goals.sections, newest) {
        let mut table = FigureTable::default();
        for figure in newest.iter().filter(|figure| figure.goal.section == *section.id.get_ref()) {
            table.add(&figure.goal.goal, figure)?;
        }
        blocks.push(format!("## {}\n", section.title));
        blocks.push(paragraph(&section.intro));
        blocks.extend(table.blocks());
    }
    blocks.push(machines(goals));
    Ok(blocks.join("\n"))
}

/// The sections with links to them, and what each holds and misses.
fn contents(sections: &[SectionEntry], newest: &[NewestFigure<'_>]) -> String {
    let line = |section: &SectionEntry| {
        let of: Vec<_> =
            newest.iter().filter(|figure| figure.goal.section == *section.id.get_ref()).collect();
        let count = |what, word: &str| match of.iter().filter(|figure| figure.held == what).count() {
            0 => String::new(),
            count => format!(", {count} {word}"),
        };
        let (held, missed) = (count(HeldOrMissed::Held, "held"), count(HeldOrMissed::Missed, "missed"));
        let open = count(HeldOrMissed::NotShown, "not shown");
        wrapped("-", &format!("{}: {} figures{held}{missed}{open}", link(&section.title), of.len()))
    };
    let list: String = measured(sections, newest).map(line).collect();
    format!("The sections:\n\n{list}")
}

/// The sections of which there are figures.
fn measured<'a>(
    sections: &'a [SectionEntry],
    newest: &'a [NewestFigure<'_>],
) -> impl Iterator<Item = &'a SectionEntry> {
    let has_figures = move |section: &&SectionEntry| {
        newest.iter().any(|figure| figure.goal.section == *section.id.get_ref())
    };
    sections.iter().filter(has_figures)
}

/// A section of all figures of which the same became; nothing where there are none.
fn gathered(
    goals: &GoalsFile,
    newest: &[NewestFigure<'_>],
    what: HeldOrMissed,
    title: &str,
    intro: &str,
) -> anyhow::Result<Vec<String>> {
    let mut table = FigureTable::default();
    for figure in newest.iter().filter(|figure| figure.held == what) {
        let section = goals.sections.iter().find(|section| *section.id.get_ref() == figure.goal.section);
        let section = section.map(|section| link(&section.title)).unwrap_or_default();
        table.add(&format!("{section}: {}", figure.goal.goal), figure)?;
    }
    if table.rows.is_empty() {
        return Ok(Vec::new());
    }
    let head = [format!("## {title}\n"), paragraph(intro)];
    Ok(head.into_iter().chain(table.blocks()).collect())
}

fn machines(goals: &GoalsFile) -> String {
    let row = |id: &str, text: &str| format!("| `{id}` | {} |\n", escaped(text));
    let rows: String =
        goals.machines.iter().map(|machine| row(machine.id.get_ref(), &machine.text)).collect();
    format!("## Machines\n\n| machine | what it is |\n|---|---|\n{rows}")
}

impl FigureTable {
    /// Adds a row under the name `goal`.
    /// Fails when a cell has more words than fit.
    fn add(&mut self, goal: &str, newest: &NewestFigure<'_>) -> anyhow::Result<()> {
        let mark = match cells::note(newest.record) {
            "" => String::new(),
            note => format!(" [{}]", self.number(note)),
        };
        let cells = [
            goal.to_owned(),
            cells::figure(newest) + &mark,
            cells::verdict(newest),
            format!("`{}`", newest.command),
            newest.record.date.clone(),
            format!("`{}`", newest.record.machine),
        ]
        .map(|cell| escaped(&cell));
        let most = cells.iter().map(|cell| words(cell)).max().unwrap_or(0);
        let id = newest.goal.id();
        ensure!(
            most <= MAX_WORDS,
            "{FILE}: goal `{id}` makes a cell of {most} words, of at most {MAX_WORDS}"
        );
        self.rows.push(format!("| {} |\n", cells.join(" | ")));
        Ok(())
    }

    /// The number of a note, from 1 on; the same text is there once.
    fn number(&mut self, note: &str) -> usize {
        let known = self.notes.iter().position(|known| known == note);
        1 + known.unwrap_or_else(|| {
            self.notes.push(note.to_owned());
            self.notes.len() - 1
        })
    }

    /// The table, and the list of its notes if it has any.
    fn blocks(self) -> Vec<String> {
        let head =
            "| goal | figure | held or missed | command | date | machine |\n|---|---|---|---|---|---|\n";
        let table = format!("{head}{}", self.rows.concat());
        let notes: String =
            self.notes.iter().zip(1..).map(|(note, number)| wrapped(&format!("{number}."), note)).collect();
        if notes.is_empty() { vec![table] } else { vec![table, notes] }
    }
}

/// A link to a section of the page.
fn link(title: &str) -> String {
    format!("[{title}](#{})", anchor(title))
}

/// The anchor that GitHub gives to a heading.
fn anchor(title: &str) -> String {
    let kept = |sign: &char| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_');
    title.to_lowercase().chars().filter(kept).map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

/// Text for a cell: in one line, and without bars that would end it.
fn escaped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn paragraph(text: &str) -> String {
    wrapped("", text)
}

/// Text in lines of at most [`WIDTH`] columns after a mark, and below it as far to the right.
fn wrapped(mark: &str, text: &str) -> String {
    let indent = if mark.is_empty() { 0 } else { mark.len() + 1 };
    let (mut lines, mut column) = (mark.to_owned(), mark.len());
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH && !begins_block(word) {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines + "\n"
}

/// Whether the word would begin a list, a heading, a quotation or a table at the start of a line.
fn begins_block(word: &str) -> bool {
    let numbered =
        word.strip_suffix(['.', ')']).is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    numbered || matches!(word, "-" | "+" | "*" | "=") || word.starts_with(['#', '>', '|'])
}
