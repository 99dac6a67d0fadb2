//! Pieces of snapshots on disk: chunks and deltas, each a file that is named by its content.
//!
//! A piece arrives whole, or block by block into a file under `partial/` that carries its block tree
//! after its bytes. When the last block is there, the file gets its name. Everything is verified when it
//! is written and again whenever it is read from disk; the base of a delta by what is made of it. What a
//! disk has damaged is deleted, reported, and never leaves this module. Nothing is synced to the
//! platter, because whatever a power loss destroys can be fetched again.
//!
//! All calls block and may come from many threads. One lock, the index's, guards which files there are:
//! they are created, opened, renamed and deleted under it. Bytes are read, written and hashed outside of
//! it, except when a restart finds a partial piece. May import `wire`, `run` and `snapshot`.
//!
//! ```text
//! block + tree ──> blocks ──> partial/ID ── last block ──> ID
//! snapshot     ──> writer ── cut into chunks ────────────> ID
//!                                                          │
//! neighbours, deltas, tensors <── blocks, reader <── verified again
//!                                                          │
//! retention: versions that are no longer kept ── deleted <─┘
//! ```

mod blocks;
pub(crate) mod buffer_pool;
mod index;
mod lru;
mod positioned_io;
mod reader;
mod retention;
mod writer;

pub use blocks::Written;
pub use reader::{SnapshotReadError, SnapshotReader};
pub use retention::SnapshotDraft;
pub use writer::{SnapshotCutter, SnapshotItem, write_snapshot};

use crate::snapshot::blocks::BlockTree;
use crate::snapshot::manifest::Piece;
use crate::wire::content_id::ContentId;
use bytes::Bytes;
use index::{MAX_RECENT_BYTES, StoreIndex};
use lru::Bounded;
use parking_lot::Mutex;
use positioned_io::is_lost;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of pieces.
pub struct ChunkStore {
    dir: PathBuf,
    drafts: AtomicU64,
    /// The directory is changed before what is remembered of it: a thread that panics in between
    /// leaves less remembered than there is.
    index: Mutex<StoreIndex>,
    /// Blocks written lately, so that passing them on needs neither the disk nor another hash.
    recent: Mutex<Recent>,
    rebuilding: Mutex<Rebuilding>,
}

/// Pieces whose trees are being made out of their bytes; bounded by the threads that do it.
type Rebuilding = BTreeMap<ContentId, Arc<Mutex<()>>>;
type Recent = Bounded<(ContentId, u32), Bytes>;

/// Why a piece cannot be had or kept.
#[derive(Debug, thiserror::Error)]
pub enum ChunkStoreError {
    /// The file on disk is not what its name says; it has been deleted.
    #[error(
        "{id} was damaged on disk and has been deleted; it will be fetched again (check this disk if it happens often)"
    )]
    Damaged {
        /// The piece whose file was deleted.
        id: ContentId,
    },
    /// The bytes offered for writing are not what the name says.
    #[error("the bytes received for {id} do not match its name")]
    Mismatch {
        /// The piece that the bytes were offered for.
        id: ContentId,
    },
    /// There is no such piece or block here.
    #[error("{id} is not in the store")]
    Missing {
        /// The piece that was asked for.
        id: ContentId,
    },
    /// A block cannot be verified: the tree of its piece has not been given to [`ChunkStore::begin`].
    #[error("the block tree of {id} is not known yet: ask for it with the next block")]
    NoTree {
        /// The piece whose tree is missing.
        id: ContentId,
    },
    /// More pieces have been begun than may be unfinished at once.
    #[error("{id} is not begun: {limit} other pieces are unfinished")]
    Crowded {
        /// The piece that found no room.
        id: ContentId,
        /// How many may be unfinished.
        limit: usize,
    },
    /// A delta that makes nothing of its base.
    #[error("delta {id}: {source}")]
    Delta {
        /// The delta that was to be applied.
        id: ContentId,
        /// What is wrong with it.
        source: crate::snapshot::delta::DeltaError,
    },
    /// The disk failed or is full.
    #[error("chunk store {path}: {source} (is the disk full, or the directory not writable?)")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A snapshot that cannot be described by a manifest.
    #[error(transparent)]
    Manifest(#[from] crate::snapshot::manifest::ManifestError),
}

impl ChunkStore {
    /// Opens or creates the store in `dir`, and removes drafts that a crash left behind. Partial pieces stay.
    pub fn open(dir: &Path) -> Result<Self, ChunkStoreError> {
        let store = Self {
            dir: dir.to_owned(),
            drafts: AtomicU64::new(0),
            index: Mutex::new(StoreIndex::new(dir)),
            recent: Mutex::new(Bounded::new(MAX_RECENT_BYTES)),
            rebuilding: Mutex::default(),
        };
        fs::create_dir_all(store.drafts_dir()).map_err(io_error(dir))?;
        fs::create_dir_all(dir.join(index::PARTIAL)).map_err(io_error(dir))?;
        for draft in fs::read_dir(store.drafts_dir()).map_err(io_error(dir))?.flatten() {
            fs::remove_file(draft.path()).map_err(io_error(&draft.path()))?;
        }
        Ok(store)
    }

