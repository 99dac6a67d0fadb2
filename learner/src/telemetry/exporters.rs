//! Where a run's metrics are seen: `metrics.jsonl`, Prometheus, TensorBoard.
//!
//! A row is written to `metrics.jsonl` first; that file is the record, and a disk that refuses it
//! ends the run. Prometheus is given the newest value of every metric when it asks, TensorBoard's
//! event file gets every row. What each metric is called and means stands in [`catalog`].

pub mod catalog;
mod endpoint;
mod prometheus;
pub(in crate::telemetry) mod tensorboard;

use crate::storage::run_dir::RunDir;
use crate::telemetry::metrics;
use crate::telemetry::metrics::{History, Metrics};
use crate::telemetry::options::WatchSection;
use catalog::{Reading, readings};
use echo_protocol::program::clock;
use echo_protocol::run::version::PolicyVersion;
use serde::Serialize;
use serde_json::Value;
use std::io;
use tensorboard::EventFile;

pub use endpoint::serve;
pub use prometheus::Latest;

/// All places at once.
#[derive(Debug)]
pub struct Watch {
    metrics: Metrics,
    screen: Screen,
}

/// A record that has been read, and is not gone on with yet.
#[derive(Debug)]
pub struct WatchDraft {
    metrics: metrics::MetricsDraft,
    screen: Screen,
}

impl WatchDraft {
    /// Goes on with the record; rows of later updates are taken back.
    ///
    /// # Errors
    /// When `metrics.jsonl` cannot be written.
    pub fn commit(self) -> io::Result<Watch> {
        Ok(Watch { metrics: self.metrics.commit()?, screen: self.screen })
    }
}

impl Watch {
    /// Reads the record of a run that stands at `version`, once, and shows it everywhere. `metrics.jsonl` is
    /// as it was until the draft is committed.
    ///
    /// # Errors
    /// When `metrics.jsonl` cannot be read, or its draft cannot be written.
    pub fn read(
        dir: &RunDir,
        version: PolicyVersion,
        section: &WatchSection,
    ) -> io::Result<(WatchDraft, History)> {
        let now = now();
        let mut screen = Screen { dir: dir.clone(), event_file: None, latest: Latest::default() };
        if section.tensorboard {
            screen.event_file = EventFile::replace(&dir.tensorboard(), now).inspect_err(no_event_file).ok();
        }
        let (metrics, history) = Metrics::read(&dir.metrics(), version, |row| screen.show(row, now))?;
        Ok((WatchDraft { metrics, screen }, history))
    }

    /// The newest values, for [`serve`].
    #[must_use]
    pub fn latest(&self) -> Latest {
        self.screen.latest.clone()
    }

    /// Writes a row, with the time.
    ///
    /// # Errors
    /// When `metrics.jsonl` cannot be written.
    pub fn write(&mut self, row: &impl Serialize) -> io::Result<()> {
        let (mut row, now) = (serde_json::to_value(row)?, now());
        row["time"] = now.into();
        if self.metrics.write(&row)? {
            let path = self.screen.dir.metrics();
            tracing::warn!("{} was removed or replaced: rows go to a new file from now on", path.display());
        }
        self.screen.renew_event_file(now);
        self.screen.show(&row, now);
        Ok(())
    }
}

/// Where rows are shown that are on record.
#[derive(Debug)]
struct Screen {
    dir: RunDir,
    event_file: Option<EventFile>,
    latest: Latest,
}

impl Screen {
    /// Makes an event file anew that somebody removed, from the rows on record before the newest.
    fn renew_event_file(&mut self, now: f64) {
        if self.event_file.as_ref().is_none_or(EventFile::is_there) {
            return;
        }
        let path = self.dir.tensorboard();
        tracing::warn!(
            "the event file in {} was removed: it is made anew from metrics.jsonl",
            path.display()
        );
        self.event_file = EventFile::replace(&path, now).inspect_err(no_event_file).ok();
        let mut newest = None;
        let read = metrics::each_row(&self.dir.metrics(), |row: Value| {
            if let Some(row) = newest.replace(row) {
                self.show(&row, now);
            }
        });
        if let Err(error) = read {
            no_event_file(&error);
        }
    }

