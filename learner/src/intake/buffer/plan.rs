//! One atomic change: computed first, then written to the store, then mirrored in memory.

use std::collections::BTreeMap;

use echo_protocol::run::version::PolicyVersion;
use serde::{Deserialize, Serialize};

use super::entry::{Final, GroupEntry};
use super::index::{GroupPlace, Index};
use super::totals::{Count, Totals};
use crate::intake::outcome::DropReason;
use crate::storage::{ObjectStoreError, Tree, WriteBatch, seal};

/// The only key of [`Tree::BufferHead`].
pub(super) const HEAD: &[u8] = b"head";

/// The buffer's account on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BufferHeader {
    pub(super) totals: Totals,
    pub(super) settled: PolicyVersion,
    /// So that arrivals are counted on when no group is left to count them by.
    #[serde(default)]
    pub(super) next_arrival: u64,
}

/// What changes, in this order: groups arrive, groups are dropped, a batch is taken, batches are settled.
#[derive(Debug, Default)]
pub(super) struct BufferPlan {
    /// New groups and their bytes.
    pub(super) arrive: Vec<(GroupEntry, Vec<u8>)>,
    /// New groups that do not pass the filter.
    pub(super) filtered: Vec<(GroupEntry, DropReason)>,
    /// Groups that arrive, wait or are batched.
    pub(super) drop: Vec<(GroupEntry, DropReason)>,
    /// Waiting groups that become the batch of an update.
    pub(super) take: Option<(PolicyVersion, Vec<GroupEntry>)>,
    /// Every batch before this update is trained.
    pub(super) settled: Option<PolicyVersion>,
    /// Acknowledged groups of which the store knows nothing any more.
    pub(super) lost: Count,
}

impl BufferPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.arrive.is_empty()
            && self.filtered.is_empty()
            && self.drop.is_empty()
            && self.take.is_none()
            && self.settled.is_none()
            && self.lost == Count::default()
    }

    /// The writes, and the totals after them.
    pub(super) fn to_store(
        &self,
        index: &Index,
        totals: &mut Totals,
        settled: PolicyVersion,
        next_arrival: u64,
    ) -> Result<WriteBatch, ObjectStoreError> {
        let mut batch = WriteBatch::default();
        for (entry, body) in &self.arrive {
            batch.put(Tree::Groups, &entry.key(), body.clone());
            batch.put(Tree::Waiting, &entry.key(), seal(entry)?);
            totals.acknowledged += entry.count();
            totals.waiting += entry.count();
        }
        for (entry, reason) in &self.filtered {
            totals.acknowledged += entry.count();
            totals.drop(*reason, entry.count());
            end(&mut batch, entry, Err(*reason))?;
        }
        let mut shrunk: BTreeMap<PolicyVersion, Vec<GroupEntry>> = BTreeMap::new();
        for (entry, reason) in &self.drop {
            if let Some(GroupPlace::Batched(update)) = index.place(entry.counter) {
                let left = shrunk
                    .entry(update)
                    .or_insert_with(|| index.journal().get(&update).cloned().unwrap_or_default());
                left.retain(|other| other.counter != entry.counter);
                totals.batched -= entry.count();
            } else {
                totals.waiting -= entry.count();
            }
            totals.drop(*reason, entry.count());
            end(&mut batch, entry, Err(*reason))?;
        }
        for (update, entries) in shrunk {
            batch.put(Tree::Journal, &update.0.to_be_bytes(), seal(&entries)?);
        }
        if let Some((update, entries)) = &self.take {
            batch.put(Tree::Journal, &update.0.to_be_bytes(), seal(entries)?);
            for entry in entries {
                batch.remove(Tree::Waiting, &entry.key());
                totals.waiting -= entry.count();
                totals.batched += entry.count();
            }
        }
        if let Some(settled) = self.settled {
            for (update, entries) in index.journal().range(..settled) {
                batch.remove(Tree::Journal, &update.0.to_be_bytes());
                for entry in entries {
                    totals.batched -= entry.count();
                    totals.trained += entry.count();
                    end(&mut batch, entry, Ok(*update))?;
                }
            }
        }
        if self.lost != Count::default() {
            totals.acknowledged += self.lost;
            totals.drop(DropReason::Damaged, self.lost);
        }
        let settled = settled.max(self.settled.unwrap_or_default());
        batch.put(
            Tree::BufferHead,
            HEAD,
            seal(&BufferHeader { totals: totals.clone(), settled, next_arrival })?,
        );
        Ok(batch)
    }

    /// The same change in memory.
    pub(super) fn to_index(&self, index: &mut Index) {
        self.arrive.iter().for_each(|(entry, _)| index.add_waiting(entry.clone()));
        self.drop.iter().for_each(|(entry, _)| index.remove(entry));
        if let Some((update, entries)) = &self.take {
            index.add_batch(*update, entries.clone());
        }
        if let Some(settled) = self.settled {
            let updates: Vec<PolicyVersion> =
                index.journal().range(..settled).map(|(update, _)| *update).collect();
            updates.into_iter().for_each(|update| index.remove_batch(update));
        }
    }
}

/// Records the end of a group and deletes its bytes.
pub(super) fn end(
    batch: &mut WriteBatch,
    entry: &GroupEntry,
    outcome: Result<PolicyVersion, DropReason>,
) -> Result<(), ObjectStoreError> {
    batch.remove(Tree::Groups, &entry.key());
    batch.remove(Tree::Waiting, &entry.key());
    let end = Final { outcome, trajectories: entry.trajectories };
    batch.put(Tree::Final, &entry.key(), seal(&end)?);
    Ok(())
}
