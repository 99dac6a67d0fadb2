//! Room under a cap on what is received, for bulk that is asked for.

use super::token_bucket::{BURST, Bucket};
use super::wire_overhead::Framing;
use crate::snapshot::blocks::BLOCK_BYTES;
use std::collections::VecDeque;
use std::time::Duration;

/// How late timers are forgiven to fire at any cap.
const LATE: Duration = Duration::from_millis(2);

/// Blocks that are to come of which it is reckoned that all may come at once, or a twenty-fifth of
/// a second's where that is more. Many more are under way at high caps, and no such part of them
/// comes at once (measured: three of those under way at 20 Mbit/s).
const BLOCKS_AT_ONCE: u64 = 4;

/// Says when something may be asked for.
///
/// A bucket spreads it evenly. But what is asked for comes when its sender gets to it, and then a
/// second may hold what was asked for in this one and in the one before. So nothing is asked for
/// while it would be more than the cap lets through in a second, together with what has come within
/// the last one and with what is still to come.
#[derive(Debug)]
pub(super) struct ReceiveBudget {
    bucket: Bucket,
    /// Bytes on the wire, as all that follow: so many may come within a second.
    most: u64,
    /// So much of what is to come is reckoned to come at once.
    at_once: u64,
    came: LastSecond,
    /// What came without having been asked for. It takes no more than half.
    unasked: LastSecond,
    /// Asked for, and still to come.
    due: u64,
}

impl ReceiveBudget {
    /// Under a cap in bytes a second. A fifth of the twentieth that may be above it is left to
    /// what nobody here counts.
    pub(super) fn new(cap: u64) -> Self {
        let block = BLOCK_BYTES as u64;
        let bucket = Bucket::new(cap - (block / 2).min(cap / 8));
        // Where a block takes long, it is most of what may be ahead of its time.
        let burst = BURST.saturating_sub(bucket.time(block)).max(LATE);
        let (bucket, most) = (bucket.with_burst(burst), cap.saturating_add(cap / 25));
        let at_once = (BLOCKS_AT_ONCE * block_on_the_wire()).max(cap / 25);
        let (came, unasked) = Default::default();
        Self { bucket, most, at_once, came, unasked, due: 0 }
    }

    /// From when on so many bytes may be asked for if nothing else comes; it may lie in the past.
    pub(super) fn begins(&mut self, now: Duration, bytes: u64) -> Duration {
        self.bucket.draw(now, 0).max(self.second_has_room(now, bytes))
    }

    /// Whether so many bytes may be asked for beside what was asked for just now.
    pub(super) fn fits(&mut self, now: Duration, bytes: u64) -> bool {
        self.second_has_room(now, bytes) <= now
    }

    /// Takes room for so many bytes, which are asked for.
    pub(super) fn ask(&mut self, now: Duration, bytes: u64) {
        // At the rate at which a second just does not get full. The pause after one that did would
        // come again with every second.
        let rate = self.bucket.rate();
        let even = self.most.saturating_sub(self.due.min(self.at_once) + block_on_the_wire());
        let even = LastSecond::rate(even).clamp(rate / 4 * 3, rate).max(1);
        self.bucket.draw(now, bytes.saturating_mul(rate) / even);
        self.due += bytes;
    }

    /// Some of what was asked for has come, or may come within a second or never.
    pub(super) fn came(&mut self, now: Duration, bytes: u64) {
        self.due = self.due.saturating_sub(bytes);
        self.came.count(now, bytes);
    }

    /// Some of what was asked for does not come any more.
    pub(super) fn given_up(&mut self, bytes: u64) {
        self.due = self.due.saturating_sub(bytes);
    }

    /// Takes room for bytes that have come and were not asked for.
    pub(super) fn came_unasked(&mut self, now: Duration, bytes: u64) {
        self.bucket.count(now, bytes);
        self.unasked.count(now, bytes);
    }

    /// When so much of what came within the last second will be longer ago that there is room for `bytes`.
    fn second_has_room(&mut self, now: Duration, bytes: u64) -> Duration {
        let unasked = self.unasked.sum(now).min(self.most / 2);
        let others = unasked + self.due.min(self.at_once) + bytes;
        // What does not fit into a second waits until nothing has come for one.
        self.came.falls_to(now, self.most.saturating_sub(others))
    }
}

/// What a whole block takes on the wire, in bytes.
pub(super) fn block_on_the_wire() -> u64 {
    Framing::TCP.sent(BLOCK_BYTES)
}

/// What came within the last second, and a little longer.
#[derive(Debug, Default)]
struct LastSecond {
    /// From when on, and how much, oldest first.
    counted: VecDeque<(Duration, u64)>,
    sum: u64,
}

impl LastSecond {
    const SECOND: Duration = Duration::from_secs(1);
    /// What comes within this time counts as if it had all come with the last of it.
    const STEP: Duration = Duration::from_millis(4);

    fn count(&mut self, now: Duration, bytes: u64) {
        self.forget(now);
        self.sum += bytes;
        match self.counted.back_mut() {
            Some((first, counted)) if *first + Self::STEP > now => *counted += bytes,
            _ => self.counted.push_back((now, bytes)),
        }
    }

