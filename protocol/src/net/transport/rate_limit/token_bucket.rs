//! The token bucket, without a clock.

use std::time::Duration;

use crate::snapshot::blocks::BLOCK_BYTES;

/// What may be drawn ahead of time after a pause, as time: 2.5 % of a second's bytes.
pub(super) const BURST: Duration = Duration::from_millis(25);

/// A draw is about as many bytes as the cap lets through in this time, so that whoever queues
/// behind N others, waits for N times as long and no longer.
const TURN: Duration = Duration::from_millis(6);

/// The smallest draw: what one packet carries.
const SMALLEST_DRAW: usize = 1400;

/// The largest draw, however high the cap: a block and the words around it, so that they leave as
/// one. Each piece of a block costs its sender and its receiver a wake, and a timer.
const LARGEST_DRAW: usize = BLOCK_BYTES + 512;

/// Says when bytes may pass so that they keep to a rate. Instants are durations since a common start.
///
/// Draws are reservations: each gets the next free stretch of time and is told when that begins.
/// So draws are served in their order, nobody starves, and one who reserved and went away holds
/// nobody up. A stretch may be used a little early, [`BURST`] unless said otherwise, which pays
/// for timers that fire late.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Bytes a second, at least 1.
    rate: u64,
    burst: Duration,
    /// Until here, time is given away: to draws, and to what was counted beside them.
    taken_until: Duration,
    /// When the next draw may begin whatever was counted: the last one takes twice its time until
    /// then. So half of the rate is left to draws by whatever nobody holds back.
    due: Duration,
}

impl Bucket {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), burst: BURST, taken_until: Duration::ZERO, due: Duration::ZERO }
    }

    /// The same where stretches may be used so much early.
    pub(super) fn with_burst(self, burst: Duration) -> Self {
        Self { burst, ..self }
    }

    /// The rate in bytes per second at which tokens come.
    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// The most that one flow should draw at once, in bytes.
    pub(super) fn largest_draw(&self) -> usize {
        let turn = u128::from(self.rate) * TURN.as_nanos() / 1_000_000_000;
        usize::try_from(turn).unwrap_or(LARGEST_DRAW).clamp(SMALLEST_DRAW, LARGEST_DRAW)
    }

    /// Reserves room for `bytes` and returns the instant from which they may pass; it may lie in the past.
    pub(super) fn draw(&mut self, now: Duration, bytes: u64) -> Duration {
        let (earliest, time) = (now.saturating_sub(self.burst), self.time(bytes));
        let start = self.taken_until.min(self.due).max(earliest);
        self.taken_until = self.taken_until.max(earliest) + time;
        self.due = start + 2 * time;
        start
    }

    /// Takes room for `bytes` that pass without a draw.
    pub(super) fn count(&mut self, now: Duration, bytes: u64) {
        self.taken_until = self.taken_until.max(now.saturating_sub(self.burst)) + self.time(bytes);
    }

    /// How long so many bytes take at the rate.
    pub(super) fn time(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Bytes that passed, and when.
    type Passed = Vec<(Duration, u64)>;

    /// The most bytes within any second.
    fn busiest_second(passed: &Passed) -> u64 {
        let within = |from: Duration| passed.iter().filter(move |(at, _)| (from..from + SECOND).contains(at));
        passed.iter().map(|(at, _)| within(*at).map(|(_, bytes)| bytes).sum()).max().unwrap_or(0)
    }

    /// `flows` that always have something to send, whose timers fire up to `late` late.
    fn saturate(rate: u64, flows: usize, late: Duration, until: Duration) -> Vec<Passed> {
        let mut bucket = Bucket::new(rate);
        let size = bucket.largest_draw();
        let mut next: Vec<Duration> = (0..flows).map(|_| bucket.draw(Duration::ZERO, size as u64)).collect();
        let mut passed = vec![Passed::new(); flows];
        let mut now = Duration::ZERO;
        while now < until {
            let (flow, due) = next.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
            now = now.max(if due > now { due + late } else { due });
            passed[flow].push((now, size as u64));
            next[flow] = bucket.draw(now, size as u64);
        }
        passed
    }

    #[test]
    fn no_second_exceeds_the_cap_by_more_than_the_burst() {
        for rate in [100_000, 1_250_000, 12_500_000, 125_000_000] {
            let passed: Passed =
                saturate(rate, 7, Duration::from_millis(3), 2 * SECOND).into_iter().flatten().collect();
            let most = rate + rate / 40 + 8 * Bucket::new(rate).largest_draw() as u64;
            assert!(busiest_second(&passed) <= most, "{rate}: {}", busiest_second(&passed));
        }
    }

    #[test]
    fn timers_that_fire_late_cost_nothing() {
        let late = Duration::from_millis(20);
        let sent: u64 = saturate(12_500_000, 3, late, 2 * SECOND).iter().flatten().map(|(_, n)| n).sum();
        assert!(sent >= 25_000_000 - 100_000, "{sent}");
    }

    #[test]
    fn flows_share_evenly() {
        let shares = saturate(1_250_000, 24, Duration::ZERO, 2 * SECOND);
        let (least, most) =
            (shares.iter().map(Vec::len).min().unwrap(), shares.iter().map(Vec::len).max().unwrap());
        assert!(most - least <= 1, "{least} to {most} draws");
    }

    #[test]
    fn a_newcomer_waits_for_one_turn_of_each_flow() {
        let mut bucket = Bucket::new(1_250_000);
        for _ in 0..24 {
            bucket.draw(SECOND, bucket.largest_draw() as u64);
        }
        assert!(bucket.draw(SECOND, 100) <= SECOND + 24 * TURN);
    }

    #[test]
    fn what_is_counted_leaves_less_room_and_never_less_than_half() {
        for (counted, in_ten_seconds) in [(0, 10_000), (250, 7_500), (500, 5_000), (100_000, 5_000)] {
            let (mut bucket, mut now, mut drawn) = (Bucket::new(1000), SECOND, 0u64);
            for second in 1..=10 {
                bucket.count(now.max(second * SECOND), counted);
                while now < (second + 1) * SECOND {
                    now = now.max(bucket.draw(now, 10));
                    drawn += 10;
                }
            }
            assert!(drawn.abs_diff(in_ten_seconds) <= 100, "{counted}: {drawn} of {in_ten_seconds}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_no_stretch_of_time_is_given_twice(
            rate in 1u64..1_000_000_000,
            draws in prop::collection::vec((0u64..100_000_000, 0u64..1_000_000), 1..100),
        ) {
            let (mut bucket, mut now, mut free) = (Bucket::new(rate), Duration::ZERO, Duration::ZERO);
            for (pause, bytes) in draws {
                now += Duration::from_nanos(pause);
                let start = bucket.draw(now, bytes);
                prop_assert!(start >= free && start + BURST >= now);
                free = start + Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64);
            }
        }
    }
}
