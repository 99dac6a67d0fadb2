//! What survives a crash: ordered key-value trees with atomic batches and an explicit flush.
//!
//! Everything durable of the intake ([`crate::intake::leases`], [`crate::intake::buffer`]) is written through
//! [`Store`], so that one file knows the database ([`SledStore`]) and tests can lose, refuse
//! and damage writes ([`MemoryStore`]).
//!
//! The contract: a batch is applied whole or not at all, also across a crash; batches survive in
//! the order in which they were applied; what was applied before a [`Store::flush`] that returned
//! `Ok` survives `kill -9` and power loss. Where a disk has lost parts of the files all the same, a
//! value may come back with a part missing: so every value is a record with a checksum, and its
//! reader books the damage.
//!
//! Beside the database, this folder has the run directory's paths and lock, and files that are
//! written as a whole, and files of the Hugging Face Hub ([`hub`]). It imports no other folder of this crate.
//!
//! ```text
//! lease book, replay buffer, record
//!     └─ seal (checksum) ─> WriteBatch ─> Store::apply ─> Store::flush: durable
//!                                           ├─ SledStore     DIR/database
//!                                           └─ MemoryStore   tests; loses, refuses, damages
//! charter, summary, tasks ─> atomic_file: draft, sync, rename
//! ```

pub mod atomic_file;
pub mod hub;
mod memory;
mod record;
pub mod run_dir;
mod sled_store;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use memory::MemoryStore;
pub(crate) use record::{seal, unseal};
pub use sled_store::SledStore;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 64;

/// Longest value, in bytes: an encoded group, its rewritten metadata and a checksum.
pub const MAX_VALUE_BYTES: usize = 16 << 20;

/// The trees of the learner's store. The number is part of the form on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tree {
    /// Order counter → a group's bytes.
    Groups = 1,
    /// Order counter → a group that waits for a batch.
    Waiting = 2,
    /// Policy version → the batch that was formed at it.
    Journal = 3,
    /// Order counter → what became of a group in the end.
    Final = 4,
    /// The buffer's totals and counters, under one key.
    BufferHead = 5,
    /// Lease number → an open lease.
    Leases = 6,
    /// The lease book's counters.
    LeaseHead = 7,
    /// Key → the record of a peer.
    Peers = 8,
    /// Network → its record.
    Networks = 9,
    /// How far the operator's journal was followed.
    RecordHead = 10,
    /// Key and place → one of a peer's newest receipts.
    Receipts = 11,
    /// Order counter → how an order rests that a lease covers, and that is not out.
    Resting = 12,
    /// What became of the orders that [`Tree::Final`] has no record of any more.
    Forgotten = 13,
}

/// Writes that happen together or not at all. The last write to a key wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    writes: BTreeMap<(Tree, Vec<u8>), Option<Vec<u8>>>,
}

impl WriteBatch {
    /// Sets `key` to `value`.
    pub fn put(&mut self, tree: Tree, key: &[u8], value: Vec<u8>) {
        self.writes.insert((tree, key.to_vec()), Some(value));
    }

    /// Removes `key` from `tree`; a key that is not there is no error.
    pub fn remove(&mut self, tree: Tree, key: &[u8]) {
        self.writes.insert((tree, key.to_vec()), None);
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The writes in key order; `None` removes.
    fn writes(&self) -> impl Iterator<Item = (Tree, &[u8], Option<&[u8]>)> {
        self.writes.iter().map(|((tree, key), value)| (*tree, key.as_slice(), value.as_deref()))
    }

    fn check_limits(&self) -> Result<(), ObjectStoreError> {
        for (_, key, value) in self.writes() {
            if key.len() > MAX_KEY_BYTES {
                return Err(ObjectStoreError::TooLarge {
                    what: "key",
                    bytes: key.len(),
                    limit: MAX_KEY_BYTES,
                });
            }
            let bytes = value.map_or(0, <[u8]>::len);
            if bytes > MAX_VALUE_BYTES {
                return Err(ObjectStoreError::TooLarge { what: "value", bytes, limit: MAX_VALUE_BYTES });
            }
        }
        Ok(())
    }
}

/// Why a store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectStoreError {
    /// No space is left.
    #[error("the disk of the store at {path} is full: free some space, then restart the learner")]
    Full {
        /// The store's directory; its disk is full.
        path: PathBuf,
    },
    /// Another process has the store open.
    #[error("the store at {path} is open in another process: stop that learner first")]
    InUse {
        /// The store's directory, which another process holds.
        path: PathBuf,
    },
    /// The files are not what was written.
    #[error(
        "the store at {path} is damaged ({reason}): move that directory away and start again; groups that were \
         acknowledged but not yet trained on are lost with it"
    )]
    Damaged {
        /// The store's directory, to be moved away or restored.
        path: PathBuf,
        /// What was found instead of what was written.
        reason: String,
    },
    /// The store needs a thread, and the system starts no more.
    #[error(
        "the store at {path} could not start a thread: too many threads are running ({limit}). Raise that limit and start the learner \
         again; nothing is lost"
    )]
    Threads {
        /// The store's directory; nothing is wrong with it.
        path: PathBuf,
        /// The limit on threads that stands in the way.
        limit: String,
    },
    /// The operating system failed.
    #[error(
        "the store at {path} failed: {reason}; check the disk and its permissions, then restart the learner"
    )]
    Io {
        /// The store's directory, also when a file in it failed.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A key or value above its limit.
    #[error("a {what} of {bytes} bytes exceeds the store's limit of {limit}")]
    TooLarge {
        /// `key` or `value`: which of the two is too long.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The most bytes that it may have.
        limit: usize,
    },
    /// A value that cannot be encoded.
    #[error("a record cannot be encoded for the store: {0}")]
    Encoding(String),
}

/// An ordered key-value store. All keys of one tree have the same length.
pub trait Store: Send + Sync {
    /// The value at `key`.
    ///
    /// # Errors
    /// When the store fails.
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, ObjectStoreError>;

    /// Shows the entries of `tree` in key order, beginning with the first that is not below `from`, for as
    /// long as `each` says true.
    ///
    /// # Errors
    /// When the store fails; some entries may have been shown by then.
    fn visit_from(
        &self,
        tree: Tree,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], Vec<u8>) -> bool,
    ) -> Result<(), ObjectStoreError>;

    /// Shows every entry of `tree`, in key order.
    ///
    /// # Errors
    /// As [`Store::visit_from`], over the whole tree.
    fn visit(&self, tree: Tree, each: &mut dyn FnMut(&[u8], Vec<u8>)) -> Result<(), ObjectStoreError> {
        self.visit_from(tree, &[], &mut |key, value| {
            each(key, value);
            true
        })
    }

    /// Applies `batch` at once. Readers see it immediately; it is durable after the next [`Store::flush`].
    ///
    /// # Errors
    /// When the store fails or a limit is exceeded; nothing of the batch is applied then.
    fn apply(&self, batch: &WriteBatch) -> Result<(), ObjectStoreError>;

    /// Makes every batch applied so far durable.
    ///
    /// # Errors
    /// When the store fails; then it is unknown how many of the batches since the last flush are durable.
    fn flush(&self) -> Result<(), ObjectStoreError>;
}

#[cfg(test)]
mod tests;
