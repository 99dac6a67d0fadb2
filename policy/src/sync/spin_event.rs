//! Waiting for what another thread does soon: spinning for as long as a phase lasts, asleep beyond that.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

/// Turns of the spin loop before a thread sleeps: some fifty microseconds, longer than nearly every
/// phase of a forward pass, and short enough that an idle engine costs nothing.
const SPINS: u32 = 2_000;

/// Something that happens, and those who wait for it.
#[derive(Debug, Default)]
pub(crate) struct SpinEvent {
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl SpinEvent {
    /// Waits until `happened`, which reads what others write with sequential consistency
    /// before they call [`SpinEvent::notify`].
    pub(crate) fn wait_until(&self, happened: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if happened() {
                return;
            }
            hint::spin_loop();
        }
        let mut guard = self.lock.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !happened() {
            self.wake.wait(&mut guard);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes all who sleep, to look again whether it has happened.
    pub(crate) fn notify(&self) {
        // A sleeper counts itself before it looks for the last time: it is seen here, or
        // it sees what happened.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock();
            self.wake.notify_all();
        }
    }
}
