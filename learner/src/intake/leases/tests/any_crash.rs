//! Random operations with crashes, checked against what left the learner.

use proptest::prelude::*;

use super::*;
use crate::storage::{Store, Tree};

#[derive(Clone, Debug)]
enum Op {
    Grant { node: u8, orders: u32, room: u64 },
    Deliver { which: usize },
    Wait { millis: u64 },
    Gone { node: u8 },
    GiveBack { which: usize },
    Crash { survivors: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3u8, 0..20u32, 0..20u64).prop_map(|(node, orders, room)| Op::Grant { node, orders, room }),
        6 => any::<usize>().prop_map(|which| Op::Deliver { which }),
        1 => (0..1_500u64).prop_map(|millis| Op::Wait { millis }),
        1 => (0..3u8).prop_map(|node| Op::Gone { node }),
        1 => any::<usize>().prop_map(|which| Op::GiveBack { which }),
        1 => (0..3usize).prop_map(|survivors| Op::Crash { survivors }),
    ]
}

/// A book on a store that may crash, and what an outside observer remembers.
struct World {
    store: Arc<MemoryStore>,
    journal: LeaseJournal,
    book: LeaseBook,
    now: u64,
    /// What left the learner: every lease, in order.
    sent: Vec<Lease>,
    /// What the buffer has.
    delivered: BTreeSet<u64>,
    given_up: BTreeSet<OrderCounter>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        Self {
            journal: LeaseJournal::new(store.clone()),
            store,
            book: LeaseBook::new(config()),
            now: 0,
            sent: Vec::new(),
            delivered: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Grant { node: n, orders, room } => self.grant(node(n), orders, room)?,
            Op::Deliver { which } => self.deliver(which)?,
            Op::Wait { millis } => self.now += millis,
            Op::Gone { node: n } => {
                self.book.node_gone(&node(n));
                prop_assert_eq!(self.book.out_with(&node(n)), 0);
            }
            Op::GiveBack { which } => {
                if let Some((holder, _, counter)) = self.any_sent(which) {
                    self.book.give_back(&holder, counter);
                }
            }
            Op::Crash { survivors } => self.crash(survivors),
        }
        Ok(())
    }

    fn grant(&mut self, to: PublicKey, orders: u32, room: u64) -> Result<(), TestCaseError> {
        let leases = self.book.grant(at(self.now), to, orders, room);
        let granted: u64 = leases.iter().map(|lease| u64::from(lease.count)).sum();
        prop_assert!(granted <= room.min(u64::from(orders)) && self.book.out_with(&to) <= 100);
        self.journal.save(&mut self.book).unwrap();
        for lease in leases {
            let settled = |counter: OrderCounter| {
                self.delivered.contains(&counter.0) || self.given_up.contains(&counter)
            };
            prop_assert!(!lease.orders().any(settled));
            for old in self.sent.iter().filter(|old| old.node != lease.node) {
                // Leased to two nodes at once only when the first gave it back or was gone.
                let both = lease.orders().find(|counter| {
                    old.covers(*counter) && self.book.check(&old.node, old.id, *counter).is_ok()
                });
                prop_assert_eq!(both, None);
            }
            prop_assert!(self.sent.iter().all(|old| old.id != lease.id));
            self.sent.push(lease);
        }
        Ok(())
    }

    /// One of the orders that ever left, with its node and lease.
    fn any_sent(&self, which: usize) -> Option<(PublicKey, LeaseId, OrderCounter)> {
        let of_lease = |lease: &Lease| {
            let (node, id) = (lease.node, lease.id);
            lease.orders().map(move |counter| (node, id, counter)).collect::<Vec<_>>()
        };
        let orders: Vec<_> = self.sent.iter().flat_map(of_lease).collect();
        (!orders.is_empty()).then(|| orders[which % orders.len()])
    }

    fn deliver(&mut self, which: usize) -> Result<(), TestCaseError> {
        let Some((holder, lease, counter)) = self.any_sent(which) else { return Ok(()) };
        let allowed = self.book.check(&holder, lease, counter);
        if self.delivered.contains(&counter.0) {
            prop_assert_eq!(allowed, Err(LeaseRefusal::Delivered(counter)));
        } else if allowed.is_ok() {
            self.delivered.insert(counter.0);
            self.book.delivered(counter);
        }
        Ok(())
    }

    fn crash(&mut self, survivors: usize) {
        self.store.crash(survivors);
        self.book = match load(&self.store, &self.delivered).unwrap() {
            Some(snapshot) => LeaseBook::restore(config(), snapshot, at(self.now)).unwrap(),
            None => LeaseBook::new(config()),
        };
        // What the disk does not know to be given up is leased again.
        let left: BTreeSet<_> = self.book.snapshot().leases.into_iter().flat_map(|open| open.left).collect();
        self.given_up.retain(|counter| !left.contains(counter));
        self.book.expire(at(self.now));
    }

    /// Every order that ever left is delivered, given up, out or idle; and the cursor is after all of them.
    fn check(&mut self) -> Result<(), TestCaseError> {
        self.given_up.extend(self.book.take_given_up());
        let ever: BTreeSet<u64> = self.sent.iter().flat_map(Lease::orders).map(|counter| counter.0).collect();
        prop_assert_eq!(ever.len() as u64, self.book.cursor().0);
        let settled = (self.delivered.len() + self.given_up.len()) as u64;
        prop_assert_eq!(ever.len() as u64, self.book.outstanding() + self.book.idle() + settled);
        let by_node: u64 = (0..3).map(|n| self.book.out_with(&node(n))).sum();
        prop_assert_eq!(by_node, self.book.outstanding());
        let mut records = 0;
        self.store.visit(Tree::Leases, &mut |_, _| records += 1).unwrap();
        prop_assert!(records <= self.sent.len());
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_order_is_fresh_twice_nor_leased_after_delivery_through_any_crash(
        ops in proptest::collection::vec(op(), 1..60)
    ) {
        let mut world = World::new();
        for op in ops {
            world.apply(op)?;
            world.check()?;
        }
    }
}
