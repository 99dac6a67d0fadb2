//! Turns to ask for bulk.
//!
//! What is asked for comes, and at the speed of the sender's link. What were asked for beyond the cap would lie unread in the windows of the
//! connections, and all that those hold may come within one second. So all who ask stand in one queue, and whoever is first waits until there
//! is room for what it asks for.

use super::Shared;
use super::bucket::{BURST, Bucket};
use super::framing::Framing;
use crate::groups::GROUP_BYTES;
use std::sync::{Mutex, MutexGuard as Held, PoisonError};
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep_until};

/// What is asked for in one turn is what the cap lets through in this time: few turns cost few messages.
const AT_ONCE: Duration = Duration::from_millis(25);

/// How late timers are forgiven to fire at any cap.
const LATE: Duration = Duration::from_millis(2);

/// Whoever waits for room hears within this time that the cap has changed.
const CAP_KNOWN_WITHIN: Duration = Duration::from_millis(500);

/// Who may ask, and when.
#[derive(Debug)]
pub(super) struct Asking {
    /// The queue. Waiters are served in their order.
    first: tokio::sync::Mutex<()>,
    /// Room under the cap on what is received: for what comes because it was asked for, and for what is counted beside it.
    room: Mutex<Bucket>,
}

impl Asking {
    pub(super) fn new(cap: Option<u64>) -> Self {
        Self { first: tokio::sync::Mutex::default(), room: Mutex::new(room(cap)) }
    }

    /// Goes over to another cap. What was taken at the old one is forgotten: a group may have taken hours.
    pub(super) fn restart(&self, cap: Option<u64>) {
        *self.room() = room(cap);
    }

    /// Takes room for bytes on the wire that come unasked.
    pub(super) fn count(&self, now: Duration, wire_bytes: u64) {
        self.room().count(now, wire_bytes);
    }

    pub(super) async fn turn<'a>(&'a self, shared: &'a Shared) -> Allowance<'a> {
        let free = Allowance { shared, left: u64::MAX, place: None };
        if shared.download.cap().is_none() {
            return free;
        }
        let place = self.first.lock().await;
        loop {
            let Some(cap) = shared.download.cap() else { return free };
            let now = shared.now();
            let due = self.room().draw(now, 0);
            if due <= now {
                let left = u128::from(cap) * AT_ONCE.as_millis() / 1000;
                let left = u64::try_from(left).unwrap_or(u64::MAX);
                let place = Place { begun: now, first: true, _queue: place };
                return Allowance { shared, left, place: Some(place) };
            }
            sleep_until((shared.start + due).min(Instant::now() + CAP_KNOWN_WITHIN)).await;
        }
    }

