//! How far a run is, in the line of each update: reward, length, signal, speed, nodes, time left.

use crate::telemetry::metrics::{RECENT_UPDATES, UpdateRow};
use std::collections::VecDeque;
use std::time::Duration;

/// Longest line in characters. Terminals of 110 columns and more show it whole beside its time.
const MAX_COLUMNS: usize = 110;

/// The pace of the last updates.
#[derive(Debug, Default)]
pub(super) struct Pace(VecDeque<f64>);

impl Pace {
    /// Notes an update's period. Returns the seconds to the last of `updates`.
    pub(super) fn eta_s(&mut self, update: u64, updates: u64, period_s: f64) -> f64 {
        self.0.push_back(period_s);
        if self.0.len() > RECENT_UPDATES {
            self.0.pop_front();
        }
        let mean = self.0.iter().sum::<f64>() / self.0.len() as f64;
        mean * updates.saturating_sub(update) as f64
    }
}

/// An update in a line of at most [`MAX_COLUMNS`]; `held_out` is the newest held-out accuracy, which is
/// left out where there is no room for it.
pub(super) fn line(row: &UpdateRow, updates: u64, held_out: Option<f64>) -> String {
    let held_out = held_out.map(|accuracy| format!(", held-out {accuracy:.2}"));
    let with = written(row, updates, held_out.as_deref().unwrap_or_default());
    if with.chars().count() <= MAX_COLUMNS { with } else { written(row, updates, "") }
}

fn written(row: &UpdateRow, updates: u64, held_out: &str) -> String {
    let nodes: u64 = row.nodes.values().sum();
    let left = row.eta_s.map_or_else(String::new, |left| format!(", {} left", short(left)));
    format!(
        "update {}/{updates} · reward {:.3}{held_out} · {:.0} tok, {:.0}% cut, {:.0}% no signal · {} tok/s, {nodes} {}{left}",
        row.update,
        row.reward,
        row.response_tokens,
        row.cut_off * 100.0,
        row.degenerate_groups * 100.0,
        rounded(row.response_tokens_per_s),
        if nodes == 1 { "node" } else { "nodes" },
    )
}

/// A number in at most five characters, as in `85`, `1.2k`, `35k` and `3.1M`.
fn rounded(number: f64) -> String {
    match number {
        n if n < 999.5 => format!("{n:.0}"),
        n if n < 9_950.0 => format!("{:.1}k", n / 1e3),
        n if n < 999_500.0 => format!("{:.0}k", n / 1e3),
        n => format!("{:.1}M", n / 1e6),
    }
}

/// A time in its two largest units, as in `3d4h`, `2h10m`, `12m` and `40s`.
fn short(seconds: f64) -> String {
    let seconds = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, _, _) => format!("{hours}h{}m", minutes % 60),
        (..10_000, _, _) => format!("{days}d{}h", hours % 24),
        _ => "years".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_an_operator_looks_for() {
        let row = UpdateRow {
            update: 12,
            reward: 0.514,
            response_tokens: 16.4,
            cut_off: 0.12,
            degenerate_groups: 0.25,
            response_tokens_per_s: 1234.0,
            nodes: [(4, 1), (6, 1)].into(),
            eta_s: Some(7_830.0),
            ..UpdateRow::default()
        };
        assert_eq!(
            line(&row, 60, Some(0.455)),
            "update 12/60 · reward 0.514, held-out 0.46 · 16 tok, 12% cut, 25% no signal · 1.2k tok/s, 2 nodes, 2h10m left"
        );
        let bare = UpdateRow { update: 1, ..UpdateRow::default() };
        assert_eq!(
            line(&bare, 9, None),
            "update 1/9 · reward 0.000 · 0 tok, 0% cut, 0% no signal · 0 tok/s, 0 nodes"
        );
    }

    #[test]
    fn no_line_is_longer_than_a_terminal() {
        let row = UpdateRow {
            update: 100_000,
            reward: 1.0,
            response_tokens: 32_768.0,
            cut_off: 1.0,
            degenerate_groups: 1.0,
            response_tokens_per_s: 999_400.0,
            nodes: [(1, 999)].into(),
            eta_s: Some(8.6e6),
            ..UpdateRow::default()
        };
        let text = line(&row, 100_000, Some(1.0));
        assert!(text.chars().count() <= MAX_COLUMNS, "{} columns: {text}", text.chars().count());
        assert!(!text.contains("held-out"), "{text}");
    }

    #[test]
    fn the_time_left_is_that_of_the_last_updates() {
        let mut pace = Pace::default();
        assert_eq!(pace.eta_s(1, 11, 3.0), 30.0);
        assert_eq!(pace.eta_s(2, 11, 1.0), 18.0);
        let mut last = 0.0;
        (3..60).for_each(|update| last = pace.eta_s(update, 100, 2.0));
        assert_eq!(last, 82.0);
        assert_eq!(pace.eta_s(100, 100, 2.0), 0.0);
        assert_eq!(pace.eta_s(101, 100, 2.0), 0.0, "a run that was made shorter");
    }

    #[test]
    fn numbers_and_times_are_short() {
        let numbers = [0.0, 85.4, 999.6, 1_260.0, 9_960.0, 35_400.0, 999_600.0].map(rounded);
        assert_eq!(numbers, ["0", "85", "1.0k", "1.3k", "10k", "35k", "1.0M"]);
        let times = [0.4, 59.0, 60.0, 3_599.0, 3_600.0, 90_000.0, f64::NAN].map(short);
        assert_eq!(times, ["0s", "59s", "1m", "59m", "1h0m", "1d1h", "years"]);
    }
}
