//! How good a node is at passing snapshots on (ECHO-2, appendix C.3).
//!
//! Score = Decay · (0.5 Speed + 0.35 Success + 0.15 Stability), each part from 0 to 100. What it is
//! computed from is what other nodes measured, never what a node says of itself.

use super::trust::REPORT_WINDOW_MS;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rate::BytesPerSec;
use echo_protocol::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Consecutive failures beyond which a node is not stable. Each is another node's word: a quorum.
pub const MAX_FAILURES: u32 = 3;
/// Nodes that said so lately and are remembered: more than it takes, so that forgetting one
/// lets nobody speak alone.
const MAX_REPORTERS: usize = 2 * MAX_FAILURES as usize;
/// Successes from which on more do not make a node more stable.
const ENOUGH_SUCCESSES: f64 = 10.0;
/// Seconds over which a measurement loses weight, and the largest share that it loses.
const DECAY: (f64, f64) = (600.0, 0.3);
/// log10 of the bits per second at which Speed is 0.
const SLOWEST: f64 = 3.0;
/// Attempts on record after which old and new ones are both halved, so that a node can mend its ways.
const MAX_ATTEMPTS: u32 = 200;
/// Weight of the newest sample in the average speed.
const NEWEST: f64 = 0.3;
/// A sample of the speed covers at least this time, in milliseconds.
const SAMPLE_MS: u64 = 1_000;
/// After a pause this long the time since the last delivery says nothing about speed: nothing may
/// have been asked for.
const PAUSE_MS: u64 = 3_000;

/// What was seen of a node's forwarding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForwardingRecord {
    /// Average speed while it forwarded, in bits per second; `None` before the first sample.
    average: Option<f64>,
    /// The highest sample, bits per second.
    peak: f64,
    /// Bytes of the sample that is being taken, and when it began.
    sample: (u64, UnixMillis),
    successes: u32,
    failures: u32,
    consecutive_failures: u32,
    /// Who lost it within the last [`REPORT_WINDOW_MS`].
    lost_by: BTreeMap<PublicKey, UnixMillis>,
    /// When it was last seen to deliver or to fail.
    seen: UnixMillis,
}

impl ForwardingRecord {
    /// Notes bytes that somebody received from it, and at what rate while it waited for them; 0
    /// where that is not known.
    pub fn delivered(&mut self, now: UnixMillis, bytes: u64, rate: u64) {
        let pause = now.since(self.seen);
        self.attempt(now);
        self.successes += 1;
        self.consecutive_failures = 0;
        if pause > PAUSE_MS {
            let waited = bytes.saturating_mul(1_000).checked_div(rate).unwrap_or(0).min(pause);
            let asked = waited > PAUSE_MS;
            // Unless somebody waited all along, when these bytes began to flow is not known: they
            // only begin the next sample.
            self.sample = (0, if asked { UnixMillis(now.0 - waited) } else { now });
            if !asked {
                return;
            }
        }
        self.sample.0 = self.sample.0.saturating_add(bytes);
        let elapsed = now.since(self.sample.1);
        if elapsed >= SAMPLE_MS {
            let speed = self.sample.0 as f64 * 8_000.0 / elapsed as f64;
            self.average = Some(self.average.map_or(speed, |old| old + NEWEST * (speed - old)));
            self.peak = self.peak.max(speed);
            self.sample = (0, now);
        }
    }

    /// Notes that `reporter` lost it. However often one node says so, it counts once in [`REPORT_WINDOW_MS`].
    pub fn failed(&mut self, now: UnixMillis, reporter: PublicKey) {
        self.lost_by.retain(|_, at| now.since(*at) < REPORT_WINDOW_MS);
        if self.lost_by.len() >= MAX_REPORTERS || self.lost_by.contains_key(&reporter) {
            return;
        }
        self.lost_by.insert(reporter, now);
        self.attempt(now);
        self.failures += 1;
        self.consecutive_failures += 1;
    }

    fn attempt(&mut self, now: UnixMillis) {
        self.seen = now;
        if self.successes + self.failures >= MAX_ATTEMPTS {
            (self.successes, self.failures) = (self.successes / 2, self.failures / 2);
        }
    }

    /// Average speed, bits per second.
    pub fn speed(&self) -> Option<f64> {
        self.average
    }

    /// The highest rate seen.
    pub fn peak(&self) -> Option<BytesPerSec> {
        self.average.map(|_| BytesPerSec((self.peak / 8.0) as u64))
    }

    /// Whether it failed too often in a row to be relied on.
    pub fn is_failing(&self) -> bool {
        self.consecutive_failures > MAX_FAILURES
    }

    /// The score, 0 to 100, where `cap` is the per-worker cap at which Speed saturates.
    pub fn score(&self, now: UnixMillis, cap: BytesPerSec) -> f64 {
        let attempts = self.successes + self.failures;
        let success = 100.0 * f64::from(self.successes) / f64::from(attempts.max(1));
        let stability = match self.is_failing() {
            true => 0.0,
            false => 100.0 * (f64::from(self.successes) / ENOUGH_SUCCESSES).min(1.0),
        };
        let speed = self.average.map_or(0.0, |average| speed(average, cap));
        decay(now.since(self.seen)) * (0.5 * speed + 0.35 * success + 0.15 * stability)
    }
}

