//! How far ahead neighbours are asked.
//!
//! Each is asked for what it delivers within some time, so that its uplink is never idle ([`pace`](super::pace)). When answers take
//! longer than that time, windows limit what arrives, and narrow with it, as they are made for the rates that are seen. A request may wait
//! behind bulk that goes the other way, in buffers on the path, or for other consumers of that neighbour; no neighbour alone shows which of
//! these it is, or whether it has become slower. All together do: while there is more to ask for and less arrives than before, they
//! are asked further ahead. Where that does not help, it costs only that more is asked for early.

use crate::groups::GROUP_BYTES;
use crate::time::UnixMillis;

/// Data that should be under way from a neighbour beyond what its latency needs, in milliseconds at its rate. Less leaves its
/// uplink idle at times; more delays what is asked for next.
pub const QUEUE_MS: u64 = 300;
/// The most, while less arrives than did before.
const MAX_MS: u64 = 4 * QUEUE_MS;
/// Least time between two looks, in milliseconds.
const LOOK_EVERY_MS: u64 = 500;
/// Between two looks so many groups come at the best rate, at least: they come whole, and fewer say little.
const LOOK_GROUPS: u64 = 64;
/// Less than this part of what came at the best rate is less than before.
const LESS: (u64, u64) = (15, 16);
/// The best rate loses this part with each look: paths change.
const FORGETS: u64 = 64;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    ms: u64,
    /// Bytes that came since the last look.
    came: u64,
    looked: UnixMillis,
    /// The best joint rate, in bytes per second.
    best: u64,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { ms: QUEUE_MS, came: 0, looked: UnixMillis(0), best: 0 }
    }
}

impl Ahead {
    /// Milliseconds, at each neighbour's rate, beyond its latency.
    pub(super) fn ms(&self) -> u64 {
        self.ms
    }

    /// So many bytes came from any neighbour.
    pub(super) fn came(&mut self, bytes: u64) {
        self.came += bytes;
    }

    /// Looks, if it is time, whether less comes than did before. `more` says whether there is anything that could be asked for if windows were
    /// wider.
    pub(super) fn look(&mut self, now: UnixMillis, more: bool) {
        let elapsed = now.since(self.looked);
        let groups_take = (LOOK_GROUPS * GROUP_BYTES as u64 * 1000).checked_div(self.best).unwrap_or(0);
        let due = LOOK_EVERY_MS.max(groups_take);
        if elapsed < due {
            return;
        }
        let rate = std::mem::take(&mut self.came) * 1000 / elapsed;
        self.looked = now;
        // Nothing was looked at for a while: there was nothing to fetch.
        if elapsed > 2 * due {
            return;
        }
        self.best = rate.max(self.best - self.best / FORGETS);
        if rate * LESS.1 >= self.best * LESS.0 {
            self.ms = QUEUE_MS.max(self.ms - self.ms / 16);
        } else if more {
            self.ms = MAX_MS.min(self.ms + self.ms / 4);
        }
    }
}

#[cfg(test)]
mod tests;
