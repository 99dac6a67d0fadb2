//! How far ahead neighbours are asked.
//!
//! Each is asked for what it delivers within some time, so that its uplink is never idle
//! ([throughput](super::throughput)). When answers take longer than that time, windows limit what
//! arrives, and narrow with it, as they are made for the rates that are seen. A request may wait
//! behind bulk that goes the other way, in buffers on the path, or for other consumers of that
//! neighbour; no neighbour alone shows which of these it is, or whether it has become slower. All
//! together do: while there is more to ask for and less arrives than before, they are asked
//! further ahead. Where that does not help, more has been asked for early, which makes choices
//! older and thefts rarer.

use crate::snapshot::blocks::BLOCK_BYTES;
use crate::wire::time::UnixMillis;

/// Least data that should be under way from a neighbour beyond what its latency needs,
/// in milliseconds at its rate. Less leaves its uplink idle at times; more delays what
/// is asked for next.
pub const QUEUE_MS: u64 = 300;
/// The most, while less arrives than did before.
const MAX_MS: u64 = 4 * QUEUE_MS;
/// Least time between two looks, in milliseconds.
const LOOK_EVERY_MS: u64 = 500;
/// Between two looks so many bytes come at the best rate, at least: blocks come whole and in
/// batches, and few say little.
const LOOK_BYTES: u64 = 64 * BLOCK_BYTES as u64;
/// Less than this part of the best rate is less than before.
const LESS: (u64, u64) = (15, 16);
/// The best rate gains this part of what a look shows beyond it: one burst says little.
const GAINS: u64 = 4;
/// In so many milliseconds the best rate falls to a third unless as much comes again: paths change.
const FORGETS_MS: u64 = 32_000;
/// In so many milliseconds the time for which neighbours are asked ahead falls to a
/// third, down to [`QUEUE_MS`].
const RETURNS_MS: u64 = 8_000;

/// The time for which neighbours are asked ahead, and the rates that set it.
#[derive(Clone, Debug)]
pub(super) struct RequestWindow {
    ms: u64,
    /// Bytes that came since the last look.
    came: u64,
    /// When that was; none before anything was fetched.
    looked: Option<UnixMillis>,
    /// The best joint rate, in bytes per second; 0 before it was measured.
    best: u64,
}

impl Default for RequestWindow {
    fn default() -> Self {
        Self { ms: QUEUE_MS, came: 0, looked: None, best: 0 }
    }
}

impl RequestWindow {
    /// Milliseconds, at each neighbour's rate, beyond its latency.
    pub(super) fn ms(&self) -> u64 {
        self.ms
    }

    /// So many bytes came from any neighbour.
    pub(super) fn came(&mut self, bytes: u64) {
        self.came += bytes;
    }

    /// Looks, if it is time, whether less comes than did before. `more` says whether there is
    /// anything that would be asked for if windows were wider; it is asked only when less comes.
    pub(super) fn look(&mut self, now: UnixMillis, more: impl FnOnce() -> bool) {
        // A clock may be set back.
        let Some(looked) = self.looked.filter(|looked| *looked <= now) else {
            (self.looked, self.came) = (Some(now), 0);
            return;
        };
        let elapsed = now.since(looked);
        let due = LOOK_EVERY_MS.max((LOOK_BYTES * 1000).checked_div(self.best).unwrap_or(0));
        let first = self.best == 0;
        if elapsed < due || first && self.came < LOOK_BYTES {
            return;
        }
        let rate = std::mem::take(&mut self.came) * 1000 / elapsed;
        self.looked = Some(now);
        if first {
            self.best = rate;
        } else if elapsed <= 2 * due {
            self.judge(elapsed, rate, more);
        }
        // Else nothing was looked at for a while: there was nothing to fetch, or nobody to fetch it from.
    }

    fn judge(&mut self, elapsed: u64, rate: u64, more: impl FnOnce() -> bool) {
        self.best = match rate.checked_sub(self.best) {
            Some(beyond) => self.best + beyond / GAINS,
            None => rate.max(self.best - self.best * elapsed.min(FORGETS_MS) / FORGETS_MS),
        };
        if rate * LESS.1 >= self.best * LESS.0 {
            self.ms = QUEUE_MS.max(self.ms - self.ms * elapsed.min(RETURNS_MS) / RETURNS_MS);
        } else if more() {
            // By as much as is missing, so that rates that vary a little add little.
            self.ms = MAX_MS.min(self.ms + self.ms * (self.best - rate) / self.best);
        }
    }
}

#[cfg(test)]
mod tests;
