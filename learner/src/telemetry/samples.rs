//! `samples.jsonl`: what the policy writes. A few groups of each update, and a few answers of each
//! evaluation, one JSON object a line.
//!
//! A thread of its own makes texts of tokens, and writes them here and to TensorBoard. Training hands
//! it groups and never waits for it: what it has no room for is left out. No error of it ends a run.
//!
//! ```text
//! training_loop ─ offer ─> [room for a few] ─> thread ─┬─ file    samples.jsonl, samples.1.jsonl
//!                                                      └─ board   tensorboard/samples
//! ```

mod board;
mod file;
mod shown;

use crate::common::workload::Workload;
use crate::intake::buffer::StoredGroup;
use crate::storage::run_dir::RunDir;
use crate::telemetry::options::WatchSection;
use crate::training::local_rollouts::LocalAnswer;
use crate::training::sequences;
use board::Board;
use echo_protocol::program::clock;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::{Purpose, WorkOrder};
use echo_protocol::work::trajectory::{Omega, Trajectory};
use file::SampleFile;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

pub use file::each_sample;
pub use shown::visible;

/// Longest prompt or response of a sample, in bytes; the rest is left out.
pub const MAX_TEXT_BYTES: usize = 32 << 10;
/// Most responses of a sample. Larger groups are shown in part.
pub const MAX_RESPONSES: usize = 16;
/// Updates and evaluations that may wait for the thread. Each is a few groups of tokens.
const MAX_WAITING: usize = 8;
/// Answers of an evaluation for each group of an update: an answer is one response, a group several.
const ANSWERS_FOR_A_GROUP: usize = 2;

/// A prompt, and what the policy made of it: one line of `samples.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The version that the update made of it; none for an evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<u64>,
    /// The version that was evaluated; none for an update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<u64>,
    /// The evaluation's name, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<String>,
    /// When it was written, in Unix seconds.
    #[serde(default)]
    pub time: f64,
    /// The order's number.
    pub order: u64,
    /// The task's name.
    pub task: String,
    /// The prompt as the policy read it, a chat template's tokens included.
    pub prompt: String,
    /// At most [`MAX_RESPONSES`] of its responses.
    pub responses: Vec<SampledResponse>,
    /// Responses beyond those.
    #[serde(default)]
    pub left_out: u64,
    /// The node that generated them; none where the learner did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A response of a [`Sample`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledResponse {
    /// What followed the prompt. Where there are several turns, what was heard between them is in it.
    pub text: String,
    /// How many tokens are the policy's own.
    pub tokens: u64,
    /// The reward.
    pub reward: f32,
    /// Whether the task counts it as right.
    pub correct: bool,
    /// Whether the policy ended it; otherwise it was cut at the longest length.
    pub ended: bool,
    /// The versions that generated it, oldest first.
    pub versions: Vec<u64>,
    /// What the task says besides; `miss` says why it earned nothing.
    #[serde(default, skip_serializing_if = "Omega::is_empty")]
    pub omega: Omega,
}

impl Sample {
    /// A group that `update` was made of. Texts that cannot be made are empty.
    pub fn of_group(workload: &Workload, update: u64, stored: &StoredGroup) -> Self {
        let order = workload.order(Purpose::Train, stored.group.counter.0);
        let responses = stored.group.trajectories.iter().zip(stored.correct.iter().copied());
        let (update, node) = (Some(update), Some(stored.group.node.to_string()));
        Self { update, node, ..Self::of(workload, &order, responses) }
    }

    /// What the learner itself answered to an order when it evaluated `version`. Texts that cannot be
    /// made are empty.
    pub fn of_answers(
        workload: &Workload,
        version: PolicyVersion,
        order: &WorkOrder,
        answers: Vec<LocalAnswer>,
    ) -> Self {
        let answers: Vec<(Trajectory, bool)> = answers
            .into_iter()
            .map(|answer| {
                let correct = answer.verdict.correct;
                (answer.trajectory(), correct)
            })
            .collect();
        let responses = answers.iter().map(|(trajectory, correct)| (trajectory, *correct));
        Self { evaluated: Some(version.0), ..Self::of(workload, order, responses) }
    }

    fn of<'a>(
        workload: &Workload,
        order: &WorkOrder,
        responses: impl ExactSizeIterator<Item = (&'a Trajectory, bool)>,
    ) -> Self {
        let assignment = workload.assignment(order);
        let left_out = responses.len().saturating_sub(MAX_RESPONSES) as u64;
        let response = |(trajectory, correct): (&Trajectory, bool)| SampledResponse {
            text: bounded(text(workload, order, trajectory)),
            tokens: trajectory.response.len() as u64,
            reward: trajectory.reward,
            correct,
            ended: trajectory.stopped,
            versions: trajectory.versions.iter().map(|span| span.version.0).collect(),
            omega: trajectory.omega.clone(),
        };
        let read = workload.prompt(order).ok();
        let read = read.and_then(|tokens| workload.tokenizer.decode(&tokens, false).ok());
        Self {
            time: clock::wall().0 as f64 / 1000.0,
            order: order.counter.0,
            task: assignment.task().name().to_owned(),
            prompt: bounded(read.unwrap_or_else(|| assignment.prompt().text)),
            responses: responses.take(MAX_RESPONSES).map(response).collect(),
            left_out,
            ..Self::default()
        }
    }

