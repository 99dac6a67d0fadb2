//! The state of a lease book as data.

use std::collections::BTreeMap;

use echo_protocol::run::charter::RunId;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;
use serde::{Deserialize, Serialize};

use super::{Changes, LeaseBook, LeaseConfig, Open, Rest, Slot, State, ranges};

/// A lease with orders left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLease {
    /// The lease as it was granted.
    pub lease: Lease,
    /// Its orders that are neither delivered nor leased to somebody else.
    pub left: Vec<OrderCounter>,
    /// Those of them that are idle, and that its node may still deliver.
    #[serde(default)]
    pub lapsed: Vec<OrderCounter>,
    /// Those of them that are idle, and nobody's.
    #[serde(default)]
    pub given_back: Vec<OrderCounter>,
}

impl OpenLease {
    /// A lease whose orders are all out, as far as they are `left`.
    pub fn of(lease: Lease, left: impl IntoIterator<Item = OrderCounter>) -> Self {
        Self { lease, left: left.into_iter().collect(), lapsed: Vec::new(), given_back: Vec::new() }
    }
}

/// The state of a [`LeaseBook`].
///
/// After a restore every lease runs once more from its beginning: no clock says how much time has passed,
/// and a node that has gone loses its orders at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseSnapshot {
    /// The run that the book is of.
    pub run: RunId,
    /// The next order that was never leased.
    pub cursor: OrderCounter,
    /// The number of the next lease.
    pub next_lease: LeaseId,
    /// Open leases, in the order of their numbers.
    pub leases: Vec<OpenLease>,
}

/// More orders, and more leases, than any process hands out between two checkpoints.
const STRETCH: u64 = 1 << 32;

impl LeaseSnapshot {
    /// The book that goes on from this one when everything written since is lost: nobody knows what
    /// was leased meanwhile, so both counters go on in their next stretch of 2^32, where nothing
    /// was leased before. Orders that were open stay with their nodes, under new numbers, since a
    /// lease on disk says nothing of orders that are delivered.
    pub fn after_loss(&self) -> Self {
        let next_stretch = |counter: u64| (counter / STRETCH).saturating_add(1).saturating_mul(STRETCH);
        let mut next_lease = next_stretch(self.next_lease.0);
        let mut leases = Vec::new();
        for open in &self.leases {
            for (first, count) in ranges(&open.left) {
                let lease = Lease { id: LeaseId(next_lease), first, count, ..open.lease.clone() };
                next_lease = next_lease.saturating_add(1);
                let within = |counters: &[OrderCounter]| -> Vec<OrderCounter> {
                    counters.iter().copied().filter(|counter| lease.covers(*counter)).collect()
                };
                let (lapsed, given_back) = (within(&open.lapsed), within(&open.given_back));
                leases.push(OpenLease { left: lease.orders().collect(), lapsed, given_back, lease });
            }
        }
        let cursor = OrderCounter(next_stretch(self.cursor.0));
        Self { run: self.run, cursor, next_lease: LeaseId(next_lease), leases }
    }
}

/// A snapshot that is no state of a lease book.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is another run's.
    #[error("the lease book belongs to run {found}, not to {expected}: use that run's directory")]
    WrongRun {
        /// The run in the snapshot.
        found: RunId,
        /// The run asked for.
        expected: RunId,
    },
    /// Its parts contradict each other.
    #[error("the lease book contradicts itself ({0}): resume from another checkpoint")]
    Contradiction(String),
}

impl LeaseBook {
    /// The state, for a checkpoint.
    ///
    /// A learner that goes on after a crash takes the journal's state instead
    /// ([`LeaseJournal::load`](super::LeaseJournal::load)): leases may have left after the
    /// checkpoint. Where the journal is lost, see [`LeaseSnapshot::after_loss`].
    pub fn snapshot(&self) -> LeaseSnapshot {
        let open = |open: &Open| {
            let mut found = OpenLease::of(open.lease.clone(), []);
            for counter in open.lease.orders() {
                let Some(slot) = self.orders.get(&counter).filter(|slot| slot.lease == open.lease.id) else {
                    continue;
                };
                found.left.push(counter);
                match slot.state {
                    State::Idle(Rest::Lapsed) => found.lapsed.push(counter),
                    State::Idle(Rest::GivenBack) => found.given_back.push(counter),
                    State::Out | State::Idle(Rest::GivenUp) => {}
                }
            }
            found
        };
        LeaseSnapshot {
            run: self.config.run,
            cursor: self.cursor,
            next_lease: self.next_lease,
            leases: self.leases.values().map(open).collect(),
        }
    }

    /// The book in the state of `snapshot`, from `now` on.
    ///
    /// # Errors
    /// When the snapshot is another run's, or contradicts itself.
    pub fn restore(
        config: LeaseConfig,
        snapshot: LeaseSnapshot,
        now: UnixMillis,
    ) -> Result<Self, SnapshotError> {
        if snapshot.run != config.run {
            return Err(SnapshotError::WrongRun { found: snapshot.run, expected: config.run });
        }
        let contradiction =
            |what: &str, id: LeaseId| SnapshotError::Contradiction(format!("{what} of lease {}", id.0));
        let mut book = Self::new(config);
        book.cursor = snapshot.cursor;
        book.next_lease = snapshot.next_lease;
        for OpenLease { lease, left, lapsed, given_back } in snapshot.leases {
            let id = lease.id;
            let idle = |counters: &[OrderCounter], rest| {
                counters.iter().map(move |counter| (*counter, State::Idle(rest))).collect::<Vec<_>>()
            };
            let idle: BTreeMap<OrderCounter, State> =
                [idle(&lapsed, Rest::Lapsed), idle(&given_back, Rest::GivenBack)]
                    .into_iter()
                    .flatten()
                    .collect();
            if id >= snapshot.next_lease || book.leases.contains_key(&id) || lease.run != config.run {
                return Err(contradiction("the number or run", id));
            }
            let orders: BTreeMap<OrderCounter, Slot> = left
                .iter()
                .map(|counter| {
                    let (state, holders) = match idle.get(counter) {
                        Some(idle) => (*idle, vec![lease.node]),
                        None => (State::Out, Vec::new()),
                    };
                    let ended = holders.len() as u32;
                    let (failed, is_late, before) = (None, false, None);
                    (*counter, Slot { lease: id, state, ended, holders, failed, is_late, before })
                })
                .collect();
            let strange = |counter: &OrderCounter| {
                !lease.covers(*counter) || *counter >= snapshot.cursor || book.orders.contains_key(counter)
            };
            let resting = lapsed.len() + given_back.len();
            if orders.is_empty()
                || orders.len() != left.len()
                || idle.len() != resting
                || !idle.keys().all(|counter| orders.contains_key(counter))
                || orders.keys().any(strange)
            {
                return Err(contradiction("the orders", id));
            }
            if orders.len() > resting {
                *book.out_by_node.entry(lease.node).or_default() += (orders.len() - resting) as u64;
            }
            book.idle.extend(idle.keys());
            let deadline = now.plus(lease.lifetime_ms.min(config.lifetime_ms));
            book.deadlines.insert((deadline, id));
            book.by_node.insert((lease.node, id));
            book.orders.extend(orders);
            let (left, at, stranger_of) = (left.len() as u32, None, None);
            book.leases.insert(id, Open { left, deadline, lease, at, stranger_of });
        }
        book.changes = Changes::default();
        Ok(book)
    }
}
