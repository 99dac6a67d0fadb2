//! What an evaluation came to, for people and programs, and how far it is.

use crate::training::evaluation::journal::{AnsweredRow, Journal};
use crate::training::evaluation::statistics::{Estimate, Figures, RowScore};
use serde_json::{Map, Value};
use std::time::{Duration, Instant};

/// Nobody waits longer for a word.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// What an evaluation came to.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationSummary {
    /// avg@k and pass@k.
    pub figures: Figures,
    /// Mean tokens of a response.
    pub tokens: f64,
    /// Share of responses that the length cut.
    pub cut: f64,
}

impl EvaluationSummary {
    /// What the first `count` rows come to, as far as they are answered; `None` where none is. A file may
    /// hold more, of an evaluation without a limit.
    #[must_use]
    pub fn of(journal: &Journal, count: usize) -> Option<Self> {
        let rows = || journal.rows().range(..count).map(|(_, row)| row);
        let figures = Figures::of(&rows().map(AnsweredRow::score).collect::<Vec<RowScore>>())?;
        let samples = || rows().flat_map(|row| &row.samples);
        let count = samples().count().max(1) as f64;
        let tokens = samples().map(|sample| f64::from(sample.tokens)).sum::<f64>() / count;
        let cut = samples().filter(|sample| sample.cut).count() as f64 / count;
        Some(Self { figures, tokens, cut })
    }

    /// Every figure by its name: those of [`Figures::named`], `rows`, `tokens` and `cut`.
    #[must_use]
    pub fn named(&self) -> Map<String, Value> {
        let mut named: Map<String, Value> =
            self.figures.named().map(|(name, value)| (name, value.into())).collect();
        named.insert("rows".to_owned(), self.figures.rows.into());
        named.insert("tokens".to_owned(), self.tokens.into());
        named.insert("cut".to_owned(), self.cut.into());
        named
    }

    /// One line for the log.
    #[must_use]
    pub fn line(&self) -> String {
        let of = |name: &str, Estimate { value, low, high }: Estimate| {
            format!("{name} {value:.3} [{low:.3}, {high:.3}]")
        };
        let Figures { rows, samples, avg, pass } = &self.figures;
        let last = pass.last_key_value().filter(|(k, _)| **k > 1);
        let last =
            last.map_or_else(String::new, |(k, pass)| format!(" · {}", of(&format!("pass@{k}"), *pass)));
        format!(
            "{}{last} · {rows} rows · {:.0} tokens · {:.1} % cut",
            of(&format!("avg@{samples}"), *avg),
            self.tokens,
            self.cut * 100.0
        )
    }

    /// A table for people, a line a figure.
    #[must_use]
    pub fn table(&self) -> String {
        let line = |name: String, Estimate { value, low, high }: Estimate| {
            format!("{name:<10}{value:.4}   95 % [{low:.4}, {high:.4}]\n")
        };
        let Figures { rows, samples, avg, pass } = &self.figures;
        let passes: String = pass.iter().map(|(k, pass)| line(format!("pass@{k}"), *pass)).collect();
        format!(
            "{}{passes}rows      {rows} of {samples} responses\ntokens    {:.1} a response\ncut       {:.4}\n",
            line(format!("avg@{samples}"), *avg),
            self.tokens,
            self.cut
        )
    }
}

/// How far an evaluation is, said now and then.
#[derive(Debug)]
pub struct Progress {
    rows: usize,
    /// Rows that this process has answered, and their tokens.
    answered: (u32, u64),
    started: Instant,
    said: Instant,
}

impl Progress {
    /// Of an evaluation of so many rows that goes on now.
    #[must_use]
    pub fn begin(rows: usize) -> Self {
        let now = Instant::now();
        Self { rows, answered: (0, 0), started: now, said: now }
    }

    /// Takes note of a row. Something to say when it is due.
    pub fn take(&mut self, journal: &Journal, row: &AnsweredRow) -> Option<String> {
        self.answered.0 += 1;
        self.answered.1 += row.samples.iter().map(|sample| u64::from(sample.tokens)).sum::<u64>();
        if self.said.elapsed() < REPORT_EVERY {
            return None;
        }
        self.said = Instant::now();
        let (elapsed, done) = (self.started.elapsed(), journal.rows().len());
        let left =
            elapsed / self.answered.0 * u32::try_from(self.rows.saturating_sub(done)).unwrap_or(u32::MAX);
        let rewards =
            journal.rows().values().flat_map(|row| &row.samples).map(|sample| f64::from(sample.reward));
        let samples = journal.rows().values().map(|row| row.samples.len()).sum::<usize>().max(1);
        Some(format!(
            "{done}/{} rows · avg {:.3} · {:.0} tokens/s · {} left",
            self.rows,
            rewards.sum::<f64>() / samples as f64,
            self.answered.1 as f64 / elapsed.as_secs_f64(),
            humantime::format_duration(Duration::from_secs(left.as_secs()))
        ))
    }
}