    fn sum(&mut self, now: Duration) -> u64 {
        self.forget(now);
        self.sum
    }

    /// From when on it is `most` at most, if nothing comes.
    fn falls_to(&mut self, now: Duration, most: u64) -> Duration {
        let (mut sum, mut from) = (self.sum(now), now);
        for (at, bytes) in &self.counted {
            if sum <= most {
                break;
            }
            (sum, from) = (sum - bytes, Self::forgotten(*at));
        }
        from
    }

    fn forget(&mut self, now: Duration) {
        while let Some((at, bytes)) = self.counted.front().copied()
            && Self::forgotten(at) <= now
        {
            self.sum -= bytes;
            self.counted.pop_front();
        }
    }

    /// When what was counted as from `first` on is forgotten.
    fn forgotten(first: Duration) -> Duration {
        first + Self::STEP + Self::SECOND
    }

    /// The rate in bytes a second at which the sum comes to so much.
    fn rate(sum: u64) -> u64 {
        let held = (Self::SECOND + Self::STEP).as_millis();
        u64::try_from(u128::from(sum) * 1000 / held).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SECOND: Duration = Duration::from_secs(1);
    /// A cap of 8 Mbit/s, in bytes per second.
    const CAP: u64 = 1_000_000;

    /// Asks for a block whenever there is room, `under_way` at most, each of which comes as much
    /// later as `delays` say in turn. When they came.
    fn arrivals(cap: u64, under_way: usize, delays: &[Duration], until: Duration) -> Vec<Duration> {
        let (mut room, mut now) = (ReceiveBudget::new(cap), Duration::ZERO);
        let (mut coming, mut came) = (BTreeSet::new(), Vec::new());
        for (delay, number) in delays.iter().cycle().zip(0..) {
            loop {
                let begins = if coming.len() < under_way {
                    room.begins(now, block_on_the_wire()).max(now)
                } else {
                    until
                };
                let next = coming.first().map_or(until, |(at, _)| *at);
                now = begins.min(next);
                if now >= until {
                    return came;
                }
                if begins < next {
                    break;
                }
                coming.pop_first();
                room.came(now, block_on_the_wire());
                came.push(now);
            }
            room.ask(now, block_on_the_wire());
            coming.insert((now + *delay, number));
        }
        came
    }

    fn busiest_second(came: &[Duration]) -> u64 {
        let within = |from| came.iter().filter(move |at| (from..from + SECOND).contains(*at)).count();
        came.iter().map(|from| within(*from) as u64).max().unwrap_or(0) * block_on_the_wire()
    }

    proptest! {
        #[test]
        fn however_late_it_comes_no_second_holds_more_than_a_twentieth_above_the_cap(
            cap in CAP..20 * CAP,
            delays in prop::collection::vec((0u64..700).prop_map(Duration::from_millis), 1..50),
        ) {
            let came = arrivals(cap, BLOCKS_AT_ONCE as usize, &delays, 10 * SECOND);
            prop_assert!(busiest_second(&came) * 100 <= cap * 105, "{} under {cap}", busiest_second(&came));
        }
    }

    #[test]
    fn caps_are_used_up_but_for_what_many_blocks_under_way_may_bring_at_once() {
        for (cap, millis, least) in [
            (CAP, 20, 95),
            (CAP, 200, 80),
            (3 * CAP, 20, 96),
            (3 * CAP, 300, 84),
            (12 * CAP, 20, 97),
            (12 * CAP, 300, 95),
        ] {
            let came = arrivals(cap, 1000, &[Duration::from_millis(millis)], 20 * SECOND);
            let percent = came.len() as u64 * block_on_the_wire() * 100 / (20 * cap);
            assert!(percent >= least, "{percent} % of {cap} after {millis} ms");
        }
    }

    #[test]
    fn what_does_not_come_any_more_gives_its_room_back_and_what_was_cancelled_a_second_later() {
        let begins =
            |room: &mut ReceiveBudget| room.begins(SECOND, block_on_the_wire()).saturating_sub(SECOND);
        let mut room = ReceiveBudget::new(4 * block_on_the_wire());
        room.due = 4 * block_on_the_wire();
        // So many may not come within a second: only if nothing has come for one is it reckoned
        // that they are late.
        room.came(SECOND, block_on_the_wire());
        assert!(begins(&mut room) >= SECOND);
        room.given_up(3 * block_on_the_wire());
        assert!(begins(&mut room) < SECOND / 2);
        room.came(SECOND, 3 * block_on_the_wire());
        assert!(begins(&mut room) >= SECOND);
    }

    #[test]
    fn what_nobody_asked_for_takes_half_at_most() {
        let mut room = ReceiveBudget::new(CAP);
        room.came_unasked(SECOND, 10 * CAP);
        room.came(SECOND, block_on_the_wire());
        assert!(
            room.fits(SECOND, CAP / 2 - block_on_the_wire())
                && !room.fits(SECOND, CAP * 3 / 5 - block_on_the_wire())
        );
    }
}
