//! One version on its way in, or here.

use crate::chunk_set::ChunkSet;
use crate::content::ChunkIndex;
use crate::manifest::Manifest;
use std::sync::Arc;

/// A manifest and which of its chunks are verified and on disk.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) manifest: Arc<Manifest>,
    pub(super) have: ChunkSet,
}

impl Transfer {
    /// A transfer that starts with `have`, of which indices beyond the manifest are dropped.
    pub(super) fn new(manifest: Arc<Manifest>, have: ChunkSet) -> Self {
        let mut kept = ChunkSet::default();
        (0..manifest.chunks.len() as u32)
            .map(ChunkIndex)
            .filter(|i| have.contains(*i))
            .for_each(|i| kept.insert(i));
        Self { manifest, have: kept }
    }

    pub(super) fn chunks(&self) -> u32 {
        self.manifest.chunks.len() as u32
    }

    pub(super) fn is_complete(&self) -> bool {
        self.have.len() == self.chunks()
    }

    /// Notes a stored chunk; false when it is no news or no chunk of this snapshot.
    pub(super) fn store(&mut self, index: ChunkIndex) -> bool {
        let news = index.0 < self.chunks() && !self.have.contains(index);
        if news {
            self.have.insert(index);
        }
        news
    }
}
