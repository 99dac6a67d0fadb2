//! Which groups are under way on a stream.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use echo_protocol::work::order::OrderCounter;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::WINDOW;

/// The groups sent over one stream and not yet answered; and of those that the learner has not
/// decided on, when each was first sent.
#[derive(Debug)]
pub(super) struct GroupsInFlight {
    under_way: Mutex<UnderWay>,
    landed: Notify,
}

#[derive(Debug)]
struct UnderWay {
    window: usize,
    counters: BTreeSet<OrderCounter>,
    /// Over this stream or one before.
    first_sent: BTreeMap<OrderCounter, Instant>,
    answers: u64,
    /// When the learner last answered, or when it last got something to answer
    /// after having answered everything.
    since: Instant,
}

impl GroupsInFlight {
    /// At most `window` groups at once until the first has landed, [`WINDOW`] from then on.
    pub(super) fn new(window: usize) -> Self {
        let under_way = UnderWay {
            window,
            counters: BTreeSet::new(),
            first_sent: BTreeMap::new(),
            answers: 0,
            since: Instant::now(),
        };
        Self { under_way: Mutex::new(under_way), landed: Notify::new() }
    }

    /// The same for a new stream, over which what was not answered is sent again.
    pub(super) fn again(self, window: usize) -> Self {
        let under_way = self.under_way.into_inner();
        let again = Self::new(window);
        again.under_way.lock().first_sent = under_way.first_sent;
        again
    }

    pub(super) fn has_room(&self) -> bool {
        let under_way = self.under_way.lock();
        under_way.counters.len() < under_way.window
    }

    pub(super) fn contains(&self, counter: OrderCounter) -> bool {
        self.under_way.lock().counters.contains(&counter)
    }

    pub(super) fn start(&self, counter: OrderCounter) {
        let (mut under_way, now) = (self.under_way.lock(), Instant::now());
        if under_way.counters.is_empty() {
            under_way.since = now;
        }
        under_way.counters.insert(counter);
        under_way.first_sent.entry(counter).or_insert(now);
    }

    /// The learner has decided on a group: how long after that was first sent.
    pub(super) fn decided(&self, counter: OrderCounter) -> Duration {
        self.under_way.lock().first_sent.remove(&counter).map_or(Duration::ZERO, |sent| sent.elapsed())
    }

    pub(super) fn land(&self, counter: OrderCounter) {
        let mut under_way = self.under_way.lock();
        under_way.counters.remove(&counter);
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
        let under_way = self.under_way.lock();
        under_way.counters.first().copied().filter(|_| under_way.counters.len() == 1)
    }

    /// Whether groups are under way and nothing was answered for this long.
    pub(super) fn overdue(&self, limit: Duration) -> bool {
        let under_way = self.under_way.lock();
        !under_way.counters.is_empty() && under_way.since.elapsed() >= limit
    }

    /// Answers on this stream.
    pub(super) fn answers(&self) -> u64 {
        self.under_way.lock().answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_last_answer_and_only_while_something_is_under_way() {
        let (limit, flight) = (Duration::from_secs(10), GroupsInFlight::new(2));
        pass(60).await;
        assert!(!flight.overdue(limit));
        flight.start(OrderCounter(1));
        pass(6).await;
        flight.start(OrderCounter(2));
        assert!(!flight.has_room() && flight.only().is_none());
        flight.land(OrderCounter(1));
        flight.landed().await;
        pass(9).await;
        assert!(!flight.overdue(limit));
        pass(1).await;
        assert!(flight.overdue(limit));
        assert_eq!(flight.only(), Some(OrderCounter(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_waits_from_its_first_sending_until_it_is_decided() {
        let (one, other) = (OrderCounter(1), OrderCounter(2));
        let flight = GroupsInFlight::new(2);
        flight.start(one);
        pass(3).await;
        // Put off, and sent again; then the stream ends.
        flight.land(one);
        flight.start(one);
        flight.start(other);
        pass(4).await;
        let flight = flight.again(2);
        assert!(flight.has_room() && !flight.contains(one) && flight.answers() == 0);
        flight.start(one);
        flight.start(other);
        pass(5).await;
        assert_eq!([one, other].map(|counter| flight.decided(counter).as_secs()), [12, 9]);
    }
}
