//! The durable replay buffer: what was acknowledged is trained on once, or dropped with a recorded reason.
//!
//! A group's way: [`ReplayBuffer::stage`] takes it into memory, [`ReplayBuffer::flush`] makes it durable
//! (only then is it acknowledged) and it **waits**, unless the filter drops it with the same write;
//! [`ReplayBuffer::form_batch`] drops what is too old as `stale`, writes the batch of an update into the
//! journal before it returns it, and the group is **batched**; [`ReplayBuffer::settle`] says that a
//! checkpoint made that update durable: the group is **trained** and its bytes are deleted. A learner
//! that restarts at checkpoint c replays the journal's batches c, c+1, … ([`ReplayBuffer::batch`]) before
//! it forms new ones. So no group is trained on twice in the policy that survives, and the same updates
//! see the same groups. What still waits when the run ends is dropped as `run_ended`.
//!
//! Waiting groups are bounded by bytes and by number; beyond that the oldest are dropped as
//! `overflow`. Batched groups are bounded by [`MAX_JOURNALED_BATCHES`]. A record of some forty
//! bytes stays for every order of the run, so that a replay is recognised and every acknowledged
//! group can be accounted for.
//!
//! Every change is one atomic write of the store, totals included. Memory mirrors what the store
//! shows, durable or not, and nothing is acknowledged or returned for training before the flush
//! that makes it durable.

mod batch;
mod entry;
mod forget;
mod index;
pub mod options;
mod plan;
mod recover;
mod totals;
mod watermark;

use std::collections::BTreeMap;
use std::sync::Arc;

use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::TrajectoryGroup;

use crate::intake::filter::Filter;
use crate::intake::group::Admitted;
use crate::intake::stale_tally::StaleTally;
use crate::storage::{ObjectStoreError, Store, Tree, seal, unseal};
use entry::GroupEntry;
use index::{GroupPlace, Index};
use plan::BufferPlan;

pub use crate::intake::outcome::{DropReason, OrderStatus};
pub use crate::intake::stored_group::StoredGroup;
pub use totals::{Count, Totals};
pub use watermark::Watermark;

/// Most groups that are staged at once; the next one is asked to come again.
pub const MAX_STAGED_GROUPS: usize = 4096;
/// Most bytes that are staged at once.
pub const MAX_STAGED_BYTES: u64 = 64 << 20;
/// Most groups in one batch.
pub const MAX_BATCH_GROUPS: usize = 1 << 14;
/// Most batches between the last settled checkpoint and the newest batch.
pub const MAX_JOURNALED_BATCHES: usize = 4096;

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// Most bytes of waiting groups, as stored. Beyond, the oldest are dropped as [`DropReason::Overflow`].
    pub max_bytes: u64,
    /// Most waiting groups; beyond, likewise.
    pub max_groups: usize,
    /// Orders, up to the newest, of which the buffer knows one by one what became of them. Of those before
    /// it keeps the sums.
    pub kept_orders: u64,
}

impl Default for BufferLimits {
    /// 4 GiB and 65,536 groups, and as many orders whose end is on record: some 9 MB of memory.
    fn default() -> Self {
        Self { max_bytes: 4 << 30, max_groups: 1 << 16, kept_orders: 1 << 16 }
    }
}

/// Why the buffer could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// The store failed. Nothing is lost that was acknowledged.
    #[error(transparent)]
    Store(#[from] ObjectStoreError),
    /// Too much is staged; flush first.
    #[error("{groups} groups of {bytes} bytes are staged and not yet durable: flush, then stage again")]
    StagingFull {
        /// Groups that wait for the flush, at most [`MAX_STAGED_GROUPS`].
        groups: usize,
        /// Encoded bytes of these groups, at most [`MAX_STAGED_BYTES`].
        bytes: u64,
    },
    /// The order was delivered before.
    #[error("order {0} has already been delivered")]
    Duplicate(OrderCounter),
    /// A group without a token.
    #[error("the group of order {0} has no token: admission must refuse it")]
    Empty(OrderCounter),
    /// A batch for an update that the journal has passed: training on it would leave the lineage.
    #[error(
        "a batch for update {asked} cannot be formed any more: {newest} is the newest update with a batch; \
         resume from a newer checkpoint"
    )]
    Passed {
        /// The update asked for.
        asked: PolicyVersion,
        /// The newest update that has or had a batch.
        newest: PolicyVersion,
    },
    /// A batch larger than [`MAX_BATCH_GROUPS`], or of nothing.
    #[error("a batch of {0} groups: use 1 to {MAX_BATCH_GROUPS}")]
    BatchSize(usize),
    /// Too many batches since the last checkpoint.
    #[error(
        "{MAX_JOURNALED_BATCHES} batches were formed since the last durable checkpoint: write checkpoints more often, \
         and settle them"
    )]
    JournalFull,
}

