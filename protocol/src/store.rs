//! Chunks of snapshots on disk, each a file named by its content.
//!
//! A chunk is verified when it is written and again whenever it is read: what a disk has damaged is deleted, reported, and never
//! leaves this module as a chunk. Nothing is synced to the platter: whatever a power loss destroys can be fetched again.

mod reader;
mod writer;

pub use reader::SnapshotReader;
pub use writer::{SnapshotItem, write_snapshot};

use crate::chunk_set::ChunkSet;
use crate::content::{ChunkIndex, ContentId};
use crate::manifest::Manifest;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of chunks.
#[derive(Debug)]
pub struct ChunkStore {
    dir: PathBuf,
    drafts: AtomicU64,
}

/// Why a chunk cannot be had or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file on disk is not what its name says; it has been deleted.
    #[error(
        "chunk {id} was damaged on disk and has been deleted; it will be fetched again (check this disk if it happens often)"
    )]
    Damaged {
        /// The chunk.
        id: ContentId,
    },
    /// The bytes offered for writing are not what the name says.
    #[error("the bytes received for chunk {id} do not match its name")]
    Mismatch {
        /// The chunk.
        id: ContentId,
    },
    /// There is no such chunk here.
    #[error("chunk {id} is not in the store")]
    Missing {
        /// The chunk.
        id: ContentId,
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
    Manifest(#[from] crate::manifest::ManifestError),
}

impl ChunkStore {
    /// Opens or creates the store in `dir`, and removes drafts that a crash left behind.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let store = Self { dir: dir.to_owned(), drafts: AtomicU64::new(0) };
        fs::create_dir_all(store.drafts_dir()).map_err(io_error(dir))?;
        for draft in fs::read_dir(store.drafts_dir()).map_err(io_error(dir))?.flatten() {
            fs::remove_file(draft.path()).map_err(io_error(&draft.path()))?;
        }
        Ok(store)
    }

    /// The verified bytes of a chunk. A damaged file is deleted.
    pub fn read(&self, id: &ContentId) -> Result<Vec<u8>, StoreError> {
        let path = self.path(id);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::Missing { id: *id },
            _ => StoreError::Io { path: path.clone(), source },
        })?;
        if id.matches(&bytes) {
            return Ok(bytes);
        }
        fs::remove_file(&path).map_err(io_error(&path))?;
        Err(StoreError::Damaged { id: *id })
    }

    /// Keeps `bytes` under their name, which they must match. Readers see the whole chunk or none.
    pub fn write(&self, id: &ContentId, bytes: &[u8]) -> Result<(), StoreError> {
        if !id.matches(bytes) {
            return Err(StoreError::Mismatch { id: *id });
        }
        let path = self.path(id);
        // What the disk has damaged is replaced, not trusted; reading deletes it.
        if path.exists() && self.read(id).is_ok() {
            return Ok(());
        }
        let draft = self.drafts_dir().join(self.drafts.fetch_add(1, Ordering::Relaxed).to_string());
        let parent = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&draft, bytes))
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(io_error(&path))
    }

    /// Which chunks of a snapshot have a file here. They are verified when they are read.
    pub fn present(&self, manifest: &Manifest) -> ChunkSet {
        let mut set = ChunkSet::default();
        let held = manifest.chunks.iter().zip(0..).filter(|(id, _)| self.path(id).exists());
        held.for_each(|(_, index)| set.insert(ChunkIndex(index)));
        set
    }

    /// Deletes every chunk that none of `manifests` names; returns how many.
    pub fn retain<'a>(&self, manifests: impl IntoIterator<Item = &'a Manifest>) -> Result<usize, StoreError> {
        let kept: BTreeSet<PathBuf> =
            manifests.into_iter().flat_map(|m| &m.chunks).map(|id| self.path(id)).collect();
        let mut deleted = 0;
        for shelf in fs::read_dir(&self.dir).map_err(io_error(&self.dir))?.flatten() {
            if shelf.path() == self.drafts_dir() || !shelf.path().is_dir() {
                continue;
            }
            for file in fs::read_dir(shelf.path()).map_err(io_error(&shelf.path()))?.flatten() {
                if !kept.contains(&file.path()) {
                    fs::remove_file(file.path()).map_err(io_error(&file.path()))?;
                    deleted += 1;
                }
            }
        }
        Ok(deleted)
    }

    /// Where a chunk lies: one directory for each first byte, so that none grows huge.
    fn path(&self, id: &ContentId) -> PathBuf {
        let name = id.to_string();
        self.dir.join(&name[..2]).join(name)
    }

    fn drafts_dir(&self) -> PathBuf {
        self.dir.join("drafts")
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, source }
}

#[cfg(test)]
mod tests;