    /// The version that it belongs to: made by the update, or evaluated.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.update.or(self.evaluated).unwrap_or(0)
    }

    /// Mean reward of the responses that are shown.
    #[must_use]
    pub fn mean_reward(&self) -> f64 {
        let sum: f64 = self.responses.iter().map(|response| f64::from(response.reward)).sum();
        sum / self.responses.len().max(1) as f64
    }
}

/// What followed the prompt, as the policy read it.
fn text(workload: &Workload, order: &WorkOrder, trajectory: &Trajectory) -> String {
    let read = sequences::of_order(workload, order, std::slice::from_ref(trajectory));
    let Some(sequence) = read.ok().and_then(|mut read| read.pop()) else {
        return workload.text(&trajectory.response);
    };
    let behind = sequence.tokens().skip(sequence.prompt.len()).map(|(token, _)| token);
    workload.text(&behind.collect::<Vec<_>>())
}

/// The text, without what is beyond [`MAX_TEXT_BYTES`].
fn bounded(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let more = text.len() - MAX_TEXT_BYTES;
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push_str(&format!(" … {more} bytes more"));
    }
    text
}

/// Makes samples, on the thread that writes them.
type Make = Box<dyn FnOnce() -> Vec<Sample> + Send>;

/// The training side: takes what is to be shown.
#[derive(Debug)]
pub struct Samples {
    groups: usize,
    every: u64,
    writer: Mutex<Option<Writer>>,
}

#[derive(Debug)]
struct Writer {
    jobs: SyncSender<Make>,
    thread: JoinHandle<()>,
}

impl Samples {
    /// Nothing is written.
    #[must_use]
    pub fn off() -> Self {
        Self { groups: 0, every: 0, writer: Mutex::new(None) }
    }

    /// Goes on with the samples of a run that stands at `version`; those of later updates are taken
    /// back, as they will be made again. Where no thread can be had, nothing is written.
    #[must_use]
    pub fn start(dir: &RunDir, version: PolicyVersion, section: &WatchSection) -> Self {
        if section.samples == 0 || section.samples_every == 0 {
            return Self::off();
        }
        let (jobs, to_do) = mpsc::sync_channel(MAX_WAITING);
        let (dir, board) = (dir.clone(), section.tensorboard);
        let thread = thread::Builder::new().name("samples".into());
        match thread.spawn(move || work(&dir, version, board, &to_do)) {
            Ok(thread) => {
                let writer = Mutex::new(Some(Writer { jobs, thread }));
                Self { groups: section.samples as usize, every: section.samples_every, writer }
            }
            Err(error) => {
                tracing::warn!(%error, "no samples.jsonl");
                Self::off()
            }
        }
    }

    /// Which groups of `update`, made from a batch of `groups`, are shown. They differ from update to
    /// update: the first of a batch are those that arrived first, and so the short ones.
    pub fn chosen(&self, update: u64, groups: usize) -> impl Iterator<Item = usize> + use<> {
        let due = self.every > 0 && update.is_multiple_of(self.every);
        let count = if due { self.groups.min(groups) } else { 0 };
        let first = (update % groups.max(1) as u64) as usize;
        (0..count).map(move |place| (first + place * groups / count) % groups)
    }

    /// How many answers of an evaluation are shown.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.groups * ANSWERS_FOR_A_GROUP
    }

    /// Has samples made and written, on another thread. Where too many wait already, they are left
    /// out; false then, and where nothing is written at all.
    pub fn offer(&self, make: impl FnOnce() -> Vec<Sample> + Send + 'static) -> bool {
        let writer = self.writer.lock();
        writer.as_ref().is_some_and(|writer| writer.jobs.try_send(Box::new(make)).is_ok())
    }

    /// Waits until everything that was offered is written. Nothing is taken from then on.
    pub fn finish(&self) {
        let writer = self.writer.lock().take();
        if let Some(Writer { jobs, thread }) = writer {
            drop(jobs);
            // A panic of it was printed, and there is nothing to be done about it.
            let _ = thread.join();
        }
    }
}

/// Writes until there will be no more samples.
fn work(dir: &RunDir, version: PolicyVersion, board: bool, jobs: &Receiver<Make>) {
    let mut file = SampleFile::open(dir, version);
    let mut board = board.then(|| Board::open(dir));
    for make in jobs {
        let samples = make();
        file.append(&samples);
        if let Some(board) = &mut board {
            board.show(&samples);
        }
    }
}

#[cfg(test)]
mod tests;
