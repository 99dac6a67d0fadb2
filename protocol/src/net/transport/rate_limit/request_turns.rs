//! Turns to ask for bulk.
//!
//! What is asked for comes, and at the speed of the sender's link. What were asked for beyond the
//! cap would lie unread in the windows of the connections, and all that those hold may come within
//! one second. So all who ask stand in one queue, and whoever is first waits until there is
//! [room](super::receive_budget) for what it asks for.

use super::receive_budget::{ReceiveBudget, block_on_the_wire};
use super::wire_overhead::Framing;
use super::{Pacing, Shared};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep_until};

/// What is asked for in one turn is what the cap lets through in this time: few turns cost few messages.
const AT_ONCE: Duration = Duration::from_millis(25);

/// Whoever waits for room hears within this time that the cap has changed.
const CAP_KNOWN_WITHIN: Duration = Duration::from_millis(500);

/// Who may ask, and when.
#[derive(Debug)]
pub(super) struct Asking {
    /// The queue. Waiters are served in their order.
    first: tokio::sync::Mutex<()>,
    /// Under the cap on what is received.
    room: Mutex<ReceiveBudget>,
}

impl Asking {
    pub(super) fn new(cap: Option<u64>) -> Self {
        Self { first: tokio::sync::Mutex::default(), room: Mutex::new(ReceiveBudget::new(cap.unwrap_or(0))) }
    }

    /// Goes over to another cap. What was taken at the old one is forgotten: a block may have taken hours.
    pub(super) fn restart(&self, cap: Option<u64>) {
        *self.room.lock() = ReceiveBudget::new(cap.unwrap_or(0));
    }

    /// Takes room for bytes on the wire that come unasked.
    pub(super) fn count(&self, now: Duration, wire_bytes: u64) {
        self.room.lock().came_unasked(now, wire_bytes);
    }

    pub(super) async fn turn<'a>(&'a self, shared: &'a Shared) -> RequestPermit<'a> {
        let free = RequestPermit { shared, left: u64::MAX, place: None };
        if shared.download.cap().is_none() {
            return free;
        }
        let place = self.first.lock().await;
        loop {
            let Some(cap) = shared.download.cap() else { return free };
            let now = shared.now();
            let due = self.room.lock().begins(now, block_on_the_wire());
            if due <= now {
                let left = u128::from(cap) * AT_ONCE.as_millis() / 1000;
                let left = u64::try_from(left).unwrap_or(u64::MAX);
                let place = Place { begun: now, first: true, _queue: place };
                return RequestPermit { shared, left, place: Some(place) };
            }
            sleep_until((shared.start + due).min(Instant::now() + CAP_KNOWN_WITHIN)).await;
        }
    }
}

/// The right to ask for some bytes: a turn in the queue.
pub(in crate::net) struct RequestPermit<'a> {
    shared: &'a Shared,
    /// Bytes on the wire.
    left: u64,
    /// None where there is no cap.
    place: Option<Place<'a>>,
}

struct Place<'a> {
    begun: Duration,
    /// Whether nothing has been drawn yet.
    first: bool,
    _queue: MutexGuard<'a, ()>,
}

impl RequestPermit<'_> {
    /// Takes room for `bytes` that are then asked for, and puts them down as `due`; false when they
    /// are too many for what is left of the turn. A turn always has room for the first, or what is
    /// longer than a turn would never be asked for.
    pub(in crate::net) fn draw(&mut self, due: &mut OutstandingBytes, bytes: u64) -> bool {
        let Some(place) = &mut self.place else { return true };
        let bytes = wire_bytes(bytes);
        let mut room = self.shared.asking.room.lock();
        if !place.first && (bytes > self.left || !room.fits(place.begun, bytes)) {
            return false;
        }
        place.first = false;
        self.left = self.left.saturating_sub(bytes);
        room.ask(place.begun, bytes);
        due.bytes += bytes;
        true
    }
}

/// What one neighbour was asked for under a cap, and may still send. It is given up when this is dropped.
#[derive(Debug)]
pub(in crate::net) struct OutstandingBytes {
    pacing: Pacing,
    /// Bytes on the wire.
    bytes: u64,
}

impl OutstandingBytes {
    pub(super) fn new(pacing: Pacing) -> Self {
        Self { pacing, bytes: 0 }
    }

    /// Counts `bytes` as come: they have, or they were cancelled, and may come within a second or never.
    pub(in crate::net) fn came(&mut self, bytes: u64) {
        let bytes = wire_bytes(bytes).min(self.bytes);
        self.bytes -= bytes;
        if bytes > 0 {
            let shared = &self.pacing.shared;
            shared.asking.room.lock().came(shared.now(), bytes);
        }
    }
}

impl Drop for OutstandingBytes {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.pacing.shared.asking.room.lock().given_up(self.bytes);
        }
    }
}

