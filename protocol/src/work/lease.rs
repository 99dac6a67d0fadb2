//! Leases: the learner's signed permission to work.

use crate::run::charter::RunId;
use crate::run::epoch::Epoch;
use crate::wire::identity::PublicKey;
use crate::wire::signed::Signable;
use crate::work::order::OrderCounter;
use serde::{Deserialize, Serialize};

/// Most orders in one lease.
pub const MAX_LEASE_ORDERS: u32 = 1024;

/// A lease's number within its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub u64);

impl LeaseId {
    /// The first number of an epoch: its leases lie in one stretch of 2^32.
    #[must_use]
    pub fn first_of(epoch: Epoch) -> Self {
        Self(u64::from(epoch.0) << 32)
    }

    /// The epoch in which it was granted.
    #[must_use]
    pub fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }
}

/// An order and the lease that it came with.
///
/// Orders come in the order of their leases' numbers, and within a lease in their own. So what was leased to
/// a node after the last order that reached it has not reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeldOrder {
    /// The lease that the order is part of.
    pub lease: LeaseId,
    /// The order's number within its run.
    pub counter: OrderCounter,
}

/// Permission for one node to work on `count` orders from `first`, for `lifetime_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The run whose orders are leased.
    pub run: RunId,
    /// A number that grows; its upper half is the learner's epoch.
    pub id: LeaseId,
    /// Who may work on it.
    pub node: PublicKey,
    /// The lowest number among the leased orders.
    pub first: OrderCounter,
    /// How many orders, from `first` upwards.
    pub count: u32,
    /// Milliseconds after which the orders may be leased to somebody else. Each side counts them on a clock
    /// of its own, from when the lease left or came: two machines need not agree what time it is.
    pub lifetime_ms: u64,
}

/// Why a node gives orders back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReturnReason {
    /// They cannot be done: a prompt has no tokens or too many, or the task fails to judge its responses.
    Undoable,
    /// Their lease ran out before they were begun.
    Late,
    /// The node stops, or lost the policy that they were begun under.
    Dropped,
}

/// Most orders that are given back at once.
pub const MAX_RETURNED: usize = 256;
/// Longest reason in words, in bytes.
pub const MAX_RETURN_DETAIL: usize = 300;

/// Orders that their node will not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The orders, at most [`MAX_RETURNED`], each with its lease.
    pub orders: Vec<HeldOrder>,
    /// The category, which the learner counts.
    pub reason: ReturnReason,
    /// The same in words, for the operator; at most [`MAX_RETURN_DETAIL`].
    pub detail: String,
}

impl Signable for Lease {
    const CONTEXT: &'static str = "echo lease 2";
    // With a deadline by the learner's clock.
    const BEFORE: &'static [&'static str] = &["echo lease 1"];
    const MAX_BYTES: usize = 512;
}

impl Lease {
    /// Whether `counter` is one of the lease's orders.
    pub fn covers(&self, counter: OrderCounter) -> bool {
        counter >= self.first && counter.0 - self.first.0 < u64::from(self.count)
    }

    /// The leased orders in ascending order, at most [`MAX_LEASE_ORDERS`].
    pub fn orders(&self) -> impl Iterator<Item = OrderCounter> + use<> {
        let first = self.first.0;
        (0..u64::from(self.count.min(MAX_LEASE_ORDERS)))
            .map_while(move |i| first.checked_add(i))
            .map(OrderCounter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_know_their_epoch() {
        let first = LeaseId::first_of(Epoch(3));
        assert_eq!((first.epoch(), LeaseId(first.0 + 9).epoch()), (Epoch(3), Epoch(3)));
        assert!(
            first > LeaseId(LeaseId::first_of(Epoch(2)).0 + u64::from(u32::MAX))
                && LeaseId(42).epoch() == Epoch(0)
        );
    }
}
