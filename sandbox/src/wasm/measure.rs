//! How long it takes to make an instance.

use std::time::{Duration, Instant};

use super::{WasmFailure, WasmVerifier};

/// Makes and drops `times` instances one after the other; the time of each.
///
/// # Errors
/// [`WasmFailure`] of the first that could not be made.
pub fn measure_instantiation(verifier: &WasmVerifier, times: usize) -> Result<Vec<Duration>, WasmFailure> {
    let mut measured = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        verifier.instantiate()?;
        measured.push(start.elapsed());
    }
    Ok(measured)
}
