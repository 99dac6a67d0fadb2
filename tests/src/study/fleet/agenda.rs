//! Virtual time: what happens when, and a digest of what has happened.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Something that happens. Nodes have numbers; what belongs to an earlier visit of a node, or to an earlier
/// process of the learner, does not happen any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Event {
    /// A node has received and installed a version.
    Installed { node: usize, version: u64 },
    /// An update is made.
    Trained { life: u32 },
    /// A node has made an order.
    Done { node: usize, visit: u32 },
    /// A node asks for orders, unless it was called to do so earlier.
    Asks { node: usize, visit: u32, turn: u32 },
    /// Somebody leaves.
    Departure,
    /// The learner notices that a node is gone.
    Gone { node: usize, visit: u32 },
    /// A node comes back.
    Back { node: usize, visit: u32 },
    /// The learner looks at the fleet, unless it did so earlier.
    Look { turn: u32 },
    /// One of the scene's changes, by its place.
    Change(usize),
}

/// The events to come.
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    digest: DefaultHasher,
    /// Now, in milliseconds.
    pub(super) now: u64,
    /// How many have happened.
    pub(super) events: u64,
}

impl Agenda {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0, digest: DefaultHasher::new(), now: 0, events: 0 }
    }

    /// Has something happen after some milliseconds. What is due at one instant happens in this order.
    pub(super) fn after(&mut self, millis: u64, event: Event) {
        self.scheduled += 1;
        self.heap.push(Reverse((self.now.saturating_add(millis), self.scheduled, event)));
    }

    /// The next event, up to and including `limit`: it is then.
    pub(super) fn next(&mut self, limit: u64) -> Option<Event> {
        let Reverse((at, _, event)) = self.heap.pop()?;
        if at > limit {
            self.now = limit;
            return None;
        }
        self.now = at;
        self.events += 1;
        (at, event).hash(&mut self.digest);
        Some(event)
    }

    /// Notes what came of an event.
    pub(super) fn note(&mut self, what: u64) {
        self.digest.write_u64(what);
    }

    /// A digest of all that happened, and when.
    pub(super) fn digest(&self) -> u64 {
        self.digest.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times_and_then_of_their_scheduling() {
        let mut agenda = Agenda::new();
        for (millis, node) in [(5, 1), (3, 2), (5, 0)] {
            agenda.after(millis, Event::Asks { node, visit: 0, turn: 0 });
        }
        let mut order = Vec::new();
        while let Some(Event::Asks { node, .. }) = agenda.next(9) {
            order.push((agenda.now, node));
        }
        assert_eq!(order, [(3, 2), (5, 1), (5, 0)]);
        agenda.after(100, Event::Departure);
        assert_eq!((agenda.next(20), agenda.now, agenda.events), (None, 20, 3));
    }
}
