//! How many threads this process may start.

use echo_protocol::program::threads::limit;
use std::sync::{PoisonError, RwLock};
use std::thread;

/// Threads that a learner starts at least, on a machine of one processor. A learner with two runs 23 of them.
pub(crate) const NEEDED: usize = 16;
/// These threads do nothing.
const STACK_BYTES: usize = 64 << 10;

/// Too few threads can be started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a learner needs {needed} threads and more, and only {started} can be started ({limit}): raise that limit"
)]
pub struct TooFew {
    needed: usize,
    started: usize,
    limit: String,
}

/// Tries whether `needed` threads can run at once.
///
/// # Errors
/// [`TooFew`]
pub(crate) fn check(needed: usize) -> Result<(), TooFew> {
    let gate = RwLock::new(());
    let held = gate.write().unwrap_or_else(PoisonError::into_inner);
    let started = thread::scope(|scope| {
        let start = |_| {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, || drop(gate.read()))
        };
        let started = (0..needed).map(start).take_while(Result::is_ok).count();
        drop(held);
        started
    });
    if started < needed { Err(TooFew { needed, started, limit: limit() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_can_be_started() {
        assert_eq!(check(2), Ok(()));
    }
}
