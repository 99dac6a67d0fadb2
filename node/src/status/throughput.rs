//! A rate over the last seconds.

use std::collections::VecDeque;

use echo_protocol::wire::time::UnixMillis;

/// How far back the rate looks, in milliseconds.
const WINDOW_MS: u64 = 10_000;
/// Events closer together than this are counted as one moment, which bounds the memory.
const MOMENT_MS: u64 = 250;

/// Counts events and says how many there were per second lately.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    moments: VecDeque<(UnixMillis, u64)>,
    started: Option<UnixMillis>,
}

impl Meter {
    pub(crate) fn add(&mut self, now: UnixMillis, events: u64) {
        self.started.get_or_insert(now);
        self.forget(now);
        match self.moments.back_mut() {
            Some((at, count)) if now.since(*at) < MOMENT_MS => *count += events,
            _ => self.moments.push_back((now, events)),
        }
    }

    pub(crate) fn per_second(&mut self, now: UnixMillis) -> f32 {
        self.forget(now);
        let events: u64 = self.moments.iter().map(|(_, count)| count).sum();
        // Early on, the time since the first event; at least a second, so that one event makes no huge rate.
        let elapsed = self.started.map_or(WINDOW_MS, |start| now.since(start)).clamp(1_000, WINDOW_MS);
        events as f32 * 1000.0 / elapsed as f32
    }

    fn forget(&mut self, now: UnixMillis) {
        while self.moments.front().is_some_and(|(at, _)| now.since(*at) > WINDOW_MS) {
            self.moments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_what_happened_lately() {
        let mut meter = Meter::default();
        assert_eq!(meter.per_second(UnixMillis(5)), 0.0);
        for second in 0..60 {
            meter.add(UnixMillis(second * 1000), 16);
        }
        assert!((meter.per_second(UnixMillis(59_500)) - 16.0).abs() < 0.1);
        assert!(meter.moments.len() <= (WINDOW_MS / MOMENT_MS) as usize);
        assert_eq!(meter.per_second(UnixMillis(80_000)), 0.0);
    }

    #[test]
    fn the_first_seconds_count_as_what_they_are() {
        let mut meter = Meter::default();
        meter.add(UnixMillis(0), 10);
        meter.add(UnixMillis(1_900), 10);
        assert_eq!(meter.per_second(UnixMillis(2_000)), 10.0);
    }
}
