//! The outbox: finished groups, on disk until the learner says what became of them.
//!
//! An entry leaves only when it is settled: accepted, or refused for good. When the outbox is full
//! nothing is dropped; the node stops generating instead ([`Outbox::has_room`]), since what is
//! already done is worth more than what might be done.
//!
//! A crash at any moment loses nothing that [`Outbox::push`] returned from.

mod database;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use echo_protocol::run::charter::RunId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::{ENVELOPE_BYTES, Signed};
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{MAX_GROUP_BYTES, TrajectoryGroup};
use tokio::sync::watch;

/// Most groups that wait.
pub const MAX_OUTBOX_GROUPS: u64 = 4096;
/// Most bytes of all waiting groups together.
pub const MAX_OUTBOX_BYTES: u64 = 256 << 20;
/// Longest entry: a signed group.
pub const MAX_ENTRY_BYTES: usize = MAX_GROUP_BYTES + ENVELOPE_BYTES;

/// Why the outbox can't do what it has to.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// It can hold no more.
    #[error(
        "the outbox is full ({groups} groups, {bytes} bytes): generating pauses until the learner takes some"
    )]
    Full {
        /// Groups that wait, of [`MAX_OUTBOX_GROUPS`] at most.
        groups: u64,
        /// Bytes of these groups, of [`MAX_OUTBOX_BYTES`] at most.
        bytes: u64,
    },
    /// A group longer than the learner takes.
    #[error("group {counter} has {len} bytes; the learner takes {MAX_ENTRY_BYTES}")]
    TooLarge {
        /// The order whose group it is.
        counter: OrderCounter,
        /// The length of its group.
        len: usize,
    },
    /// The database failed: a full disk, or damaged files.
    #[error("outbox {path}: {source} ({})", hint(.source))]
    Database {
        /// The directory of the outbox.
        path: PathBuf,
        /// What the database said.
        source: sled::Error,
    },
}

/// What to do when the database fails so.
fn hint(error: &sled::Error) -> &'static str {
    match error {
        sled::Error::Io(_) => "is the disk full, or the directory not writable?",
        _ => "move that directory away to start with an empty outbox; the groups in it are then not sent",
    }
}

/// The groups of one run that wait for the learner. Clones share the same outbox.
#[derive(Clone, Debug)]
pub struct Outbox {
    tree: sled::Tree,
    path: PathBuf,
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    groups: AtomicU64,
    bytes: AtomicU64,
    /// Says that something was pushed or settled.
    changed: watch::Sender<()>,
}

impl Outbox {
    /// Opens the outbox in `dir` for `run`, in which this node is `me`. Groups of other runs stay there
    /// untouched, and so do those that another key has signed. Blocks while the disk is read.
    ///
    /// # Errors
    /// [`OutboxError::Database`] when its files can't be read or written.
    pub fn open(dir: &Path, run: &RunId, me: &PublicKey) -> Result<Self, OutboxError> {
        let fail = |source| OutboxError::Database { path: dir.to_owned(), source };
        let db = database::open(dir).map_err(fail)?;
        let tree = db.open_tree(run.as_bytes()).map_err(fail)?;
        let others = set_aside(&db, &tree, run, me).map_err(fail)?;
        if others > 0 {
            tracing::warn!(
                "outbox {}: {others} groups were signed by another identity and are not sent; \
                 they stay here until a node with that identity uses this directory",
                dir.display()
            );
        }
        let (mut groups, mut bytes) = (0, 0);
        for entry in &tree {
            let (_, value) = entry.map_err(fail)?;
            groups += 1;
            bytes += value.len() as u64;
        }
        let (changed, _) = watch::channel(());
        let held = Held { groups: AtomicU64::new(groups), bytes: AtomicU64::new(bytes), changed };
        Ok(Self { tree, path: dir.to_owned(), held: Arc::new(held) })
    }

    /// Whether `groups` more groups fit, even the longest ones.
    pub fn has_room(&self, groups: usize) -> bool {
        let groups = groups as u64;
        self.len() + groups <= MAX_OUTBOX_GROUPS
            && self.bytes() + groups * MAX_ENTRY_BYTES as u64 <= MAX_OUTBOX_BYTES
    }

