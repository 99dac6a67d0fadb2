//! Who receives from this peer, and how far each has come.

use super::{CREDIT, Output};
use crate::chunk_set::ChunkSet;
use crate::content::ChunkIndex;
use crate::identity::PublicKey;
use crate::version::PolicyVersion;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
struct Child {
    version: PolicyVersion,
    /// What it has, or is on its way to it.
    have: ChunkSet,
    credit: u32,
}

/// The subscribed children, at most `limit`.
#[derive(Debug)]
pub(super) struct Children {
    limit: usize,
    by_key: BTreeMap<PublicKey, Child>,
}

impl Children {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, by_key: BTreeMap::new() }
    }

    /// Adds or replaces a subscription; false when every place is taken.
    pub(super) fn add(&mut self, key: PublicKey, version: PolicyVersion, have: ChunkSet) -> bool {
        if self.by_key.len() >= self.limit && !self.by_key.contains_key(&key) {
            return false;
        }
        self.by_key.insert(key, Child { version, have, credit: CREDIT });
        true
    }

    pub(super) fn remove(&mut self, key: &PublicKey) {
        self.by_key.remove(key);
    }

    /// A chunk has left towards this child: it may be given another.
    pub(super) fn returned(&mut self, key: &PublicKey) {
        if let Some(child) = self.by_key.get_mut(key) {
            child.credit = (child.credit + 1).min(CREDIT);
        }
    }

    /// Emits forwards while a child has credit and `missing(version, have)` finds a chunk for it.
    pub(super) fn feed(
        &mut self,
        missing: impl Fn(PolicyVersion, &ChunkSet) -> Option<ChunkIndex>,
        outputs: &mut VecDeque<Output>,
    ) {
        for (key, child) in &mut self.by_key {
            while child.credit > 0
                && let Some(index) = missing(child.version, &child.have)
            {
                child.credit -= 1;
                child.have.insert(index);
                outputs.push_back(Output::Forward { child: *key, version: child.version, index });
            }
        }
    }
}
