//! Whose turn it is, in the order of asking.
//!
//! A mutex alone would let a generation, which asks again a microsecond after each pass, go before
//! an audit that sleeps until it is woken.

use parking_lot::{Condvar, Mutex};

/// Hands out turns one at a time.
pub(crate) struct TicketLock {
    queue: Mutex<Queue>,
    over: Condvar,
}

struct Queue {
    /// The turn of whoever asks next.
    next: u64,
    /// The turn that is on.
    on: u64,
}

/// A turn, until it is dropped.
pub(crate) struct TicketGuard<'a>(&'a TicketLock);

impl TicketLock {
    pub(crate) const fn new() -> Self {
        Self { queue: Mutex::new(Queue { next: 0, on: 0 }), over: Condvar::new() }
    }

    /// Waits until everybody who asked before has had their turn.
    pub(crate) fn take(&self) -> TicketGuard<'_> {
        let mut queue = self.queue.lock();
        let mine = queue.next;
        queue.next += 1;
        while queue.on != mine {
            self.over.wait(&mut queue);
        }
        TicketGuard(self)
    }
}

impl Drop for TicketGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().on += 1;
        self.0.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn who_asks_all_the_time_does_not_keep_others_out() {
        let (turns, over) = (TicketLock::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _turn = turns.take();
                }
            });
            for _ in 0..100 {
                let _turn = turns.take();
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_turn_that_ends_in_a_panic_is_over() {
        let turns = TicketLock::new();
        let panicked = thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _turn = turns.take();
                panic!("in the midst of it");
            });
            panicking.join()
        });
        assert!(panicked.is_err());
        let _turn = turns.take();
    }
}