    /// Keeps finished groups: when this returns they are on disk. A group whose order already waits
    /// here is not replaced: one of them may be on its way.
    ///
    /// # Errors
    /// [`OutboxError::Full`] and [`OutboxError::TooLarge`], upon which none of the
    /// groups is kept; [`OutboxError::Database`].
    pub fn push(&self, groups: &[(OrderCounter, Vec<u8>)]) -> Result<(), OutboxError> {
        if let Some((counter, bytes)) = groups.iter().find(|(_, bytes)| bytes.len() > MAX_ENTRY_BYTES) {
            return Err(OutboxError::TooLarge { counter: *counter, len: bytes.len() });
        }
        let bytes: u64 = groups.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if self.len() + groups.len() as u64 > MAX_OUTBOX_GROUPS || self.bytes() + bytes > MAX_OUTBOX_BYTES {
            return Err(OutboxError::Full { groups: self.len(), bytes: self.bytes() });
        }
        for (counter, bytes) in groups {
            let expected_absent = None::<&[u8]>;
            let inserted = self.tree.compare_and_swap(key(*counter), expected_absent, Some(bytes.as_slice()));
            if inserted.map_err(|e| self.fail(e))?.is_ok() {
                self.held.groups.fetch_add(1, Ordering::Relaxed);
                self.held.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
        }
        self.tree.flush().map_err(|e| self.fail(e))?;
        self.held.changed.send_replace(());
        Ok(())
    }

    /// Forgets a group that the learner has accepted or refused for good.
    ///
    /// Not flushed at once: should a crash bring the entry back, it is sent again and
    /// answered as a duplicate.
    ///
    /// # Errors
    /// [`OutboxError::Database`]; the group may then be sent once more.
    pub fn settle(&self, counter: OrderCounter) -> Result<(), OutboxError> {
        if let Some(bytes) = self.tree.remove(key(counter)).map_err(|e| self.fail(e))? {
            self.held.groups.fetch_sub(1, Ordering::Relaxed);
            self.held.bytes.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
            self.held.changed.send_replace(());
        }
        Ok(())
    }

    /// Whether the order's group waits here.
    ///
    /// # Errors
    /// [`OutboxError::Database`] when the tree can't be read.
    pub fn contains(&self, counter: OrderCounter) -> Result<bool, OutboxError> {
        self.tree.contains_key(key(counter)).map_err(|e| self.fail(e))
    }

    /// The order's group, if it waits here.
    ///
    /// # Errors
    /// [`OutboxError::Database`] when the tree can't be read.
    pub fn get(&self, counter: OrderCounter) -> Result<Option<Vec<u8>>, OutboxError> {
        let group = self.tree.get(key(counter)).map_err(|e| self.fail(e))?;
        Ok(group.map(|bytes| bytes.to_vec()))
    }

    /// The waiting group of the lowest order for which `skip` is false.
    ///
    /// # Errors
    /// [`OutboxError::Database`] when the tree can't be read.
    pub fn first(
        &self,
        skip: impl Fn(OrderCounter) -> bool,
    ) -> Result<Option<(OrderCounter, Vec<u8>)>, OutboxError> {
        for entry in &self.tree {
            let (key, bytes) = entry.map_err(|e| self.fail(e))?;
            // Keys are written by this module alone; a key of another length cannot name an order.
            let Ok(counter) = <[u8; 8]>::try_from(key.as_ref()).map(u64::from_be_bytes).map(OrderCounter)
            else {
                continue;
            };
            if !skip(counter) {
                return Ok(Some((counter, bytes.to_vec())));
            }
        }
        Ok(None)
    }

    /// The number of groups that wait.
    pub fn len(&self) -> u64 {
        self.held.groups.load(Ordering::Relaxed)
    }

    /// Whether no group waits for the learner.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all waiting groups.
    pub fn bytes(&self) -> u64 {
        self.held.bytes.load(Ordering::Relaxed)
    }

    /// Wakes whenever something was pushed or settled.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.held.changed.subscribe()
    }

    fn fail(&self, source: sled::Error) -> OutboxError {
        OutboxError::Database { path: self.path.clone(), source }
    }
}

/// Moves the groups in `tree` that `me` has not signed to a tree of whoever has, since the learner takes them
/// for lies; then moves back what
/// `me` has signed. How many groups of others there were in `tree`.
fn set_aside(db: &sled::Db, tree: &sled::Tree, run: &RunId, me: &PublicKey) -> sled::Result<u64> {
    let aside = |key: &PublicKey| [run.as_bytes().as_slice(), key.as_bytes()].concat();
    let mut others = 0;
    for entry in tree {
        let (order, group) = entry?;
        // What is no signed group belongs to nobody, and the learner says so.
        let Ok(signed) = Signed::<TrajectoryGroup>::from_bytes(&group) else { continue };
        if signed.key() != *me {
            db.open_tree(aside(&signed.key()))?.insert(&order, group)?;
            tree.remove(order)?;
            others += 1;
        }
    }
    if db.tree_names().iter().any(|name| **name == aside(me)) {
        for entry in &db.open_tree(aside(me))? {
            let (order, group) = entry?;
            tree.insert(order, group)?;
        }
        // Only what is on disk in one tree leaves the other.
        db.flush()?;
        db.drop_tree(aside(me))?;
    }
    db.flush()?;
    Ok(others)
}

/// Big-endian, so that the database's order is the orders'.
fn key(counter: OrderCounter) -> [u8; 8] {
    counter.0.to_be_bytes()
}

#[cfg(test)]
mod tests;
