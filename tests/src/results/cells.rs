//! Figures, bounds and commands as short texts for a table.

use super::figure::Figure;
use super::goals::Better;
use super::goals_and_records::{HeldOrMissed, NewestFigure};
use super::records::RecordLine;

/// A note that begins so says that `low` and `high` are an interval of confidence, not the least and the
/// greatest of several runs. The cell says it too, so only what follows the first semicolon is shown.
pub(super) const INTERVAL: &str = "95 % interval over ";

/// The figure with its unit and what its runs gave: `0.329 × (0.263 to 0.337, 3 runs)`.
pub(super) fn figure(newest: &NewestFigure<'_>) -> String {
    let (record, unit) = (newest.record, newest.goal.unit.as_str());
    let figure = match record.figure() {
        Figure::Holds(true) => "holds".to_owned(),
        Figure::Holds(false) => "does not hold".to_owned(),
        Figure::Number(figure) => with_unit(figure, unit),
    };
    let runs = record.runs.filter(|runs| *runs > 1).map(|runs| format!("{} runs", number(runs as f64)));
    let brackets: Vec<String> = range(record).into_iter().chain(runs).collect();
    if brackets.is_empty() { figure } else { format!("{figure} ({})", brackets.join(", ")) }
}

fn range(record: &RecordLine) -> Option<String> {
    let range = match (record.low, record.high) {
        (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
        (Some(low), None) => format!("at least {}", number(low)),
        (None, Some(high)) => format!("at most {}", number(high)),
        (None, None) => return None,
    };
    Some(if record.leaves_out.starts_with(INTERVAL) { format!("95 %: {range}") } else { range })
}

/// What the figure does not say, without what its cell says.
pub(super) fn note(record: &RecordLine) -> &str {
    let text = record.leaves_out.trim();
    if text.starts_with(INTERVAL) { text.split_once(';').map_or("", |(_, rest)| rest.trim()) } else { text }
}

/// What became of the goal, and what it asks: `missed: ≥ 0.6 ×`.
pub(super) fn verdict(newest: &NewestFigure<'_>) -> String {
    let word = match newest.held {
        HeldOrMissed::Held => "held",
        HeldOrMissed::Missed => "missed",
        HeldOrMissed::NotShown => "not shown",
        HeldOrMissed::NotAsked => return "-".to_owned(),
    };
    let Some(bound) = newest.goal.bound else { return word.to_owned() };
    let sign = if newest.goal.better == Better::Higher { '≥' } else { '≤' };
    format!("{word}: {sign} {}", with_unit(bound, &newest.goal.unit))
}

fn with_unit(figure: f64, unit: &str) -> String {
    let number = number(figure);
    match unit {
        // Numbers between 0 and 1, and variances, stand by themselves.
        "" | "share" | "variance" => number,
        "x" => format!("{number} ×"),
        unit => format!("{number} {unit}"),
    }
}

/// A number with commas between thousands; very small ones with an exponent.
fn number(number: f64) -> String {
    if number != 0.0 && number.abs() < 1e-3 {
        return format!("{number:e}");
    }
    let text = number.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, rest) = digits.find('.').map_or((digits, ""), |point| digits.split_at(point));
    let mut commas = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            commas.push(',');
        }
        commas.push(digit);
    }
    format!("{sign}{commas}{rest}")
}
