//! How many threads the process computes with.

use super::EngineError;
use std::cell::Cell;

thread_local! {
    /// Whether passes of this thread are computed aside.
    static ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// From now on, passes on the CPU that the calling thread asks for are computed by a team apart from the
/// process's own, and other threads' passes do not wait for them. On Linux the team has the priority
/// that the calling thread has when it first computes. Results do not depend on it.
pub fn compute_aside() {
    ASIDE.set(true);
}

/// Whether the calling thread computes aside.
pub(super) fn is_aside() -> bool {
    ASIDE.get()
}

/// Sets the number of threads that matrix products and kernels use in this process, in
/// training and in generation.
///
/// Matrix products and kernels run in rayon's global pool, which this sizes; with one thread the
/// engine runs in the caller's own. Without a call the pool has as many threads as the machine has
/// cores, or as `RAYON_NUM_THREADS` says. Results do not depend on the number of threads.
///
/// # Errors
/// When something was computed before and the pool exists with another size.
pub fn set_threads(threads: usize) -> Result<(), EngineError> {
    let wanted = threads.max(1);
    if rayon::ThreadPoolBuilder::new().num_threads(wanted).build_global().is_ok() {
        return Ok(());
    }
    let existing = rayon::current_num_threads();
    if existing == wanted { Ok(()) } else { Err(EngineError::Threads { existing, wanted }) }
}
