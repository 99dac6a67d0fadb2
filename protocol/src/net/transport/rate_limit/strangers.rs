//! The queue of those that a process does not keep, without a clock of its own.

use std::time::Duration;

/// The least part of a cap that strangers have, whatever kept peers want: enough for the identify of one
/// newcomer a second at the smallest uplinks that are of use, 240 kbit/s.
const LEAST_SHARE: f64 = 0.1;
/// Of what kept peers leave, strangers have this part. With all of it, kept peers that want more would never
/// get it: what strangers send would go on to be left to them.
const SHARE_OF_REST: f64 = 0.75;
/// What kept peers send is averaged over this time: so soon strangers take what becomes free, and give it
/// back.
const AVERAGED_OVER: Duration = Duration::from_millis(500);

/// Gives places in order. Places count bytes of strangers, and not time, so that all of them come sooner when
/// kept peers fall silent.
#[derive(Debug)]
pub(super) struct Strangers {
    /// The cap of all, in bytes a second.
    cap: f64,
    /// Bytes a second of kept peers, lately.
    kept: f64,
    /// Until when the figures hold.
    now: Duration,
    /// Bytes whose turn has come, at most those that have a place.
    passed: f64,
    /// Bytes that have a place.
    placed: f64,
}

impl Strangers {
    /// Under a cap in bytes a second.
    pub(super) fn new(cap: u64) -> Self {
        Self { cap: cap.max(1) as f64, kept: 0.0, now: Duration::ZERO, passed: 0.0, placed: 0.0 }
    }

    /// Counts what a kept peer sends.
    pub(super) fn kept_sends(&mut self, now: Duration, bytes: u64) {
        self.advance(now);
        self.kept += bytes as f64 / AVERAGED_OVER.as_secs_f64();
    }

    /// A place for `bytes`, after all that were given.
    pub(super) fn place(&mut self, now: Duration, bytes: u64) -> f64 {
        self.advance(now);
        let place = self.placed;
        self.placed += bytes as f64;
        place
    }

    /// When a place's turn comes, as things are; what has come lies in the past.
    pub(super) fn turn(&mut self, now: Duration, place: f64) -> Duration {
        self.advance(now);
        now + Duration::try_from_secs_f64((place - self.passed) / self.rate()).unwrap_or_default()
    }

    /// Bytes a second of strangers.
    fn rate(&self) -> f64 {
        (SHARE_OF_REST * (self.cap - self.kept)).max(LEAST_SHARE * self.cap)
    }

    fn advance(&mut self, now: Duration) {
        let seconds = now.saturating_sub(self.now).as_secs_f64();
        self.now = self.now.max(now);
        self.passed = (self.passed + self.rate() * seconds).min(self.placed);
        self.kept *= (-seconds / AVERAGED_OVER.as_secs_f64()).exp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of strangers in each of some seconds, in draws of 100, of a cap of 10,000 bytes a second, while
    /// kept peers send so many in each of them.
    fn sent(kept: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut strangers = Strangers::new(10_000);
        let (mut place, mut all) = (strangers.place(Duration::ZERO, 100), Vec::new());
        for (second, kept) in kept.into_iter().enumerate() {
            let mut bytes = 0;
            for step in 0..100 {
                let now = Duration::from_millis(1000 * second as u64 + 10 * step);
                strangers.kept_sends(now, kept / 100);
                while strangers.turn(now, place) <= now {
                    bytes += 100;
                    place = strangers.place(now, 100);
                }
            }
            all.push(bytes);
        }
        all
    }

    #[test]
    fn strangers_take_most_of_what_is_left_and_always_a_little() {
        let near = |bytes: u64, wanted: u64| bytes.abs_diff(wanted) <= 300;
        for (kept, wanted) in [(0, 7_500), (4_000, 4_500), (8_000, 1_500), (10_000, 1_000), (50_000, 1_000)] {
            let last = sent([kept; 6])[5];
            assert!(near(last, wanted), "{last} beside {kept}");
        }
    }

    #[test]
    fn all_places_come_sooner_when_kept_peers_fall_silent() {
        let mut strangers = Strangers::new(10_000);
        let second = Duration::from_secs(1);
        strangers.kept_sends(Duration::ZERO, 50_000);
        strangers.place(Duration::ZERO, 30_000);
        let last = strangers.place(Duration::ZERO, 100);
        assert_eq!(strangers.turn(Duration::ZERO, last), 30 * second);
        let soon = strangers.turn(10 * second, last);
        assert!(soon < 14 * second, "{soon:?}");
        assert!(strangers.turn(14 * second, last) <= 14 * second);
        // A pause saves nothing up.
        let next = strangers.place(60 * second, 7_500);
        assert!(strangers.turn(60 * second, next) <= 60 * second);
        let after = strangers.place(60 * second, 100);
        assert!(strangers.turn(60 * second, after) > Duration::from_millis(60_900));
    }
}
