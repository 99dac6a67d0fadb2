//! What is in the buffer, in memory: everything but the groups' bytes.

use std::collections::BTreeMap;

use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::OrderCounter;

use super::entry::GroupEntry;

/// Where a group is that is neither trained nor dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupPlace {
    /// Durable, and in no batch yet.
    Waiting,
    /// It is in the batch of this update.
    Batched(PolicyVersion),
}

#[derive(Debug, Default)]
pub(super) struct Index {
    waiting: BTreeMap<(PolicyVersion, OrderCounter), GroupEntry>,
    waiting_bytes: u64,
    journal: BTreeMap<PolicyVersion, Vec<GroupEntry>>,
    places: BTreeMap<OrderCounter, GroupPlace>,
}

impl Index {
    pub(super) fn place(&self, counter: OrderCounter) -> Option<GroupPlace> {
        self.places.get(&counter).copied()
    }

    /// The lowest order of all groups.
    pub(super) fn lowest(&self) -> Option<OrderCounter> {
        self.places.first_key_value().map(|(counter, _)| *counter)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Waiting groups by (oldest version, order).
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = &GroupEntry> {
        self.waiting.values()
    }

    /// The batches that are not settled.
    pub(super) fn journal(&self) -> &BTreeMap<PolicyVersion, Vec<GroupEntry>> {
        &self.journal
    }

    pub(super) fn add_waiting(&mut self, entry: GroupEntry) {
        self.places.insert(entry.counter, GroupPlace::Waiting);
        self.waiting_bytes += entry.bytes;
        self.waiting.insert(entry.age(), entry);
    }

    pub(super) fn add_batch(&mut self, update: PolicyVersion, entries: Vec<GroupEntry>) {
        for entry in &entries {
            self.remove(entry);
            self.places.insert(entry.counter, GroupPlace::Batched(update));
        }
        self.journal.insert(update, entries);
    }

    pub(super) fn remove_batch(&mut self, update: PolicyVersion) {
        for entry in self.journal.remove(&update).unwrap_or_default() {
            self.places.remove(&entry.counter);
        }
    }

    /// Removes a group that waits or is in a batch.
    pub(super) fn remove(&mut self, entry: &GroupEntry) {
        match self.places.remove(&entry.counter) {
            Some(GroupPlace::Waiting) => {
                self.waiting.remove(&entry.age());
                self.waiting_bytes -= entry.bytes;
            }
            Some(GroupPlace::Batched(update)) => {
                if let Some(batch) = self.journal.get_mut(&update) {
                    batch.retain(|other| other.counter != entry.counter);
                }
            }
            None => {}
        }
    }
}
