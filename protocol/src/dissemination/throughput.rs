//! How fast a neighbour delivers, and how much to ask of it.

use super::request_window::QUEUE_MS;
use crate::snapshot::blocks::BLOCK_BYTES;
use crate::wire::time::UnixMillis;

/// Fewest blocks that are asked of a neighbour at once.
pub const MIN_WINDOW: u32 = 2;
/// Blocks that are asked of a neighbour at once before anything is known of it.
pub const START_WINDOW: u32 = 4;
/// Most blocks that are asked of a neighbour at once: 16 MiB.
pub const MAX_WINDOW: u32 = 256;
/// Longest latency that widens a window: beyond it, waiting is queueing.
const MAX_LATENCY_MS: u64 = 1_000;
/// Longest time for which one is asked ahead in all, in milliseconds at its rate. It is less than
/// what all together may be asked for (`BUDGET_MS`): where that ran out, the last of them would
/// be asked for nothing.
const MAX_TIME_MS: u64 = QUEUE_MS + MAX_LATENCY_MS;
/// A sample counts as if a whole block had taken this long at least, in milliseconds: what a sender
/// may send ahead of its cap comes at once, and says nothing of what it can send.
const LEAST_SAMPLE_MS: u64 = 50;
/// Least weight of a sample, as a fraction of 1024: when rates rise, and when they fall.
const LEAST_WEIGHT: [u64; 2] = [128, 16];
/// Most weight of a sample.
const MOST_WEIGHT: [u64; 2] = [512, 256];

/// The measured pace of one neighbour.
///
/// A sample is what was delivered between the request for a block and its arrival, over that time:
/// it sees a full round however long the latency is, so a window that limits the rate is seen as
/// window over latency, and grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Throughput {
    /// Smoothed, in bytes per second.
    rate: Option<u64>,
    /// Shortest time from request to block, in milliseconds.
    latency: Option<u64>,
    /// Bytes delivered in all.
    delivered: u64,
    /// When the last block came.
    last: UnixMillis,
    /// When there was room but nothing to ask, and little under way: samples across this instant
    /// show what was asked, not what could be delivered.
    starved: Option<UnixMillis>,
}

impl Throughput {
    /// Bytes per second; none before the first measurement.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Milliseconds that a block takes at the measured rate.
    pub(super) fn block_ms(&self) -> Option<u64> {
        self.rate.map(|rate| BLOCK_BYTES as u64 * 1000 / rate.max(1))
    }

    /// Shortest time from request to block, in milliseconds.
    pub(super) fn latency_ms(&self) -> u64 {
        self.latency.unwrap_or(0)
    }

    /// Bytes delivered in all.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Blocks that should be under way when it is asked so many milliseconds ahead.
    pub(super) fn window(&self, ahead_ms: u64) -> u32 {
        let Some(rate) = self.rate else { return START_WINDOW };
        let time = (ahead_ms + self.latency_ms().min(MAX_LATENCY_MS)).min(MAX_TIME_MS);
        let bytes = rate.saturating_mul(time) / 1000;
        (bytes.div_ceil(BLOCK_BYTES as u64) as u32).clamp(MIN_WINDOW, MAX_WINDOW)
    }

    /// So many blocks are under way, and there is nothing more to ask, or there was not until now.
    /// Where these are fewer than the latency needs, it is not the neighbour that limits.
    pub(super) fn starved(&mut self, now: UnixMillis, under_way: usize) {
        let in_flight = self.rate.unwrap_or(0).saturating_mul(self.latency_ms()) / 1000;
        if (under_way as u64) < in_flight.div_ceil(BLOCK_BYTES as u64) {
            self.starved = Some(now);
        }
    }

    /// `bytes` arrived that were asked for at `asked_at`, when `before` bytes had been delivered.
    pub(super) fn arrived(&mut self, now: UnixMillis, bytes: u64, asked_at: UnixMillis, before: u64) {
        let waited = now.since(asked_at).max(1);
        let gap = now.since(self.last);
        (self.delivered, self.last) = (self.delivered + bytes, now);
        self.latency = Some(self.latency.map_or(waited, |least| least.min(waited)));
        let seen =
            (self.delivered - before) * 1000 / waited.max(LEAST_SAMPLE_MS * bytes / BLOCK_BYTES as u64);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const BLOCK: u64 = BLOCK_BYTES as u64;

    /// A neighbour that is asked for so many blocks and for one more with each that comes,
    /// one every `block_ms`, although there is room for more. Goes on for ten seconds, and
    /// says when that was.
    fn deliver(pace: &mut Throughput, from: u64, under_way: u64, block_ms: u64) -> u64 {
        let mut asked: VecDeque<(u64, u64)> = (0..under_way).map(|_| (from, pace.delivered())).collect();
        pace.starved(UnixMillis(from), asked.len());
        let times = (1..=10_000 / block_ms).map(|n| from + n * block_ms);
        for now in times {
            let (at, before) = asked.pop_front().unwrap();
            pace.arrived(UnixMillis(now), BLOCK, UnixMillis(at), before);
            asked.push_back((now, pace.delivered()));
            pace.starved(UnixMillis(now), asked.len());
        }
        from + 10_000 / block_ms * block_ms
    }

    #[test]
    fn a_block_that_comes_at_once_does_not_make_a_neighbour_fast() {
        let mut pace = Throughput::default();
        pace.arrived(UnixMillis(1), BLOCK, UnixMillis(0), 0);
        assert!(pace.window(QUEUE_MS) <= 2 * START_WINDOW, "{}", pace.window(QUEUE_MS));
    }

    #[test]
    fn a_rate_that_was_too_high_falls_although_there_is_room() {
        let mut pace = Throughput::default();
        // A thousand blocks a second, with a latency of a millisecond.
        let now = deliver(&mut pace, 1, 50, 1);
        assert_eq!(pace.window(QUEUE_MS), MAX_WINDOW);
        deliver(&mut pace, now, 10, 50);
        let rate = pace.rate().unwrap();
        assert!((19 * BLOCK..22 * BLOCK).contains(&rate), "{rate}");
    }

    #[test]
    fn a_rate_holds_while_less_is_asked_for_than_the_latency_needs() {
        let mut pace = Throughput::default();
        let now = deliver(&mut pace, 1, 100, 10);
        pace.latency = Some(100);
        let rate = pace.rate().unwrap();
        assert!((95 * BLOCK..105 * BLOCK).contains(&rate), "{rate}");
        deliver(&mut pace, now, 1, 100);
        assert_eq!(pace.rate(), Some(rate));
    }

    #[test]
    fn a_rate_holds_while_blocks_are_asked_for_in_batches_with_pauses() {
        let mut pace = Throughput::default();
        let mut now = deliver(&mut pace, 1, 100, 10);
        let rate = pace.rate().unwrap();
        for _ in 0..100 {
            now += 500;
            pace.starved(UnixMillis(now), 0);
            let before = pace.delivered();
            (1..=5).for_each(|n| pace.arrived(UnixMillis(now + 10 * n), BLOCK, UnixMillis(now), before));
        }
        let after = pace.rate().unwrap();
        assert!((rate..rate * 11 / 10).contains(&after), "{after} after {rate}");
    }
}
