//! What is kept, and what is deleted.
//!
//! A manifest that is kept protects what it names. Protection and deletion go through the store's
//! lock, so whoever keeps a manifest first and looks for its pieces then can rely on what it
//! finds. A publisher cannot name what it is about to write; it opens a [`SnapshotDraft`], during
//! which nothing is deleted.

use super::index::PARTIAL;
use super::{ChunkStore, ChunkStoreError, io_error};
use crate::snapshot::manifest::Manifest;
use crate::wire::content_id::ContentId;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

/// Files deleted while the lock is held once.
const BATCH: usize = 64;

/// A snapshot being written: until this is dropped, nothing is deleted from the store.
#[derive(Debug)]
pub struct SnapshotDraft<'a>(&'a ChunkStore);

impl ChunkStore {
    /// From now on nothing that `manifest` names is deleted, until it has been discarded as often
    /// as it was kept.
    pub fn keep(&self, manifest: &Arc<Manifest>) {
        self.index.lock().kept.push(manifest.clone());
    }

    /// Takes back one [`ChunkStore::keep`] and deletes what no other kept manifest names. Returns
    /// how many pieces were deleted.
    ///
    /// # Errors
    /// [`ChunkStoreError::Io`]; what could not be deleted stays until the next [`ChunkStore::sweep`].
    pub fn discard(&self, manifest: &Manifest) -> Result<usize, ChunkStoreError> {
        let mut index = self.index.lock();
        let Some(at) = index.kept.iter().position(|kept| **kept == *manifest) else { return Ok(0) };
        index.kept.remove(at);
        drop(index);
        self.delete_unkept(manifest.ids().collect())
    }

    /// Deletes every piece that no kept manifest names: what earlier processes left behind. Returns how many.
    ///
    /// # Errors
    /// [`ChunkStoreError::Io`] when a directory cannot be read or a file not be deleted.
    pub fn sweep(&self) -> Result<usize, ChunkStoreError> {
        let mut found = Vec::new();
        for folder in fs::read_dir(&self.dir).map_err(io_error(&self.dir))?.flatten() {
            // Whole pieces lie in folders named by a byte, partial ones in their own.
            let name = folder.file_name();
            if folder.path().is_dir() && (name.len() == 2 || name == PARTIAL) {
                let files = fs::read_dir(folder.path()).map_err(io_error(&folder.path()))?.flatten();
                found.extend(files.filter_map(|file| ContentId::from_hex(file.file_name().to_str()?)));
            }
        }
        self.delete_unkept(found)
    }

    /// Begins to write a snapshot that no manifest describes yet.
    pub fn draft(&self) -> SnapshotDraft<'_> {
        self.index.lock().drafts += 1;
        SnapshotDraft(self)
    }

    fn delete_unkept(&self, candidates: Vec<ContentId>) -> Result<usize, ChunkStoreError> {
        let mut deleted = 0;
        for batch in candidates.chunks(BATCH) {
            let mut index = self.index.lock();
            if index.drafts > 0 {
                index.postponed.extend(batch);
                continue;
            }
            let mut gone: BTreeSet<&ContentId> = batch.iter().collect();
            index.kept.iter().flat_map(|manifest| manifest.ids()).for_each(|id| {
                gone.remove(&id);
            });
            for id in gone {
                deleted += usize::from(index.delete(id)?);
            }
        }
        Ok(deleted)
    }
}

impl SnapshotDraft<'_> {
    /// The snapshot has been written: its manifest protects it from now on.
    pub fn keep(self, manifest: &Arc<Manifest>) {
        self.0.keep(manifest);
    }
}

impl Drop for SnapshotDraft<'_> {
    fn drop(&mut self) {
        let mut index = self.0.index.lock();
        index.drafts -= 1;
        if index.drafts > 0 {
            return;
        }
        let postponed = std::mem::take(&mut index.postponed);
        drop(index);
        if let Err(error) = self.0.delete_unkept(postponed) {
            tracing::warn!(%error, "old pieces of snapshots could not be deleted; the next start tries again");
        }
    }
}

#[cfg(test)]
mod tests;
