//! Many judgings at once, by a bounded number of workers, fair to whoever asks.
//!
//! A worker takes one step of a judging - one test, or the checks of a function - and puts it back: clients take turns
//! by steps, so that one with a thousand tests delays another by a test and not by a thousand. Reports arrive as they
//! are made; who stops listening is not worked for any longer.

mod queue;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use echo_protocol::codec;
use echo_protocol::content::ContentId;
use hashlink::LruCache;
use serde::{Deserialize, Serialize};

use super::functions::{Exam, ExamError, FunctionTask, MAX_TASK_BYTES};
use super::judge::{Judge, Judging, Options};
use super::program::Submission;
use super::suite::{Suite, SuiteError};
use super::verdict::{TestReport, Verdict};
use queue::Queue;
pub use queue::{Full, QueueLimits};

/// Tasks of functions that are kept ready; preparing one takes three runs.
pub const MAX_EXAMS: usize = 64;

/// Whoever asks, for taking turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// What is to be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A program, by tests.
    Program {
        /// The program.
        submission: Submission,
        /// The tests.
        suite: Suite,
        /// How to run them.
        options: Options,
    },
    /// Functions, by their author's checks.
    Functions {
        /// The program that defines them, in Python.
        source: String,
        /// The task.
        task: FunctionTask,
    },
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is too much to do.
    #[error(transparent)]
    Full(#[from] Full),
    /// Nothing can be judged by its suite.
    #[error(transparent)]
    Suite(#[from] SuiteError),
}

/// Judges requests with a fixed number of threads, until it is dropped.
pub struct Service {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    judge: Arc<Judge>,
    state: Mutex<State>,
    changed: Condvar,
    exams: Mutex<LruCache<ContentId, Arc<Exam>>>,
}

struct State {
    queue: Queue<Work>,
    closed: bool,
}

/// A request that is being worked on.
struct Work {
    stage: Stage,
    listener: Sender<Event>,
}

enum Stage {
    Program(Box<Judging>),
    Functions { source: String, task: FunctionTask },
}

enum Event {
    Report(TestReport),
    Done,
}

impl Service {
    /// Starts `workers` threads: as many runs go on at one time.
    pub fn start(judge: Arc<Judge>, workers: NonZeroUsize, limits: QueueLimits) -> Self {
        let state = Mutex::new(State { queue: Queue::new(limits), closed: false });
        let exams = Mutex::new(LruCache::new(MAX_EXAMS));
        let shared = Arc::new(Shared { judge, state, changed: Condvar::new(), exams });
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work())
        };
        Self { workers: (0..workers.get()).map(start).collect(), shared }
    }

    /// Takes a request of `client`.
    ///
    /// # Errors
    /// When there is too much to do already, or nothing can be judged by the request.
    pub fn submit(&self, client: ClientId, request: Request) -> Result<Reports, Refused> {
        let stage = match request {
            Request::Program { submission, suite, options } => {
                Stage::Program(Box::new(Judge::judge(&self.shared.judge, submission, suite, options)?))
            }
            Request::Functions { source, task } => Stage::Functions { source, task },
        };
        let (listener, events) = mpsc::channel();
        self.shared.state().queue.admit(client, Work { stage, listener })?;
        self.shared.changed.notify_one();
        Ok(Reports { events: Some(events) })
    }

    /// What judges.
    pub fn judge(&self) -> &Judge {
        &self.shared.judge
    }
}

impl Drop for Service {
    /// Waits for the runs that go on; what is not finished then ends with [`Verdict::Internal`].
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has dropped its listener, who was told.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((client, mut work)) = self.next() {
            let more = work.step(self);
            let mut state = self.state();
            if more {
                state.queue.put_back(client, work);
                self.changed.notify_one();
            } else {
                state.queue.finish(client);
            }
        }
    }

    /// Whose turn it is; `None` when the service closes.
    fn next(&self) -> Option<(ClientId, Work)> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.queue.next() {
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The task, ready to judge.
    fn exam(&self, task: &FunctionTask) -> Result<Arc<Exam>, ExamError> {
        // Twice the texts leave room for what stands between them. What is larger is refused when it is prepared.
        let Ok(bytes) = codec::encode(task, 2 * MAX_TASK_BYTES) else {
            return Exam::prepare(&self.judge, task.clone()).map(Arc::new);
        };
        let id = ContentId::of(&bytes);
        let exams = || self.exams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(exam) = exams().get(&id) {
            return Ok(Arc::clone(exam));
        }
        let exam = Arc::new(Exam::prepare(&self.judge, task.clone())?);
        exams().insert(id, Arc::clone(&exam));
        Ok(exam)
    }
}

impl Work {
    /// Goes one step further; says whether there is more to do.
    fn step(&mut self, shared: &Shared) -> bool {
        let (reports, done) = match &mut self.stage {
            Stage::Program(judging) => {
                let report = judging.next();
                (report.into_iter().collect(), judging.is_done())
            }
            Stage::Functions { source, task } => {
                let reports = shared.exam(task).map(|exam| exam.judge(source));
                (
                    reports
                        .unwrap_or_else(|error| vec![TestReport::new(Verdict::Internal, error.to_string())]),
                    true,
                )
            }
        };
        let events = reports.into_iter().map(Event::Report).chain(done.then_some(Event::Done));
        let heard = events.map(|event| self.listener.send(event)).all(|sent| sent.is_ok());
        heard && !done
    }
}

/// The reports of one request, as they are made: one for each test or check, or a single one on the whole program.
#[derive(Debug)]
pub struct Reports {
    /// `None` when all have come.
    events: Option<Receiver<Event>>,
}

impl Iterator for Reports {
    type Item = TestReport;

    /// Waits for the next report.
    fn next(&mut self) -> Option<TestReport> {
        match self.events.as_ref()?.recv() {
            Ok(Event::Report(report)) => Some(report),
            Ok(Event::Done) => {
                self.events = None;
                None
            }
            Err(_) => {
                self.events = None;
                Some(TestReport::new(Verdict::Internal, "the service was closed before all was judged"))
            }
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Report(_) => "Report",
            Self::Done => "Done",
        })
    }
}

#[cfg(test)]
mod tests;
