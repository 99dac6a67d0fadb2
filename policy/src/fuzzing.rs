//! For fuzz targets: which panics are caught, and so are errors like any other.

use std::cell::Cell;

thread_local! {
    static CAUGHT: Cell<u32> = const { Cell::new(0) };
}

/// Whether a panic on this thread would be caught here and now, and returned as an error.
#[must_use]
pub fn is_caught() -> bool {
    CAUGHT.get() > 0
}

/// Says so as long as it lives.
pub(crate) struct Caught;

impl Caught {
    pub(crate) fn new() -> Self {
        CAUGHT.set(CAUGHT.get() + 1);
        Self
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        CAUGHT.set(CAUGHT.get() - 1);
    }
}