/// The durable replay buffer. One process owns it; its methods block for the time of a disk write.
pub struct ReplayBuffer {
    store: Arc<dyn Store>,
    limits: BufferLimits,
    filter: Filter,
    index: Index,
    totals: Totals,
    /// Every batch before this update is trained and deleted.
    settled: PolicyVersion,
    next_arrival: u64,
    staged: Vec<(GroupEntry, Vec<u8>)>,
    staged_bytes: u64,
    /// Staged too, and dropped when they arrive.
    filtered: Vec<(GroupEntry, DropReason)>,
    stale: StaleTally,
    /// Orders that arrived and are not known to be durable, with the write that holds each; none
    /// while it is staged.
    undurable: BTreeMap<OrderCounter, Option<Write>>,
    /// The newest write to the store.
    written: Write,
    /// The newest write that is durable.
    durable: Write,
}

/// A write to the store: they are numbered in order, and a flush makes all that came before it durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Write(u64);

/// Groups that are written and not yet durable ([`ReplayBuffer::write_staged`]).
#[must_use = "written groups are durable only after a flush"]
pub struct Unflushed {
    store: Arc<dyn Store>,
    upto: Write,
}

impl Unflushed {
    /// Waits for the disk. Whoever shares the buffer need not.
    ///
    /// # Errors
    /// When the store fails: then nothing of it may be acknowledged.
    pub fn flush(self) -> Result<Flushed, BufferError> {
        self.store.flush()?;
        Ok(Flushed(self.upto))
    }
}

/// Groups that are durable, which the buffer is to be told ([`ReplayBuffer::flushed`]).
#[must_use = "the buffer has to be told"]
pub struct Flushed(Write);

impl ReplayBuffer {
    /// Opens the buffer in `store`, as it was at the last flush or later. Damaged records are
    /// dropped with that reason.
    ///
    /// # Errors
    /// When the store fails.
    pub fn open(store: Arc<dyn Store>, limits: BufferLimits) -> Result<Self, BufferError> {
        recover::open(store, limits)
    }

    /// The same, and from now on what arrives has to pass `filter`.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Takes a group into memory. It is not durable, and must not
    /// be acknowledged, before [`ReplayBuffer::flush`].
    ///
    /// # Errors
    /// [`BufferError::Duplicate`] when its order is known, [`BufferError::StagingFull`] when a
    /// flush is due, or when the store fails.
    pub fn stage(&mut self, admitted: Admitted) -> Result<(), BufferError> {
        let counter = admitted.group.counter;
        if self.status(counter)?.is_some() {
            return Err(BufferError::Duplicate(counter));
        }
        let groups = self.staged.len() + self.filtered.len();
        if groups >= MAX_STAGED_GROUPS || self.staged_bytes >= MAX_STAGED_BYTES {
            return Err(BufferError::StagingFull { groups, bytes: self.staged_bytes });
        }
        let dropped = self.filter.reason(&admitted);
        let group =
            StoredGroup { arrival: self.next_arrival, group: admitted.group, correct: admitted.correct };
        let body = if dropped.is_none() { seal(&group)? } else { Vec::new() };
        let entry = GroupEntry::of(&group, body.len() as u64).ok_or(BufferError::Empty(counter))?;
        self.next_arrival += 1;
        self.staged_bytes += entry.bytes;
        self.undurable.insert(counter, None);
        match dropped {
            Some(reason) => self.filtered.push((entry, reason)),
            None => self.staged.push((entry, body)),
        }
        Ok(())
    }

    /// Makes everything staged so far durable; after `Ok` it may be acknowledged. Waiting groups
    /// beyond the limits are dropped, oldest first.
    ///
    /// # Errors
    /// When the store fails. Staged groups stay staged; the next flush tries again. Tell
    /// their senders to retry.
    pub fn flush(&mut self) -> Result<(), BufferError> {
        self.write_arrivals()?;
        self.sync()
    }

    /// The first half of [`ReplayBuffer::flush`]: writes what is staged. The second half is the
    /// disk's, and is waited for without the buffer; afterwards [`ReplayBuffer::flushed`] is due.
    ///
    /// # Errors
    /// As for [`ReplayBuffer::flush`], before anything is durable.
    pub fn write_staged(&mut self) -> Result<Unflushed, BufferError> {
        self.write_arrivals()?;
        Ok(Unflushed { store: self.store.clone(), upto: self.written })
    }

    /// Notes what is durable.
    pub fn flushed(&mut self, Flushed(upto): Flushed) {
        self.durable = self.durable.max(upto);
        self.undurable.retain(|_, write| write.is_none_or(|write| write > upto));
    }

    fn write_arrivals(&mut self) -> Result<(), BufferError> {
        if self.staged.is_empty() && self.filtered.is_empty() {
            return Ok(());
        }
        let plan = self.arrivals();
        if let Err(error) = self.write(&plan) {
            (self.staged, self.filtered) = (plan.arrive, plan.filtered);
            return Err(error);
        }
        self.staged_bytes = 0;
        let arrived = plan.arrive.iter().map(|(entry, _)| entry);
        let all = arrived.chain(plan.filtered.iter().map(|(entry, _)| entry));
        self.undurable.extend(all.map(|entry| (entry.counter, Some(self.written))));
        Ok(())
    }