/// Speed: 100 · (log10(bits per second) - 3) / 5 for the paper's cap of 100 Mbit/s, whose logarithm
/// is 8. For another cap the 5 becomes the logarithm of that cap less 3, so that Speed is 100 at
/// the cap whatever it is.
fn speed(bits_per_s: f64, cap: BytesPerSec) -> f64 {
    let range = (cap.bits().max(1) as f64).log10() - SLOWEST;
    if range <= 0.0 {
        return 100.0;
    }
    (100.0 * (bits_per_s.max(1.0).log10() - SLOWEST) / range).clamp(0.0, 100.0)
}

/// Decay: 1 - min(seconds / 600, 0.3).
fn decay(elapsed_ms: u64) -> f64 {
    1.0 - (elapsed_ms as f64 / 1_000.0 / DECAY.0).min(DECAY.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: BytesPerSec = BytesPerSec(12_500_000);

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// A node that delivered `rate` bytes a second for `seconds`, from instant 10 s.
    fn delivering(rate: u64, seconds: u64) -> ForwardingRecord {
        let mut record = ForwardingRecord::default();
        (0..=seconds).for_each(|s| record.delivered(UnixMillis(10_000 + s * 1_000), rate, rate));
        record
    }

    #[test]
    fn speed_follows_the_formula_and_saturates_at_the_cap() {
        // 10 Mbit/s: 100 · (7 - 3) / 5 = 80. 1 kbit/s: 0.
        for (bits, expected) in [(1e8, 100.0), (1e9, 100.0), (1e7, 80.0), (1e3, 0.0), (1.0, 0.0)] {
            assert!(close(speed(bits, CAP), expected), "{bits}");
        }
        // A cap of 10 Mbit/s: 1 Mbit/s is 100 · (6 - 3) / (7 - 3) = 75.
        assert!(close(speed(1e6, BytesPerSec(1_250_000)), 75.0));
        assert!(close(speed(1e7, BytesPerSec(1_250_000)), 100.0));
        assert!(close(speed(5.0, BytesPerSec(1)), 100.0));
    }

    #[test]
    fn decay_takes_at_most_three_tenths() {
        for (ms, expected) in [(0, 1.0), (60_000, 0.9), (180_000, 0.7), (3_600_000, 0.7)] {
            assert!(close(decay(ms), expected), "{ms}");
        }
    }

    #[test]
    fn the_score_is_the_papers() {
        // 10 Mbit/s for 4 s, 5 successes: 0.5 · 80 + 0.35 · 100 + 0.15 · 50 = 82.5.
        let mut record = delivering(1_250_000, 4);
        let now = UnixMillis(14_000);
        assert!(close(record.score(now, CAP), 82.5), "{}", record.score(now, CAP));
        // A minute later: 0.9 of it.
        assert!(close(record.score(UnixMillis(74_000), CAP), 74.25));
        // Five failures in a row: Success 100 · 5 / 10, Stability 0: 40 + 17.5.
        (0..5).for_each(|n| record.failed(now, key(n)));
        assert!(record.is_failing());
        assert!(close(record.score(now, CAP), 57.5), "{}", record.score(now, CAP));
        assert_eq!(ForwardingRecord::default().score(now, CAP), 0.0, "nothing is known of a newcomer");
    }

    #[test]
    fn pauses_say_nothing_about_speed() {
        let mut record = delivering(1_000_000, 3);
        assert!(close(record.speed().unwrap(), 8e6));
        // After a minute without anything to forward.
        record.delivered(UnixMillis(73_000), 10_000, 1_000_000);
        assert!(close(record.speed().unwrap(), 8e6));
        record.delivered(UnixMillis(74_000), 2_000_000, 0);
        assert!(close(record.speed().unwrap(), 8e6 + 0.3 * 8e6));
        assert_eq!(record.peak(), Some(BytesPerSec(2_000_000)));
    }

    #[test]
    fn pauses_in_which_somebody_waited_count() {
        let mut record = delivering(1_000_000, 3);
        // A block of 64 KiB every 3.1 seconds.
        for n in 1..=20 {
            record.delivered(UnixMillis(13_000 + n * 3_100), 65_536, 21_140);
        }
        assert!(record.speed().unwrap() < 200_000.0, "{:?}", record.speed());
    }

    #[test]
    fn one_nodes_word_makes_nobody_fail_and_that_of_several_does() {
        let mut record = delivering(1_000_000, 3);
        for second in 0..50 {
            record.failed(UnixMillis(13_000 + second * 1_000), key(1));
        }
        assert!(!record.is_failing());
        (2..=3).for_each(|n| record.failed(UnixMillis(63_000), key(n)));
        assert!(!record.is_failing());
        record.failed(UnixMillis(63_000), key(4));
        assert!(record.is_failing());
        (0..200).for_each(|n| record.failed(UnixMillis(63_000), key(n)));
        assert!(record.lost_by.len() <= MAX_REPORTERS);
    }
}
