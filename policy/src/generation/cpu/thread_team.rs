//! The threads of the CPU backend: one forward pass is one job that they run together, in phases.
//!
//! A pass has some nine to fourteen phases a layer, each a few microseconds to milliseconds long;
//! handing every phase to a thread pool anew would cost a twentieth of a token. Here threads take
//! the work of a phase in chunks, and go on when all chunks are done. Phases do not wait for
//! threads: one that the system does not run, because other programs want its core, takes no
//! chunks, and finds the phases over later. Only who has a chunk is waited for, and at the end of
//! the job whoever came to it.

use std::any::Any;
use std::cell::Cell;
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use crate::sync::spin_event::SpinEvent;

/// What every thread that comes to a job runs.
type Job = dyn Fn(&TeamMember<'_>) + Sync;

/// Threads that run one job at a time together; the caller is one of them.
pub(super) struct ThreadTeam {
    common: Arc<Common>,
    threads: Vec<JoinHandle<()>>,
    phases: Vec<Phase>,
}

/// What the threads of a team share.
#[derive(Default)]
struct Common {
    state: Mutex<JobState>,
    /// As [`JobState::number`], for those who wait for it to change.
    number: AtomicUsize,
    /// Threads besides the caller that are at the job.
    inside: AtomicUsize,
    /// There is a new job, or there will be no more.
    ordered: SpinEvent,
    /// A phase was done, a thread left the job, or the job broke.
    progress: SpinEvent,
    /// A thread panicked in this job: nobody waits for its phases any more.
    broken: AtomicBool,
    /// What it panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What threads do next, under the lock.
#[derive(Default)]
struct JobState {
    /// How often there was something new here.
    number: usize,
    /// The job that threads may come to. Its lifetime is that of the call of [`ThreadTeam::run`].
    order: Option<Order>,
    /// There will be no more jobs.
    closed: bool,
}

/// A job and its phases.
#[derive(Clone, Copy)]
struct Order {
    job: NonNull<Job>,
    phases: NonNull<[Phase]>,
    /// Threads of the whole team.
    threads: usize,
}

// SAFETY: both pointees are `Sync`, and live for as long as any thread is inside the job.
unsafe impl Send for Order {}

/// How far a phase is. On a cache line of its own: threads that wait for one phase look at it while
/// others are late in the one before.
#[derive(Default)]
#[repr(align(64))]
struct Phase {
    /// Chunks that a thread took, or wanted to take when there were no more.
    taken: AtomicUsize,
    /// Chunks that are done.
    done: AtomicUsize,
}

/// One thread's view of a job.
pub(super) struct TeamMember<'a> {
    index: usize,
    threads: usize,
    common: &'a Common,
    phases: &'a [Phase],
    next: Cell<usize>,
}

impl ThreadTeam {
    /// A team of `threads` threads, at least one: the caller of [`ThreadTeam::run`].
    ///
    /// Where the system starts fewer, the team is smaller.
    pub(super) fn new(threads: usize) -> Self {
        let common = Arc::new(Common::default());
        let threads = (1..threads).map_while(|index| start(index, Arc::clone(&common))).collect();
        Self { common, threads, phases: Vec::new() }
    }

    /// How many threads run a job, at most.
    pub(super) fn size(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `job`, of at most `phases` phases, on every thread that comes to it, and returns when
    /// all of it is done.
    ///
    /// Panics with what a thread panicked with.
    pub(super) fn run(&mut self, phases: usize, job: &(dyn Fn(&TeamMember<'_>) + Sync)) {
        // Nobody is inside any more.
        self.phases.clear();
        self.phases.resize_with(phases, Phase::default);
        let common = &*self.common;
        // Whatever happens here, nobody comes any more and nobody is inside when this call ends.
        let end = Defer(|| {
            common.state.lock().order = None;
            common.progress.wait_until(|| common.inside.load(Ordering::SeqCst) == 0);
        });
        // SAFETY: only the lifetime changes. This call outlasts the threads that are inside, and
        // those that could still come.
        let job: &'static Job = unsafe { mem::transmute(job) };
        let phases = NonNull::from(self.phases.as_slice());
        let order = Order { job: NonNull::from(job), phases, threads: self.size() };
        if !self.threads.is_empty() {
            common.order(|state| state.order = Some(order));
        }
        common.work(0, order);
        drop(end);
        if common.broken.swap(false, Ordering::SeqCst) {
            let panic = common.panic.lock().take();
            resume_unwind(panic.unwrap_or_else(|| Box::new("a thread of the team panicked")));
        }
    }
}

impl Drop for ThreadTeam {
    fn drop(&mut self) {
        self.common.order(|state| state.closed = true);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn start(index: usize, common: Arc<Common>) -> Option<JoinHandle<()>> {
    thread::Builder::new().name(format!("echo-cpu-{index}")).spawn(move || common.serve(index)).ok()
}

impl Common {
    /// Changes the job, and wakes the threads.
    fn order(&self, change: impl FnOnce(&mut JobState)) {
        let mut state = self.state.lock();
        change(&mut state);
        state.number += 1;
        self.number.store(state.number, Ordering::SeqCst);
        drop(state);
        self.ordered.notify();
    }

    fn serve(&self, index: usize) {
        let mut seen = 0;
        loop {
            self.ordered.wait_until(|| self.number.load(Ordering::SeqCst) != seen);
            let state = self.state.lock();
            seen = state.number;
            if state.closed {
                return;
            }
            // None where the others were done before this thread came.
            let Some(order) = state.order else { continue };
            self.inside.fetch_add(1, Ordering::SeqCst);
            let _leave = Defer(|| {
                self.inside.fetch_sub(1, Ordering::SeqCst);
                self.progress.notify();
            });
            drop(state);
            self.work(index, order);
        }
    }

    fn work(&self, index: usize, order: Order) {
        // SAFETY: `ThreadTeam::run` keeps both alive until nobody is inside and nobody can come any more.
        let (job, phases) = unsafe { (order.job.as_ref(), order.phases.as_ref()) };
        let worker = TeamMember { index, threads: order.threads, common: self, phases, next: Cell::new(0) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(&worker))) {
            let mut first = self.panic.lock();
            if self.broken.swap(true, Ordering::SeqCst) {
                // What dropping it does is not ours to know, and nothing may unwind from here.
                mem::forget(panic);
            } else {
                *first = Some(panic);
            }
            drop(first);
            self.progress.notify();
        }
    }
}

impl TeamMember<'_> {
    /// Which thread of the team this is, from 0.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// How many threads the team has.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// As [`TeamMember::phase`], one item at a time.
    pub(super) fn each(&self, items: usize, mut each: impl FnMut(usize)) {
        self.phase(items, 1, |chunk| each(chunk.start));
    }

    /// The next phase of the job: `each` with chunks of `grain` of its `items`, until none is left.
    /// Returns when all of them are done, by whichever thread; what they wrote is seen afterwards.
    ///
    /// Every thread calls it with the same numbers. What is said to be shared in a phase must not
    /// be touched outside of `each`: a thread that comes late is between two phases while others
    /// are in one far ahead.
    pub(super) fn phase(&self, items: usize, grain: usize, mut each: impl FnMut(Range<usize>)) {
        let phase = &self.phases[self.next.replace(self.next.get() + 1)];
        let chunks = items.div_ceil(grain);
        let is_done = || phase.done.load(Ordering::SeqCst) == chunks;
        let broken = || self.common.broken.load(Ordering::SeqCst);
        while !(is_done() || broken()) {
            let chunk = phase.taken.fetch_add(1, Ordering::Relaxed);
            if chunk >= chunks {
                break;
            }
            each(chunk * grain..items.min((chunk + 1) * grain));
            if phase.done.fetch_add(1, Ordering::SeqCst) + 1 == chunks {
                self.common.progress.notify();
            }
        }
        self.common.progress.wait_until(|| is_done() || broken());
        if broken() {
            // Without a message of its own: that of the thread that broke it tells what happened.
            resume_unwind(Box::new("another thread of the team panicked"));
        }
    }
}

/// Does something when it goes out of scope, in a panic too.
struct Defer<F: FnMut()>(F);

impl<F: FnMut()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::super::shared_slice::SharedSlice;
    use super::*;

    #[test]
    fn every_item_is_taken_once_in_every_phase() {
        for threads in [1, 2, 5] {
            let mut team = ThreadTeam::new(threads);
            assert_eq!(team.size(), threads);
            for items in [0, 1, 7, 1000] {
                const PHASES: usize = 40;
                let taken: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                team.run(PHASES, &|worker| {
                    for phase in 0..PHASES {
                        worker.phase(items, 3, |chunk| {
                            for item in chunk {
                                assert_eq!(taken[item].fetch_add(1, Ordering::Relaxed), phase);
                            }
                        });
                    }
                });
                assert!(taken.iter().all(|taken| taken.load(Ordering::Relaxed) == PHASES));
            }
        }
    }

    #[test]
    fn a_phase_sees_what_the_ones_before_wrote() {
        const ITEMS: usize = 64;
        let mut team = ThreadTeam::new(2);
        let mut numbers = vec![0.0f32; 2 * ITEMS];
        for _ in 0..200 {
            let shared = SharedSlice::new(&mut numbers);
            team.run(8, &|worker| {
                for phase in 0..8 {
                    let (from, to) = if phase % 2 == 0 { (0, ITEMS) } else { (ITEMS, 0) };
                    worker.each(ITEMS, |item| {
                        // SAFETY: this phase reads one half, and writes each number of the other once.
                        let (read, write) = unsafe {
                            let neighbour = from + (item + 1) % ITEMS;
                            (shared.read(neighbour..neighbour + 1), shared.write(to + item..to + item + 1))
                        };
                        write[0] = read[0] + 1.0;
                    });
                }
            });
        }
        assert_eq!(numbers[..ITEMS], [1600.0; ITEMS]);
    }

    #[test]
    fn a_thread_that_is_kept_away_holds_nobody_up() {
        let mut team = ThreadTeam::new(3);
        assert_eq!(team.size(), 3);
        let (away, back) = (Barrier::new(2), Barrier::new(2));
        let done = AtomicUsize::new(0);
        team.run(2, &|worker| {
            // One thread leaves before the first phase, and comes back when the others have done both.
            if worker.index() == 1 {
                away.wait();
                back.wait();
            } else if worker.index() == 0 {
                away.wait();
            }
            for phase in 0..2 {
                worker.phase(100, 1, |_| {
                    assert_ne!(worker.index(), 1, "nothing of phase {phase} is left for who comes back");
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            if worker.index() == 0 {
                back.wait();
            }
        });
        assert_eq!(done.into_inner(), 200);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let mut team = ThreadTeam::new(3);
        assert_eq!(team.size(), 3);
        for panicking in 0..3 {
            // As many chunks as threads, and nobody ends one before each has one.
            let all = Barrier::new(3);
            let job = |worker: &TeamMember<'_>| {
                worker.phase(3, 1, |_| {
                    all.wait();
                    assert!(worker.index() != panicking, "thread {panicking} fails");
                });
                worker.phase(1, 1, |_| unreachable!("a phase after one that broke"));
            };
            let panic = catch_unwind(AssertUnwindSafe(|| team.run(2, &job))).unwrap_err();
            assert_eq!(*panic.downcast::<String>().unwrap(), format!("thread {panicking} fails"));
            let ran = AtomicUsize::new(0);
            team.run(1, &|worker| {
                worker.each(3, |_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                })
            });
            assert_eq!(ran.into_inner(), 3);
        }
    }
}
