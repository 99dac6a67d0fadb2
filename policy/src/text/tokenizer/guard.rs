//! Panics of the `tokenizers` crate as errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a part of the `tokenizers` crate gives. It panics on some of what it should refuse, and
/// files may come from strangers.
pub(super) fn guarded<T>(part: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    #[cfg(feature = "fuzzing")]
    let _caught = crate::fuzzing::Caught::new();
    let panicked = |_| "the tokenizers crate panicked".to_owned();
    catch_unwind(AssertUnwindSafe(part)).map_err(panicked)?.map_err(|error| error.to_string())
}
