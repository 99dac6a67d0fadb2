//! Samples as TensorBoard's texts, in event files of their own: `tensorboard/samples`.
//!
//! They are derived from `samples.jsonl`. A learner that starts writes the newest of them again.

use super::file::{MAX_FILE_BYTES, each_sample};
use super::{Sample, shown};
use crate::storage::run_dir::RunDir;
use crate::telemetry::exporters::tensorboard::EventFile;
use echo_protocol::program::clock;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

/// Samples that a new event file begins with. TensorBoard shows ten steps of a text, unless it is
/// asked for more.
const REBUILT: usize = 100;

/// Where texts are shown.
pub(super) struct Board {
    dir: RunDir,
    events: Option<EventFile>,
}

impl Board {
    /// A new event file with the newest samples on record.
    pub(super) fn open(dir: &RunDir) -> Self {
        let mut board = Self { dir: dir.clone(), events: None };
        board.rebuild();
        board
    }

    /// Shows the samples of an update or an evaluation, which are on record.
    pub(super) fn show(&mut self, samples: &[Sample]) {
        let Some(events) = &self.events else { return };
        if !events.is_there() || events.length() > MAX_FILE_BYTES {
            self.rebuild();
        } else if let Err(error) = self.write(samples) {
            self.fail(&error);
        }
    }

    fn rebuild(&mut self) {
        let made = EventFile::replace(&self.place(), now()).and_then(|events| {
            self.events = Some(events);
            let mut newest = VecDeque::new();
            each_sample(&self.dir, |sample| {
                newest.push_back(sample);
                if newest.len() > REBUILT {
                    newest.pop_front();
                }
            })?;
            let of_one_step = |one: &Sample, next: &Sample| step(one) == step(next);
            newest.make_contiguous().chunk_by(of_one_step).try_for_each(|samples| self.write(samples))
        });
        if let Err(error) = made {
            self.fail(&error);
        }
    }

    /// All samples of one step are one text.
    fn write(&mut self, samples: &[Sample]) -> io::Result<()> {
        let (Some(events), Some(first)) = (&mut self.events, samples.first()) else { return Ok(()) };
        let tag = match (first.update, &first.evaluation) {
            (Some(_), _) => "samples/update".to_owned(),
            (None, None) => "samples/evaluation".to_owned(),
            (None, Some(name)) => format!("samples/evaluation/{name}"),
        };
        events.write_text(first.version(), first.time, tag, shown::markdown(samples))
    }

    fn place(&self) -> PathBuf {
        self.dir.tensorboard().join("samples")
    }

    fn fail(&mut self, error: &io::Error) {
        tracing::warn!(%error, "no more samples for TensorBoard; samples.jsonl has them, and they are made anew at the next start");
        self.events = None;
    }
}

/// What is shown together.
fn step(sample: &Sample) -> (Option<u64>, Option<u64>, Option<&str>) {
    (sample.update, sample.evaluated, sample.evaluation.as_deref())
}

/// The time in Unix seconds.
fn now() -> f64 {
    clock::wall().0 as f64 / 1000.0
}