    fn room(&self) -> Held<'_, Bucket> {
        // Its numbers are whole whatever their last user did.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A second may hold some groups more than others do, for a group comes as one, and from several neighbours each when they have sent what others
/// asked them for before. So much of the cap is kept free that these few (measured: three, and a half to spare) are no twentieth of it too many;
/// at the lowest caps an eighth, which is not quite enough. And where a group takes long, it is most of what may be ahead of its time.
fn room(cap: Option<u64>) -> Bucket {
    let (cap, group) = (cap.unwrap_or(0), GROUP_BYTES as u64);
    let free = (group * 7 / 2).saturating_sub(cap / 20).max(group / 2);
    let room = Bucket::new(cap - free.min(cap / 8));
    let burst = BURST.saturating_sub(room.time(group)).max(LATE);
    room.with_burst(burst)
}

/// The right to ask for some bytes: a turn in the queue.
pub(in crate::net) struct Allowance<'a> {
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

impl Allowance<'_> {
    /// Takes room for `bytes` that are then asked for; false when they are too many for what is left of the turn. A turn always has
    /// room for the first, or what is longer than a turn would never be asked for.
    pub(in crate::net) fn draw(&mut self, bytes: u64) -> bool {
        let Some(place) = &mut self.place else { return true };
        let bytes = Framing::TCP.sent(usize::try_from(bytes).unwrap_or(usize::MAX));
        if bytes > self.left && !place.first {
            return false;
        }
        place.first = false;
        self.left = self.left.saturating_sub(bytes);
        self.shared.asking.room().draw(place.begun, bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::net::pacing::Pacing;
    use crate::net::pacing::framing::Framing;
    use futures::FutureExt as _;
    use std::cell::RefCell;
    use std::time::Duration;
    use tokio::time::Instant;

    /// Bytes a second.
    const CAP: u64 = 12_500_000;
    const GROUP: u64 = 64 << 10;

    /// Asks for `groups` and notes when.
    async fn ask(pacing: &Pacing, groups: usize, asked: &RefCell<Vec<Instant>>) {
        let mut left = groups;
        while left > 0 {
            let mut turn = pacing.turn_to_ask().await;
            while left > 0 && turn.draw(GROUP) {
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
        // At the second one a group is 2.75 % of a second, and nothing else may come ahead of its time.
        for (cap, percent, free) in [(CAP, 105, GROUP / 2), (CAP / 5, 103, GROUP * 7 / 2 - CAP / 100)] {
            let (pacing, asked) = (Pacing::new(None, Some(cap)), RefCell::default());
            tokio::time::sleep(Duration::from_secs(60)).await;
            let start = Instant::now();
            futures::future::join_all((0..8).map(|_| ask(&pacing, 64, &asked))).await;
            let asked = asked.into_inner();
            assert_eq!(asked.len(), 8 * 64);
            let group = Framing::TCP.sent(GROUP as usize);
            let (least, most) = ((cap - free) / group, cap * percent / 100 / group);
            let busiest = busiest_second(&asked);
            assert!((least..=most).contains(&busiest), "{busiest} groups in a second, of {least} to {most}");
            let due = Duration::from_secs_f64((8 * 64 * group) as f64 / (cap - free) as f64);
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
        // Four groups a turn, and whoever came first had a turn before the others were there.
        assert!(least > 100 && most - least <= 8, "{least} to {most}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_longer_than_a_turn_is_asked_for_alone() {
        let pacing = Pacing::new(None, Some(1000));
        let mut turn = pacing.turn_to_ask().await;
        assert!(turn.draw(GROUP) && !turn.draw(1));
        drop(turn);
        let start = Instant::now();
        pacing.turn_to_ask().await;
        assert!(start.elapsed() > Duration::from_secs(65), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_takes_no_room_along() {
        let pacing = Pacing::new(None, Some(1000));
        assert!(pacing.turn_to_ask().await.draw(1000));
        let mut waits = Box::pin(pacing.turn_to_ask());
        let mut behind = Box::pin(pacing.turn_to_ask());
        assert!(waits.as_mut().now_or_never().is_none() && behind.as_mut().now_or_never().is_none());
        drop(waits);
        let start = Instant::now();
        behind.await;
        // An eighth of so low a cap is kept free.
        assert!(start.elapsed() < Duration::from_millis(1300), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_unasked_leaves_less_room() {
        let pacing = Pacing::new(None, Some(1000));
        assert!(pacing.turn_to_ask().await.draw(1000));
        let start = Instant::now();
        pacing.came_unasked(500);
        pacing.turn_to_ask().await;
        assert!(start.elapsed() > Duration::from_millis(1500), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_without_an_end_leaves_half_of_the_cap_to_what_is_asked_for() {
        let (pacing, asked) = (Pacing::new(None, Some(CAP)), RefCell::default());
        ask(&pacing, 1000, &RefCell::default()).await;
        pacing.came_unasked(1 << 40);
        let _ = tokio::time::timeout(Duration::from_secs(4), ask(&pacing, 10_000, &asked)).await;
        let asked = asked.into_inner().len() as u64;
        let half = 4 * CAP / 2 / GROUP;
        assert!(
            (half * 94 / 100..=half * 105 / 100).contains(&asked),
            "{asked} groups, half of the cap are {half}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_cap_nobody_waits_and_one_that_is_lifted_is_heard_of() {
        let pacing = Pacing::new(None, None);
        let mut turn = pacing.turn_to_ask().now_or_never().expect("at once");
        assert!((0..1000).all(|_| turn.draw(GROUP)));
        pacing.set_max_download(Some(1));
        assert!(pacing.turn_to_ask().await.draw(GROUP));
        let start = Instant::now();
        let (lifted, ..) = tokio::join!(pacing.turn_to_ask(), async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            pacing.set_max_download(None);
        });
        drop(lifted);
        pacing.set_max_download(Some(CAP));
        assert!(pacing.turn_to_ask().await.draw(GROUP));
        assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
    }
}
