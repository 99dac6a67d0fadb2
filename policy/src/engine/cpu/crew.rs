//! The threads of the CPU backend: one forward pass is one job that all of them run, in phases.
//!
//! A pass has some nine phases a layer, each a few microseconds to milliseconds long; handing every phase to a thread pool anew would cost
//! a twentieth of a token. Here threads meet at a [`Barrier`] between phases, and take the work of a phase in chunks, so that a slow or
//! disturbed core takes fewer.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::barrier::Barrier;

/// What every thread of a crew runs.
type Job = dyn Fn(&Worker<'_>) + Sync;

/// Threads that run one job at a time together; the caller is one of them.
pub(super) struct Crew {
    common: Arc<Common>,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<AtomicUsize>,
}

/// What the threads of a crew share.
struct Common {
    /// The job that begins when all have met at `gate`; none ends the threads. Its lifetime is that of the call of [`Crew::run`].
    job: Mutex<Option<Order>>,
    /// Met before and after each job.
    gate: Barrier,
    /// Met between the phases of a job.
    phase: Barrier,
    /// A thread panicked in this job: nobody waits any more.
    broken: AtomicBool,
    /// What it panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A job and the counters of its phases.
#[derive(Clone, Copy)]
struct Order {
    job: NonNull<Job>,
    counters: NonNull<[AtomicUsize]>,
}

// SAFETY: both pointees are `Sync`, and live until every thread has met the others after the job.
unsafe impl Send for Order {}

/// One thread's view of a job.
pub(super) struct Worker<'a> {
    index: usize,
    common: Option<&'a Common>,
    counters: &'a [AtomicUsize],
    phase: Cell<usize>,
}

impl Crew {
    /// A crew of `threads` threads, at least one: the caller of [`Crew::run`].
    ///
    /// Where the system starts fewer, the crew is smaller.
    pub(super) fn new(threads: usize) -> Self {
        // Threads learn how many they are when it is known how many the system has started.
        let (tell, threads): (Vec<_>, Vec<_>) = (1..threads).map_while(start).unzip();
        let common = Arc::new(Common::new(threads.len() + 1));
        for tell in tell {
            // The thread waits for this word and nothing else: it is there.
            let _ = tell.send(Arc::clone(&common));
        }
        Self { common, threads, counters: Vec::new() }
    }

    /// How many threads run a job.
    pub(super) fn size(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `job`, of at most `phases` phases, on every thread, and returns when all of them are done.
    ///
    /// # Panics
    /// With what a thread panicked with.
    pub(super) fn run(&mut self, phases: usize, job: &(dyn Fn(&Worker<'_>) + Sync)) {
        self.counters.resize_with(phases.max(self.counters.len()), AtomicUsize::default);
        let counters = &mut self.counters[..phases];
        counters.iter_mut().for_each(|counter| *counter.get_mut() = 0);
        let counters: &[AtomicUsize] = counters;
        if self.threads.is_empty() {
            return job(&Worker { index: 0, common: None, counters, phase: Cell::new(0) });
        }
        let common = &*self.common;
        // SAFETY: only the lifetime changes. Threads use the job between the two meetings at the gate, and this call outlasts them.
        let job: &'static Job = unsafe { std::mem::transmute(job) };
        let order = Order { job: NonNull::from(job), counters: NonNull::from(counters) };
        *common.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        common.meet();
        common.work(0, order);
        common.meet();
        if common.broken.swap(false, Ordering::SeqCst) {
            common.phase.reset();
            let panic = common.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            resume_unwind(panic.unwrap_or_else(|| Box::new("a thread of the crew panicked")));
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            *self.common.job.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.common.meet();
            self.threads.drain(..).for_each(|thread| drop(thread.join()));
        }
    }
}

fn start(index: usize) -> Option<(Sender<Arc<Common>>, JoinHandle<()>)> {
    let (tell, told) = mpsc::channel::<Arc<Common>>();
    let serve = move || {
        if let Ok(common) = told.recv() {
            common.serve(index);
        }
    };
    let thread = thread::Builder::new().name(format!("echo-cpu-{index}")).spawn(serve).ok()?;
    Some((tell, thread))
}

impl Common {
    fn new(threads: usize) -> Self {
        Self {
            job: Mutex::new(None),
            gate: Barrier::new(threads),
            phase: Barrier::new(threads),
            broken: AtomicBool::new(false),
            panic: Mutex::new(None),
        }
    }

    fn meet(&self) {
        // Nobody leaves the gate before all are there, whatever broke: the job must not end while a thread runs it.
        self.gate.wait(&AtomicBool::new(false));
    }

    fn serve(&self, index: usize) {
        loop {
            self.meet();
            let order = *self.job.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(order) = order else { return };
            self.work(index, order);
            self.meet();
        }
    }

    fn work(&self, index: usize, order: Order) {
        // SAFETY: `Crew::run` keeps both alive until all threads have met after the job.
        let (job, counters) = unsafe { (order.job.as_ref(), order.counters.as_ref()) };
        let worker = Worker { index, common: Some(self), counters, phase: Cell::new(0) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(&worker))) {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.broken.swap(true, Ordering::SeqCst) {
                *first = Some(panic);
            }
            drop(first);
            self.phase.rouse();
        }
    }
}

impl Worker<'_> {
    /// Which thread of the crew this is, from 0.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Ends a phase: returns when every thread has ended it.
    pub(super) fn wait(&self) {
        self.phase.set(self.phase.get() + 1);
        let Some(common) = self.common else { return };
        common.phase.wait(&common.broken);
        if common.broken.load(Ordering::SeqCst) {
            // Without a message of its own: that of the thread that broke it tells what happened.
            resume_unwind(Box::new("another thread of the crew panicked"));
        }
    }

    /// Chunks of `grain` items of the `items` of this phase that no other thread has taken. Once in a phase.
    pub(super) fn take(&self, items: usize, grain: usize) -> impl Iterator<Item = Range<usize>> {
        let counter = &self.counters[self.phase.get()];
        let chunks = items.div_ceil(grain);
        std::iter::from_fn(move || {
            let chunk = counter.fetch_add(1, Ordering::Relaxed);
            (chunk < chunks).then(|| chunk * grain..items.min((chunk + 1) * grain))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_taken_once_in_every_phase() {
        for threads in [1, 2, 5] {
            let mut crew = Crew::new(threads);
            assert_eq!(crew.size(), threads);
            for items in [0, 1, 7, 1000] {
                const PHASES: usize = 40;
                let taken: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                crew.run(PHASES, &|worker| {
                    for phase in 0..PHASES {
                        for item in worker.take(items, 3).flatten() {
                            // Whoever takes it in this phase sees all of the phase before.
                            assert_eq!(taken[item].fetch_add(1, Ordering::Relaxed), phase);
                        }
                        worker.wait();
                    }
                });
                assert!(taken.iter().all(|taken| taken.load(Ordering::Relaxed) == PHASES));
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_crew_goes_on() {
        let mut crew = Crew::new(3);
        for panicking in 0..3 {
            let job = |worker: &Worker<'_>| {
                worker.wait();
                assert!(worker.index() != panicking, "thread {panicking} fails");
                worker.wait();
            };
            let panic = catch_unwind(AssertUnwindSafe(|| crew.run(2, &job))).unwrap_err();
            assert_eq!(*panic.downcast::<String>().unwrap(), format!("thread {panicking} fails"));
            let ran = AtomicUsize::new(0);
            crew.run(1, &|worker| {
                worker.wait();
                ran.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(ran.into_inner(), 3);
        }
    }
}
