//! How long it takes to make an instance.

use std::time::{Duration, Instant};

use super::{Failure, Verifier};

/// Makes and drops `times` instances one after the other; the time of each.
///
/// # Errors
/// [`Failure`] of the first that could not be made.
pub fn measure_instantiation(verifier: &Verifier, times: usize) -> Result<Vec<Duration>, Failure> {
    let mut measured = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        verifier.instantiate()?;
        measured.push(start.elapsed());
    }
    Ok(measured)
}
