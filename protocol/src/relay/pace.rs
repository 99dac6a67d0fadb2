//! How fast a neighbour delivers, and how much to ask of it.

use crate::groups::GROUP_BYTES;
use crate::time::UnixMillis;

/// Data that should be under way from a neighbour beyond what its latency needs, in milliseconds at its rate. Less leaves its
/// uplink idle at times; more delays what is asked for next.
pub const QUEUE_MS: u64 = 300;
/// Fewest groups that are asked of a neighbour at once.
pub const MIN_WINDOW: u32 = 2;
/// Groups that are asked of a neighbour at once before anything is known of it.
pub const START_WINDOW: u32 = 4;
/// Most groups that are asked of a neighbour at once: 16 MiB.
pub const MAX_WINDOW: u32 = 256;
/// Longest latency that widens a window: beyond it, waiting is queueing.
const MAX_LATENCY_MS: u64 = 1_000;
/// Least weight of a sample, as a fraction of 1024: when rates rise, and when they fall.
const LEAST_WEIGHT: [u64; 2] = [128, 16];
/// Most weight of a sample.
const MOST_WEIGHT: [u64; 2] = [512, 256];

/// The measured pace of one neighbour.
///
/// A sample is what was delivered between the request for a group and its arrival, over that time: it sees a full round however
/// long the latency is, so a window that limits the rate is seen as window over latency, and grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// Smoothed, in bytes per second.
    rate: Option<u64>,
    /// Shortest time from request to group, in milliseconds.
    latency: Option<u64>,
    /// Bytes delivered in all.
    delivered: u64,
    /// When the last group came.
    last: UnixMillis,
    /// When there was room but nothing to ask: samples across this instant show what was asked, not what could be delivered.
    starved: Option<UnixMillis>,
}

impl Pace {
    /// Bytes per second; none before the first measurement.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Milliseconds that a group takes at the measured rate.
    pub(super) fn group_ms(&self) -> Option<u64> {
        self.rate.map(|rate| GROUP_BYTES as u64 * 1000 / rate.max(1))
    }

    /// Shortest time from request to group, in milliseconds.
    pub(super) fn latency_ms(&self) -> u64 {
        self.latency.unwrap_or(0)
    }

    /// Bytes delivered in all.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Groups that should be under way.
    pub(super) fn window(&self) -> u32 {
        let Some(rate) = self.rate else { return START_WINDOW };
        let bytes = rate.saturating_mul(QUEUE_MS + self.latency_ms().min(MAX_LATENCY_MS)) / 1000;
        (bytes.div_ceil(GROUP_BYTES as u64) as u32).clamp(MIN_WINDOW, MAX_WINDOW)
    }

    /// There was room, but nothing to ask.
    pub(super) fn starved(&mut self, now: UnixMillis) {
        self.starved = Some(now);
    }

    /// `bytes` arrived that were asked for at `asked_at`, when `before` bytes had been delivered.
    pub(super) fn arrived(&mut self, now: UnixMillis, bytes: u64, asked_at: UnixMillis, before: u64) {
        let waited = now.since(asked_at).max(1);
        let gap = now.since(self.last);
        (self.delivered, self.last) = (self.delivered + bytes, now);
        self.latency = Some(self.latency.map_or(waited, |least| least.min(waited)));
        let seen = (self.delivered - before) * 1000 / waited;
        let weight = |least: u64, most: u64| (gap * 1024 / waited).clamp(least, most);
        self.rate = Some(match self.rate {
            None => seen,
            Some(rate) if seen >= rate => {
                rate + (seen - rate) * weight(LEAST_WEIGHT[0], MOST_WEIGHT[0]) / 1024
            }
            Some(rate) if self.starved.is_some_and(|at| at >= asked_at) => rate,
            Some(rate) => rate - (rate - seen) * weight(LEAST_WEIGHT[1], MOST_WEIGHT[1]) / 1024,
        });
    }
}
