//! What is not known to be on disk.

use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;
use serde::{Deserialize, Serialize};

/// One change of the open leases.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Granted(Lease),
    /// No order of the lease is left.
    Closed {
        id: LeaseId,
        /// The first of its orders.
        first: OrderCounter,
    },
    /// A lease of the order ended without a delivery.
    Rested(OrderCounter, Rest),
    /// An order that rested was leased again, or is settled.
    Left(OrderCounter),
}

/// How an order rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Rest {
    /// Idle, but its last holder may still deliver it.
    Lapsed,
    /// Idle, and its last holder may not deliver it any more.
    GivenBack,
    /// Settled without a delivery: it is never leased again.
    GivenUp,
}

/// What has to be durable before the newest leases may leave the learner. Changes are numbered in
/// order, so that a flush can be told of while later ones come.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    pending: Vec<Change>,
    /// How many came before these, and are durable.
    durable: u64,
}

impl Changes {
    pub(super) fn push(&mut self, change: Change) {
        self.pending.push(change);
    }

    /// Those that are not known to be durable, oldest first.
    pub(super) fn pending(&self) -> &[Change] {
        &self.pending
    }

    /// The first orders of the leases that are closed, and not known to be so on disk.
    pub(super) fn closing(&self) -> impl Iterator<Item = OrderCounter> {
        self.pending.iter().filter_map(|change| match change {
            Change::Closed { first, .. } => Some(*first),
            _ => None,
        })
    }

    /// How many there were, ever.
    pub(super) fn count(&self) -> u64 {
        self.durable + self.pending.len() as u64
    }

    /// Notes that the first `upto` of all are durable.
    pub(super) fn flushed(&mut self, upto: u64) {
        let done = upto.min(self.count()).saturating_sub(self.durable);
        self.pending.drain(..done as usize);
        self.durable += done;
    }
}
