//! Why a delivery is not covered by a lease, and whether that is a lie.

use super::{LeaseBook, MAX_LEASES_OF_ORDER};
use crate::reputation::Fault;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;

/// Why a delivery is not covered by a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseRefusal {
    /// No such lease is open.
    #[error("there is no open lease {0:?}")]
    NotFound(LeaseId),
    /// The lease is somebody else's.
    #[error("lease {0:?} belongs to another node")]
    OtherNode(LeaseId),
    /// The order is not one of the lease's.
    #[error("lease {lease:?} does not cover order {counter}")]
    OutsideRange {
        /// The lease that the node names.
        lease: LeaseId,
        /// The order that it delivers.
        counter: OrderCounter,
    },
    /// The lease ran out and the order was given to somebody else, or it was given back.
    #[error("order {0} is no longer held under this lease")]
    Expired(OrderCounter),
    /// The order has been delivered already, or was given up.
    #[error(
        "order {0} is not needed any more: its group is here already, perhaps from a node that was faster, or {MAX_LEASES_OF_ORDER} \
         leases of it brought nothing. Nothing is held against you"
    )]
    Delivered(OrderCounter),
}

impl LeaseRefusal {
    /// Whether an honest node may come to send such a delivery. Leases run out and orders go to
    /// others, which their holders need not know; but nobody comes by accident to a lease that was
    /// never given, or to somebody else's.
    pub fn fault(self, book: &LeaseBook) -> Fault {
        match self {
            Self::NotFound(id) if book.may_have_granted(id) => Fault::Innocent,
            Self::Expired(_) | Self::Delivered(_) => Fault::Innocent,
            Self::NotFound(_) | Self::OtherNode(_) | Self::OutsideRange { .. } => Fault::Lie,
        }
    }
}

impl LeaseBook {
    /// Whether it is not by its own doing that a group of `node` for this order comes to nothing. The learner
    /// has leased the order to another node too, because it was late or a batch waited for it; or the order
    /// is settled.
    pub fn is_excused(&self, node: &PublicKey, counter: OrderCounter) -> bool {
        let Some(slot) = self.orders.get(&counter) else { return counter < self.cursor };
        let is_first = slot.before.is_some_and(|(_, first)| first == *node);
        is_first || (slot.is_late && self.holder(slot.lease) == Some(node))
    }
}