    /// Shows a row that is on record.
    fn show(&mut self, row: &Value, now: f64) {
        let readings: Vec<Reading> = readings(row).collect();
        let step = ["update", "evaluated", "published"].iter().find_map(|key| row.get(key)?.as_u64());
        if let (Some(event_file), Some(step)) = (&mut self.event_file, step) {
            // Rows of older learners have no time.
            let time = row.get("time").and_then(Value::as_f64).unwrap_or(now);
            if let Err(error) = event_file.write(step, time, &readings) {
                no_event_file(&error);
                self.event_file = None;
            }
        }
        self.latest.update(readings);
    }
}

/// Pictures are not worth a run.
fn no_event_file(error: &io::Error) {
    tracing::warn!(%error, "no more event files for TensorBoard; they are made anew from metrics.jsonl at the next start");
}

/// The time in Unix seconds.
fn now() -> f64 {
    clock::wall().0 as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::UpdateRow;
    use crate::training::evaluation::EvaluationRow;
    use tensorboard::tests::scalars;

    fn update(update: u64, reward: f64) -> UpdateRow {
        UpdateRow { update, reward, ..UpdateRow::default() }
    }

    fn watch(dir: &RunDir, version: u64, section: &WatchSection) -> Watch {
        Watch::read(dir, PolicyVersion(version), section).unwrap().0.commit().unwrap()
    }

    #[test]
    fn an_event_file_that_was_removed_is_made_anew_with_all_rows() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = RunDir::new(temporary.path());
        let mut watch = watch(&dir, 0, &WatchSection::default());
        (1..=3).for_each(|n| watch.write(&update(n, n as f64)).unwrap());
        std::fs::remove_dir_all(dir.tensorboard()).unwrap();
        (4..=5).for_each(|n| watch.write(&update(n, n as f64)).unwrap());
        let rewards = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0)];
        assert_eq!(scalars(&dir.tensorboard(), "reward/reward"), rewards);
        // Without the record, only what follows can be shown.
        std::fs::remove_file(dir.metrics()).unwrap();
        watch.write(&update(6, 6.0)).unwrap();
        assert_eq!(metrics::updates(&dir.metrics()).unwrap().len(), 1);
    }

    #[test]
    fn a_resumed_run_shows_every_step_once_everywhere() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = RunDir::new(temporary.path());
        let open = |version| watch(&dir, version, &WatchSection::default());
        let mut watch = open(0);
        watch
            .write(&EvaluationRow { evaluated: 0, held_out_accuracy: Some(0.125), ..Default::default() })
            .unwrap();
        (1..=4).for_each(|n| watch.write(&update(n, n as f64)).unwrap());
        // A crash kept an update from the event file.
        watch.metrics.write(&serde_json::to_value(update(5, 5.0)).unwrap()).unwrap();
        drop(watch);
        // The checkpoint was that of update 5; and once more, of update 3.
        assert_eq!(open(5).latest().text("").unwrap().matches("echo_reward{run=\"\"} 5.0").count(), 1);
        assert_eq!(scalars(&dir.tensorboard(), "reward/reward").len(), 5);
        let mut watch = open(3);
        watch.write(&update(4, 0.5)).unwrap();
        let rewards = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 0.5)];
        assert_eq!(scalars(&dir.tensorboard(), "reward/reward"), rewards);
        assert_eq!(scalars(&dir.tensorboard(), "evaluation/held_out_accuracy"), [(0, 0.125)]);
        let rows = metrics::updates(&dir.metrics()).unwrap();
        assert_eq!(
            rows.iter().map(|row| (row.update as i64, row.reward as f32)).collect::<Vec<_>>(),
            rewards
        );
        assert!(
            metrics::rows(&dir.metrics())
                .unwrap()
                .iter()
                .all(|row| row["time"].is_f64() || row["update"] == 5)
        );
    }

    #[test]
    fn event_files_can_be_left_out_and_cannot_end_a_run() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = RunDir::new(temporary.path());
        let off = WatchSection { tensorboard: false, ..WatchSection::default() };
        watch(&dir, 0, &off).write(&update(1, 0.0)).unwrap();
        assert!(!dir.tensorboard().exists());
        std::fs::write(dir.tensorboard(), "in the way").unwrap();
        let mut watch = watch(&dir, 1, &WatchSection::default());
        watch.write(&update(2, 0.0)).unwrap();
        assert_eq!(metrics::updates(&dir.metrics()).unwrap().len(), 2);
    }
}
