//! Leases: the learner's signed permission to work.

use crate::charter::RunId;
use crate::identity::PublicKey;
use crate::order::OrderCounter;
use crate::signed::Signable;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// Most orders in one lease.
pub const MAX_LEASE_ORDERS: u32 = 1024;

/// A lease's number within its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub u64);

/// The last order that has reached a node. Orders come in the order of their leases' numbers, and within a lease in their own; so what was leased
/// to the node behind this one has not reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LastOrder {
    /// The lease.
    pub lease: LeaseId,
    /// The order.
    pub counter: OrderCounter,
}

/// Permission for one node to work on `count` orders from `first` until `deadline`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// The lease's number.
    pub id: LeaseId,
    /// Who may work on it.
    pub node: PublicKey,
    /// The first order.
    pub first: OrderCounter,
    /// How many orders, from `first` upwards.
    pub count: u32,
    /// When the orders may be leased to somebody else.
    pub deadline: UnixMillis,
}

impl Signable for Lease {
    const CONTEXT: &'static str = "echo lease 1";
    const MAX_BYTES: usize = 512;
}

impl Lease {
    /// Whether `counter` is one of the lease's orders.
    pub fn covers(&self, counter: OrderCounter) -> bool {
        counter >= self.first && counter.0 - self.first.0 < u64::from(self.count)
    }

    /// The lease's orders.
    pub fn orders(&self) -> impl Iterator<Item = OrderCounter> + use<> {
        let first = self.first.0;
        (0..u64::from(self.count.min(MAX_LEASE_ORDERS)))
            .map_while(move |i| first.checked_add(i))
            .map(OrderCounter)
    }
}
