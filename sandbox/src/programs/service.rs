//! Many judgings at once, by a bounded number of workers, fair to whoever asks.
//!
//! A worker takes one step of a judging - one test, or the checks of a function - and puts it
//! back: clients take turns by steps, so that one with a thousand tests delays another by a
//! test and not by a thousand. Reports arrive as they are made; who stops listening is not
//! worked for any longer.

mod queue;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::functions::{Exams, FunctionTask};
use super::judge::{Judge, JudgeOptions, Judging};
use super::program::Submission;
use super::store::TestStore;
use super::suite::{Suite, SuiteError};
use super::verdict::{ProgramVerdict, TestReport};
use queue::Queue;
pub use queue::{Full, QueueLimits};

/// Whoever asks, for taking turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// What is to be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeRequest {
    /// A program, by tests.
    Program {
        /// The program to judge, with its language.
        submission: Submission,
        /// The tests and limits, whose data is in the service's store.
        suite: Suite,
        /// How to run them.
        options: JudgeOptions,
    },
    /// Functions, by their author's checks.
    Functions {
        /// The program that defines them, in Python.
        source: String,
        /// The functions' reference solution and the author's checks.
        task: FunctionTask,
    },
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefused {
    /// There is too much to do.
    #[error(transparent)]
    Full(#[from] Full),
    /// Nothing can be judged by its suite.
    #[error(transparent)]
    Suite(#[from] SuiteError),
}

/// What a service has to do, and what it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceLoad {
    /// Requests that wait or are worked on.
    pub admitted: usize,
    /// Requests that have ended since the start, also those that nobody listened to any longer.
    pub finished: u64,
}

/// Judges requests with a fixed number of threads, until it is dropped.
pub struct Service {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    judge: Arc<Judge>,
    store: Arc<TestStore>,
    exams: Exams,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    queue: Queue<Work>,
    finished: u64,
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
    /// Starts `workers` threads: as many runs go on at one time. The data of tests is in `store`.
    pub fn start(
        judge: Arc<Judge>,
        store: Arc<TestStore>,
        workers: NonZeroUsize,
        limits: QueueLimits,
    ) -> Self {
        let state = Mutex::new(State { queue: Queue::new(limits), finished: 0, closed: false });
        let exams = Exams::new(Arc::clone(&judge));
        let shared = Arc::new(Shared { judge, store, exams, state, changed: Condvar::new() });
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
    pub fn submit(&self, client: ClientId, request: JudgeRequest) -> Result<JudgeReports, RequestRefused> {
        let stage = match request {
            JudgeRequest::Program { submission, suite, options } => {
                let store = Arc::clone(&self.shared.store);
                Stage::Program(Box::new(Judge::judge(&self.shared.judge, submission, suite, store, options)?))
            }
            JudgeRequest::Functions { source, task } => Stage::Functions { source, task },
        };
        let (listener, events) = mpsc::channel();
        let mut state = self.shared.state.lock();
        // Once it is closed, the listener is dropped here, and the reports say so.
        if !state.closed {
            state.queue.admit(client, Work { stage, listener })?;
            self.shared.changed.notify_one();
        }
        Ok(JudgeReports { events: Some(events) })
    }

    /// The judge whose sandbox and toolchains the workers share.
    pub fn judge(&self) -> &Judge {
        &self.shared.judge
    }

    /// The data of tests.
    pub fn store(&self) -> &TestStore {
        &self.shared.store
    }

    /// How much there is to do.
    pub fn load(&self) -> ServiceLoad {
        let state = self.shared.state.lock();
        ServiceLoad { admitted: state.queue.admitted(), finished: state.finished }
    }

    /// Ends all requests that wait, and takes no more: their reports end with
    /// [`ProgramVerdict::Internal`]. Runs that go on are not waited for.
    pub fn close(&self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        // Listeners are told by being dropped.
        while state.queue.next().is_some() {}
        self.shared.changed.notify_all();
    }
}

impl Drop for Service {
    /// Waits for the runs that go on; what is not finished then ends with [`ProgramVerdict::Internal`].
    fn drop(&mut self) {
        self.close();
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
    fn work(&self) {
        while let Some((client, mut work)) = self.next() {
            let more = work.step(self);
            let mut state = self.state.lock();
            if more && !state.closed {
                state.queue.put_back(client, work);
                self.changed.notify_one();
            } else {
                state.queue.finish(client);
                state.finished += 1;
            }
        }
    }

    /// Whose turn it is; `None` when the service closes.
    fn next(&self) -> Option<(ClientId, Work)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.queue.next() {
                return Some(next);
            }
            self.changed.wait(&mut state);
        }
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
                let reports = shared.exams.get(task).map(|exam| exam.judge(source));
                (
                    reports.unwrap_or_else(|error| {
                        vec![TestReport::new(ProgramVerdict::Internal, error.to_string())]
                    }),
                    true,
                )
            }
        };
        let events = reports.into_iter().map(Event::Report).chain(done.then_some(Event::Done));
        let heard = events.map(|event| self.listener.send(event)).all(|sent| sent.is_ok());
        heard && !done
    }
}

/// The reports of one request, as they are made: one for each test or check, or a single one
/// on the whole program.
#[derive(Debug)]
pub struct JudgeReports {
    /// `None` when all have come.
    events: Option<Receiver<Event>>,
}

impl Iterator for JudgeReports {
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
                Some(TestReport::new(
                    ProgramVerdict::Internal,
                    "the service was closed before all was judged",
                ))
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
#[cfg(target_os = "linux")]
mod tests;