    /// What became of an order; `None` when it never arrived.
    ///
    /// # Errors
    /// When the store fails.
    pub fn status(&self, counter: OrderCounter) -> Result<Option<OrderStatus>, BufferError> {
        if self.undurable.contains_key(&counter) {
            return Ok(Some(OrderStatus::Staged));
        }
        match self.index.place(counter) {
            Some(GroupPlace::Waiting) => return Ok(Some(OrderStatus::Waiting)),
            Some(GroupPlace::Batched(update)) => return Ok(Some(OrderStatus::Batched { update })),
            None => {}
        }
        let record = self.store.get(Tree::Final, &counter.0.to_be_bytes())?;
        // An unreadable record still says that the order was delivered.
        Ok(record.map(|record| entry::final_status(&record)))
    }

    /// Drops every waiting group, at the end of a run.
    ///
    /// # Errors
    /// When the store fails.
    pub fn drop_waiting(&mut self, reason: DropReason) -> Result<(), BufferError> {
        self.flush()?;
        let mut plan = BufferPlan::default();
        plan.drop.extend(self.index.oldest_first().map(|entry| (entry.clone(), reason)));
        self.commit(&plan)
    }

    /// What was acknowledged and what became of it. A group that was written but whose
    /// flush failed counts already.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Waiting groups that the batch at `version` could take. Staged groups do not count.
    pub fn ready(&self, version: PolicyVersion, staleness: &Staleness) -> usize {
        self.index.oldest_first().filter(|entry| entry.ready(version, staleness)).count()
    }

    /// Waiting groups that are not too old for the batch at `version`; those of a version that the learner
    /// has yet to come to count. Looks only at groups that are too old, which the next batch drops.
    pub fn fresh(&self, version: PolicyVersion, staleness: &Staleness) -> usize {
        let stale = self.index.oldest_first().take_while(|entry| entry.stale(version, staleness)).count();
        self.index.waiting() - stale
    }

    /// Counts a group that came too late to be taken in.
    pub fn came_too_late(&mut self, group: &TrajectoryGroup) {
        self.stale.note(group);
    }

    /// Groups that were too old for a batch, or when they came.
    pub fn stale(&self) -> &StaleTally {
        &self.stale
    }

    /// Bytes of the groups that wait, as stored.
    pub fn waiting_bytes(&self) -> u64 {
        self.index.waiting_bytes()
    }

    /// The plan that stores what is staged and drops what overflows.
    fn arrivals(&mut self) -> BufferPlan {
        let (arrive, filtered) = (std::mem::take(&mut self.staged), std::mem::take(&mut self.filtered));
        let mut plan = BufferPlan { arrive, filtered, ..BufferPlan::default() };
        let mut groups = self.index.waiting() + plan.arrive.len();
        let mut bytes = self.index.waiting_bytes() + self.staged_bytes;
        if groups <= self.limits.max_groups && bytes <= self.limits.max_bytes {
            return plan;
        }
        let arriving = plan.arrive.iter().map(|(entry, _)| entry);
        let mut all: Vec<&GroupEntry> = self.index.oldest_first().chain(arriving).collect();
        all.sort_by_key(|entry| entry.age());
        for entry in all {
            if groups <= self.limits.max_groups && bytes <= self.limits.max_bytes {
                break;
            }
            groups -= 1;
            bytes -= entry.bytes;
            plan.drop.push((entry.clone(), DropReason::Overflow));
        }
        plan
    }

    /// The bytes of `entry`'s group; `None` when they are missing or damaged.
    fn load(&self, entry: &GroupEntry) -> Result<Option<StoredGroup>, BufferError> {
        let record = self.store.get(Tree::Groups, &entry.counter.0.to_be_bytes())?;
        let group = record.and_then(|record| unseal::<StoredGroup>(&record));
        Ok(group.filter(|group| GroupEntry::of(group, entry.bytes).as_ref() == Some(entry)))
    }

    /// Writes a plan and makes it durable.
    fn commit(&mut self, plan: &BufferPlan) -> Result<(), BufferError> {
        if !plan.is_empty() {
            self.write(plan)?;
        }
        self.sync()
    }

    /// Writes a plan to the store, and mirrors it in memory.
    fn write(&mut self, plan: &BufferPlan) -> Result<(), BufferError> {
        let mut totals = self.totals.clone();
        let batch = plan.to_store(&self.index, &mut totals, self.settled, self.next_arrival)?;
        self.store.apply(&batch)?;
        self.written = Write(self.written.0 + 1);
        self.totals = totals;
        self.settled = self.settled.max(plan.settled.unwrap_or_default());
        plan.to_index(&mut self.index);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BufferError> {
        if self.durable < self.written {
            self.store.flush()?;
            self.flushed(Flushed(self.written));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