    /// The verified bytes of a whole piece. A damaged file is deleted.
    pub fn read(&self, id: &ContentId) -> Result<Vec<u8>, ChunkStoreError> {
        let bytes = self.load(id)?;
        if id.matches(&bytes) { Ok(bytes) } else { Err(self.damaged(id)) }
    }

    /// The bytes that lie under the name of a whole piece, for those who verify what they make of
    /// them. A file that cannot be read is deleted.
    fn load(&self, id: &ContentId) -> Result<Vec<u8>, ChunkStoreError> {
        let path = self.path(id);
        fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ChunkStoreError::Missing { id: *id },
            _ if is_lost(&source) => self.damaged(id),
            _ => ChunkStoreError::Io { path, source },
        })
    }

    /// Deletes what the disk has damaged, and says so.
    fn damaged(&self, id: &ContentId) -> ChunkStoreError {
        match self.index.lock().delete_damaged(id) {
            Ok(()) => ChunkStoreError::Damaged { id: *id },
            Err(error) => error,
        }
    }

    /// Deletes a piece of which somebody found that it cannot be used: what is there under its name
    /// is not looked at.
    ///
    /// # Errors
    /// [`ChunkStoreError::Io`] when the file exists and cannot be deleted.
    pub fn delete(&self, id: &ContentId) -> Result<(), ChunkStoreError> {
        self.index.lock().delete(id).map(drop)
    }

    /// Keeps `bytes` under their name, which they must match. Readers see the whole piece or none.
    pub fn write(&self, id: &ContentId, bytes: &[u8]) -> Result<(), ChunkStoreError> {
        let (found, tree) = BlockTree::of(bytes);
        if found != *id {
            return Err(ChunkStoreError::Mismatch { id: *id });
        }
        self.place(tree, bytes)
    }

    /// Keeps `bytes` and names them.
    pub fn put(&self, bytes: &[u8]) -> Result<ContentId, ChunkStoreError> {
        let (id, tree) = BlockTree::of(bytes);
        self.place(tree, bytes)?;
        Ok(id)
    }

    /// Builds the chunk `target` of `length` bytes from the chunk `base` and a delta, and keeps it.
    ///
    /// # Errors
    /// [`ChunkStoreError::Missing`] and [`ChunkStoreError::Damaged`] name what is not here;
    /// [`ChunkStoreError::Delta`] and [`ChunkStoreError::Mismatch`] mean that this delta does not
    /// make that chunk, so it has to be fetched whole; [`ChunkStoreError::Io`].
    pub fn apply(
        &self,
        delta: &Piece,
        base: &ContentId,
        target: &ContentId,
        length: u64,
    ) -> Result<(), ChunkStoreError> {
        if length > crate::snapshot::blocks::MAX_PIECE_BYTES {
            return Err(ChunkStoreError::Mismatch { id: *target });
        }
        let (held, blob) = (self.load(base)?, self.read(&delta.id)?);
        let built = crate::snapshot::delta::apply(held, &blob, length as usize);
        let built = built.map_err(|source| ChunkStoreError::Delta { id: delta.id, source });
        let kept = built.and_then(|bytes| self.write(target, &bytes));
        if let Err(ChunkStoreError::Delta { .. } | ChunkStoreError::Mismatch { .. }) = &kept {
            // What the target's name confirms was made of the right bytes. Of anything else the
            // base may be the reason.
            self.read(base)?;
        }
        kept
    }

    /// Writes a file that has been hashed, unless it is there already.
    fn place(&self, tree: BlockTree, bytes: &[u8]) -> Result<(), ChunkStoreError> {
        let id = tree.id();
        let path = self.path(&id);
        // What the disk has damaged is replaced, not trusted.
        if !fs::read(&path).is_ok_and(|held| held == bytes) {
            let draft = self.drafts_dir().join(self.drafts.fetch_add(1, Ordering::Relaxed).to_string());
            let placed = fs::write(&draft, bytes).map_err(io_error(&draft));
            let placed = placed.and_then(|()| self.index.lock().adopt(&draft, &id));
            if placed.is_err() {
                // What has no name must not fill a disk that is full already.
                let _ = fs::remove_file(&draft);
            }
            placed?;
        }
        self.index.lock().remember_tree(Arc::new(tree));
        Ok(())
    }

    /// Where a whole piece lies: one directory for each first byte, so that none grows huge.
    fn path(&self, id: &ContentId) -> PathBuf {
        index::whole_path(&self.dir, id)
    }

    fn drafts_dir(&self) -> PathBuf {
        self.dir.join(index::DRAFTS)
    }
}

impl std::fmt::Debug for ChunkStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ChunkStoreError + use<> {
    let path = path.to_owned();
    move |source| ChunkStoreError::Io { path, source }
}

#[cfg(test)]
mod tests;
