//! Forgetting what became of orders that nobody can ask for any more: else the store would grow with the
//! length of the run.

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::OrderCounter;
use serde::{Deserialize, Serialize};

use super::entry::{Final, counter};
use super::plan::HEAD;
use super::totals::{Count, Totals};
use super::{BufferError, DropReason, ReplayBuffer};
use crate::storage::{ObjectStoreError, Store, Tree, WriteBatch, seal, unseal};

/// Records that are forgotten at once. Whoever holds the buffer waits for it: some tens of milliseconds. A
/// run forgets those of the updates since its last checkpoint, and one that never forgot before comes to
/// its end after some checkpoints.
const MAX_AT_ONCE: usize = 1 << 14;

/// What became of the orders whose records are gone, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Forgotten {
    /// No order below has a record.
    below: OrderCounter,
    pub(super) totals: Totals,
    /// Every batch before this update is trained.
    pub(super) settled: PolicyVersion,
}

impl Forgotten {
    /// What `store` has forgotten.
    /// Fails when the store fails.
    pub(super) fn load(store: &dyn Store) -> Result<Self, ObjectStoreError> {
        // A damaged record costs nothing but the sums, which are asked for only where the
        // buffer's head is damaged, too.
        Ok(store.get(Tree::Forgotten, HEAD)?.and_then(|record| unseal(&record)).unwrap_or_default())
    }

    /// Adds what a record of [`Tree::Final`] says.
    pub(super) fn add(&mut self, record: &[u8]) {
        let end = unseal::<Final>(record);
        let trajectories = end.as_ref().map_or(0, |end| u64::from(end.trajectories));
        let count = Count { groups: 1, trajectories };
        match end.map_or(Err(DropReason::Damaged), |end| end.outcome) {
            Ok(update) => {
                self.settled = self.settled.max(update.next());
                self.totals.trained += count;
            }
            Err(reason) => self.totals.drop(reason, count),
        }
    }
}

impl ReplayBuffer {
    /// Forgets what became of orders below `floor`, some thousands at most, but for the newest
    /// [`BufferLimits::kept_orders`](super::BufferLimits::kept_orders). The lease book knows that
    /// they are settled
    /// ([`LeaseBook::settled_below`](crate::intake::leases::LeaseBook::settled_below)), so no node
    /// can ask for them. [`ReplayBuffer::totals`] stay.
    ///
    /// # Errors
    /// When the store fails: nothing is forgotten then.
    pub fn forget(&mut self, floor: OrderCounter) -> Result<(), BufferError> {
        let unsettled = self.index.lowest().into_iter().chain(self.undurable.keys().next().copied());
        let floor = OrderCounter(floor.0.saturating_sub(self.limits.kept_orders));
        let floor = unsettled.fold(floor, OrderCounter::min);
        let mut forgotten = Forgotten::load(&*self.store)?;
        if floor <= forgotten.below {
            return Ok(());
        }
        let (mut batch, mut seen) = (WriteBatch::default(), 0);
        let from = forgotten.below.0.to_be_bytes();
        let mut next = floor;
        self.store.visit_from(Tree::Final, &from, &mut |key, record| {
            let counter = counter(key).map_or(floor, OrderCounter);
            if counter >= floor || seen == MAX_AT_ONCE {
                next = counter.min(floor);
                return false;
            }
            forgotten.add(&record);
            batch.remove(Tree::Final, key);
            seen += 1;
            true
        })?;
        forgotten.below = next;
        batch.put(Tree::Forgotten, HEAD, seal(&forgotten)?);
        Ok(self.store.apply(&batch)?)
    }
}
