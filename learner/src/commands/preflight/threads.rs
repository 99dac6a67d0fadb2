//! How many threads this process may start.

use echo_protocol::program::threads::{limit, startable};

/// Threads that a learner starts at least, on a machine of one processor. A learner with two runs 23 of them.
pub(crate) const NEEDED: usize = 16;

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

/// Tries whether `needed` threads can run at once; the error has how many could be started.
pub(crate) fn check(needed: usize) -> Result<(), TooFew> {
    let started = startable(needed);
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
