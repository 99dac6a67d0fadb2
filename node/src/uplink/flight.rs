//! Which groups are under way on a stream.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use echo_protocol::order::OrderCounter;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::WINDOW;

/// The groups sent over one stream and not yet answered.
#[derive(Debug)]
pub(super) struct Flight {
    under_way: Mutex<UnderWay>,
    landed: Notify,
}

#[derive(Debug)]
struct UnderWay {
    window: usize,
    /// With the time at which each was sent.
    sent: BTreeMap<OrderCounter, Instant>,
    answers: u64,
    /// When the learner last answered, or when it last got something to answer after having answered everything.
    since: Instant,
}

impl Flight {
    /// At most `window` groups at once until the first has landed, [`WINDOW`] from then on.
    pub(super) fn new(window: usize) -> Self {
        let under_way = UnderWay { window, sent: BTreeMap::new(), answers: 0, since: Instant::now() };
        Self { under_way: Mutex::new(under_way), landed: Notify::new() }
    }

    pub(super) fn has_room(&self) -> bool {
        let under_way = self.lock();
        under_way.sent.len() < under_way.window
    }

    pub(super) fn contains(&self, counter: OrderCounter) -> bool {
        self.lock().sent.contains_key(&counter)
    }

    /// How long this group has been under way, if it is.
    pub(super) fn age(&self, counter: OrderCounter) -> Option<Duration> {
        self.lock().sent.get(&counter).map(Instant::elapsed)
    }

    pub(super) fn start(&self, counter: OrderCounter) {
        let (mut under_way, now) = (self.lock(), Instant::now());
        if under_way.sent.is_empty() {
            under_way.since = now;
        }
        under_way.sent.insert(counter, now);
    }

    pub(super) fn land(&self, counter: OrderCounter) {
        let mut under_way = self.lock();
        under_way.sent.remove(&counter);
        under_way.answers += 1;
        under_way.window = WINDOW;
        under_way.since = Instant::now();
        drop(under_way);
        self.landed.notify_one();
    }

    /// Waits until a group has landed since the last call.
    pub(super) async fn landed(&self) {
        self.landed.notified().await;
    }

    /// The group under way, if it is the only one.
    pub(super) fn only(&self) -> Option<OrderCounter> {
        let under_way = self.lock();
        under_way.sent.keys().next().copied().filter(|_| under_way.sent.len() == 1)
    }

    /// Whether groups are under way and nothing was answered for this long.
    pub(super) fn overdue(&self, limit: Duration) -> bool {
        let under_way = self.lock();
        !under_way.sent.is_empty() && under_way.since.elapsed() >= limit
    }

    /// Answers on this stream.
    pub(super) fn answers(&self) -> u64 {
        self.lock().answers
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        // A set of numbers is sound whatever happened to the thread that held it.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_last_answer_and_only_while_something_is_under_way() {
        let (limit, flight) = (Duration::from_secs(10), Flight::new(2));
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        pass(60).await;
        assert!(!flight.overdue(limit));
        flight.start(OrderCounter(1));
        pass(6).await;
        flight.start(OrderCounter(2));
        assert!(!flight.has_room() && flight.only().is_none());
        assert_eq!(
            [1, 2, 3].map(|n| flight.age(OrderCounter(n)).map(|age| age.as_secs())),
            [Some(6), Some(0), None]
        );
        flight.land(OrderCounter(1));
        flight.landed().await;
        pass(9).await;
        assert!(!flight.overdue(limit));
        pass(1).await;
        assert!(flight.overdue(limit));
        assert_eq!(flight.only(), Some(OrderCounter(2)));
    }
}
