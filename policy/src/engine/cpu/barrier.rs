//! Where the threads of a crew meet: spinning for as long as a phase lasts, asleep beyond that.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Turns of the spin loop before a thread sleeps: some fifty microseconds, longer than nearly every phase of a forward pass, and short
/// enough that an idle engine costs nothing.
const SPINS: u32 = 2_000;

/// A barrier for a fixed number of threads, reusable at once.
#[derive(Debug)]
pub(super) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    phase: AtomicUsize,
    sleepers: AtomicUsize,
    bed: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
            phase: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            bed: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Waits for all threads, or until `broken` is set; whatever they wrote before is seen by each of them afterwards.
    pub(super) fn wait(&self, broken: &AtomicBool) {
        if self.threads == 1 {
            return;
        }
        let phase = self.phase.load(Ordering::SeqCst);
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.threads {
            self.arrived.store(0, Ordering::SeqCst);
            self.phase.store(phase.wrapping_add(1), Ordering::SeqCst);
            self.rouse();
            return;
        }
        let over = || self.phase.load(Ordering::SeqCst) != phase || broken.load(Ordering::SeqCst);
        for _ in 0..SPINS {
            if over() {
                return;
            }
            hint::spin_loop();
        }
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !over() {
            bed = self.wake.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes whoever sleeps, to look again whether it has reason to.
    pub(super) fn rouse(&self) {
        // A sleeper counts itself before it looks at the phase for the last time: it is seen here, or it sees the phase.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
            self.wake.notify_all();
        }
    }

    /// Forgets who arrived, where nobody waits any more.
    pub(super) fn reset(&self) {
        self.arrived.store(0, Ordering::SeqCst);
    }
}
