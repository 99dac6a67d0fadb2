//! Cutting a policy into chunks as it streams by.

use super::{ChunkStore, ChunkStoreError};
use crate::run::charter::RunId;
use crate::run::epoch::Epoch;
use crate::run::tensor_type::TensorType;
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::{DeltaEntry, FileEntry, Manifest, ManifestError, TensorEntry};
use crate::wire::content_id::ContentId;

/// One part of a snapshot.
#[derive(Clone, Debug)]
pub enum SnapshotItem {
    /// A companion file. All files come before all tensors.
    File {
        /// A plain file name.
        name: String,
        /// The file's bytes, as they go into the snapshot.
        bytes: Vec<u8>,
    },
    /// A tensor, row-major and little-endian.
    Tensor {
        /// Its name in the Hugging Face checkpoint.
        name: String,
        /// The number format of the elements.
        dtype: TensorType,
        /// Dimensions, outermost first; together they give the length.
        shape: Vec<u64>,
        /// The elements, row-major and little-endian.
        bytes: Vec<u8>,
    },
}

/// Cuts items into chunks and notes where they lie. Holds one unfinished chunk.
#[derive(Debug)]
pub struct SnapshotCutter {
    files: Vec<FileEntry>,
    tensors: Vec<TensorEntry>,
    total_bytes: u64,
    chunk_bytes: u32,
    pending: Vec<u8>,
}

impl SnapshotCutter {
    /// Cuts chunks of `chunk_bytes` bytes.
    pub fn new(chunk_bytes: u32) -> Self {
        Self { files: Vec::new(), tensors: Vec::new(), total_bytes: 0, chunk_bytes, pending: Vec::new() }
    }

    /// Adds an item, and hands each chunk that it completes to `chunk`.
    ///
    /// # Errors
    /// The first error of `chunk`.
    pub fn push<E>(
        &mut self,
        item: SnapshotItem,
        mut chunk: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let offset = self.total_bytes;
        let bytes = match item {
            SnapshotItem::File { name, bytes } => {
                self.files.push(FileEntry { name, offset, length: bytes.len() as u64 });
                bytes
            }
            SnapshotItem::Tensor { name, dtype, shape, bytes } => {
                self.tensors.push(TensorEntry { name, dtype, shape, offset });
                bytes
            }
        };
        self.total_bytes += bytes.len() as u64;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (taken, left) = rest.split_at(rest.len().min(self.chunk_bytes as usize - self.pending.len()));
            self.pending.extend_from_slice(taken);
            rest = left;
            if self.pending.len() == self.chunk_bytes as usize {
                chunk(std::mem::replace(&mut self.pending, Vec::with_capacity(self.chunk_bytes as usize)))?;
            }
        }
        Ok(())
    }

    /// The last, shorter chunk; empty when the snapshot ends with a whole one. Call it once,
    /// after the last item.
    pub fn last_chunk(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Describes what was cut: `chunks` are the names of all chunks in order; `base` and `deltas`
    /// as in the manifest.
    ///
    /// # Errors
    /// [`ManifestError`] when the items exceed a limit or contradict themselves.
    pub fn manifest(
        self,
        run: RunId,
        epoch: Epoch,
        version: PolicyVersion,
        chunks: Vec<ContentId>,
        base: Option<PolicyVersion>,
        deltas: Vec<Option<DeltaEntry>>,
    ) -> Result<Manifest, ManifestError> {
        let Self { files, tensors, total_bytes, chunk_bytes, .. } = self;
        let manifest =
            Manifest { run, epoch, version, base, files, tensors, total_bytes, chunk_bytes, chunks, deltas };
        manifest.validate()?;
        Ok(manifest)
    }
}

/// Writes a snapshot of the first epoch, without deltas, to `store` and describes it. Memory holds one item
/// and one chunk at a time. The caller keeps the manifest ([`ChunkStore::keep`]).
///
/// # Errors
/// [`ChunkStoreError::Io`] when the disk fails, [`ChunkStoreError::Manifest`] when the items exceed
/// a limit or contradict themselves.
pub fn write_snapshot(
    store: &ChunkStore,
    run: RunId,
    version: PolicyVersion,
    chunk_bytes: u32,
    items: impl IntoIterator<Item = SnapshotItem>,
) -> Result<Manifest, ChunkStoreError> {
    let mut cutter = SnapshotCutter::new(chunk_bytes);
    let mut chunks = Vec::new();
    for item in items {
        cutter.push(item, |chunk| {
            chunks.push(store.put(&chunk)?);
            Ok::<_, ChunkStoreError>(())
        })?;
    }
    let last = cutter.last_chunk();
    if !last.is_empty() {
        chunks.push(store.put(&last)?);
    }
    Ok(cutter.manifest(run, Epoch::default(), version, chunks, None, Vec::new())?)
}