/// What so many bytes of a block take on the wire.
fn wire_bytes(bytes: u64) -> u64 {
    Framing::TCP.sent(usize::try_from(bytes).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use crate::net::transport::rate_limit::Pacing;
    use crate::net::transport::rate_limit::wire_overhead::Framing;
    use futures::FutureExt as _;
    use std::cell::RefCell;
    use std::time::Duration;
    use tokio::time::Instant;

    /// A cap of 100 Mbit/s, in bytes per second.
    const CAP: u64 = 12_500_000;
    const BLOCK: u64 = 64 << 10;

    /// Asks for `blocks`, which come at once, and notes when.
    async fn ask(pacing: &Pacing, blocks: usize, asked: &RefCell<Vec<Instant>>) {
        let (mut left, mut due) = (blocks, pacing.due());
        while left > 0 {
            let mut turn = pacing.turn_to_ask().await;
            while left > 0 && turn.draw(&mut due, BLOCK) {
                due.came(BLOCK);
                asked.borrow_mut().push(Instant::now());
                left -= 1;
            }
        }
    }

    fn busiest_second(asked: &[Instant]) -> u64 {
        let within =
            |from: Instant| asked.iter().filter(move |at| (from..from + Duration::from_secs(1)).contains(at));
        asked.iter().map(|from| within(*from).count() as u64).max().unwrap_or(0)
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_ask_for_no_more_than_the_cap_and_a_twentieth_in_any_second() {
        // At the last one a block is 6.9 % of a second.
        for cap in [CAP, CAP / 5, CAP * 2 / 25] {
            let (pacing, asked) = (Pacing::new(None, Some(cap)), RefCell::default());
            tokio::time::sleep(Duration::from_secs(60)).await;
            let start = Instant::now();
            futures::future::join_all((0..8).map(|_| ask(&pacing, 64, &asked))).await;
            let asked = asked.into_inner();
            assert_eq!(asked.len(), 8 * 64);
            let (block, free) = (Framing::TCP.sent(BLOCK as usize), BLOCK / 2);
            let (least, most) = ((cap - free) / block, cap * 105 / 100 / block);
            let busiest = busiest_second(&asked);
            assert!((least..=most).contains(&busiest), "{busiest} blocks in a second, of {least} to {most}");
            let due = Duration::from_secs_f64((8 * 64 * block) as f64 / (cap - free) as f64);
            assert!(start.elapsed() < due + Duration::from_millis(20), "{:?} of {due:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn turns_come_in_order_so_that_nobody_starves() {
        let (pacing, asked) = (Pacing::new(None, Some(CAP)), [const { RefCell::new(Vec::new()) }; 8]);
        let all = futures::future::join_all(asked.iter().map(|asked| ask(&pacing, 1000, asked)));
        let _ = tokio::time::timeout(Duration::from_secs(5), all).await;
        let shares = asked.iter().map(|asked| asked.borrow().len());
        let (least, most) = (shares.clone().min().unwrap(), shares.max().unwrap());
        // Four blocks a turn, and whoever came first had a turn before the others were there.
        assert!(least > 100 && most - least <= 8, "{least} to {most}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_longer_than_a_turn_is_asked_for_alone() {
        let pacing = Pacing::new(None, Some(1000));
        let (mut turn, mut due) = (pacing.turn_to_ask().await, pacing.due());
        assert!(turn.draw(&mut due, BLOCK) && !turn.draw(&mut due, 1));
        drop(turn);
        let start = Instant::now();
        pacing.turn_to_ask().await;
        assert!(start.elapsed() > Duration::from_secs(65), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_takes_no_room_along() {
        let pacing = Pacing::new(None, Some(1000));
        assert!(pacing.turn_to_ask().await.draw(&mut pacing.due(), 1000));
        let mut waits = Box::pin(pacing.turn_to_ask());
        let mut behind = Box::pin(pacing.turn_to_ask());
        assert!(waits.as_mut().now_or_never().is_none() && behind.as_mut().now_or_never().is_none());
        drop(waits);
        let start = Instant::now();
        behind.await;
        // Of so low a cap, an eighth is kept free, and a quarter while something is to come.
        assert!(start.elapsed() < Duration::from_millis(1800), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_unasked_leaves_less_room() {
        let pacing = Pacing::new(None, Some(1000));
        assert!(pacing.turn_to_ask().await.draw(&mut pacing.due(), 1000));
        let start = Instant::now();
        pacing.came_unasked(500);
        pacing.turn_to_ask().await;
        assert!(start.elapsed() > Duration::from_millis(1500), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_without_an_end_leaves_half_of_the_cap_to_what_is_asked_for() {
        let (pacing, asked) = (Pacing::new(None, Some(CAP)), RefCell::default());
        ask(&pacing, 1000, &RefCell::default()).await;
        // Within this second, what has come before leaves less than half.
        tokio::time::sleep(Duration::from_secs(1)).await;
        pacing.came_unasked(1 << 40);
        let _ = tokio::time::timeout(Duration::from_secs(4), ask(&pacing, 10_000, &asked)).await;
        let asked = asked.into_inner().len() as u64;
        let half = 4 * CAP / 2 / BLOCK;
        assert!(
            (half * 94 / 100..=half * 105 / 100).contains(&asked),
            "{asked} blocks, half of the cap are {half}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_cap_nobody_waits_and_one_that_is_lifted_is_heard_of() {
        let pacing = Pacing::new(None, None);
        let (mut turn, mut due) = (pacing.turn_to_ask().now_or_never().expect("at once"), pacing.due());
        assert!((0..1000).all(|_| turn.draw(&mut due, BLOCK)));
        pacing.set_max_download(Some(1));
        assert!(pacing.turn_to_ask().await.draw(&mut due, BLOCK));
        let start = Instant::now();
        let (lifted, ..) = tokio::join!(pacing.turn_to_ask(), async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            pacing.set_max_download(None);
        });
        drop(lifted);
        pacing.set_max_download(Some(CAP));
        assert!(pacing.turn_to_ask().await.draw(&mut due, BLOCK));
        assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
    }
}
