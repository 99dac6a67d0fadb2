//! Cutting a policy into chunks as it streams by.

use super::{ChunkStore, StoreError};
use crate::charter::RunId;
use crate::content::ContentId;
use crate::manifest::{FileEntry, Manifest, TensorEntry, TensorType};
use crate::version::PolicyVersion;

/// One piece of a snapshot.
#[derive(Clone, Debug)]
pub enum SnapshotItem {
    /// A companion file. All files come before all tensors.
    File {
        /// A plain file name.
        name: String,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// A tensor, row-major and little-endian.
    Tensor {
        /// Its name in the Hugging Face checkpoint.
        name: String,
        /// Element type.
        dtype: TensorType,
        /// Dimensions, outermost first.
        shape: Vec<u64>,
        /// Its elements.
        bytes: Vec<u8>,
    },
}

/// Writes a snapshot's chunks to `store` and describes them. Memory holds one item and one chunk at a time.
///
/// # Errors
/// [`StoreError::Io`] when the disk fails, [`StoreError::Manifest`] when the items exceed a limit or contradict themselves.
pub fn write_snapshot(
    store: &ChunkStore,
    run: RunId,
    version: PolicyVersion,
    chunk_bytes: u32,
    items: impl IntoIterator<Item = SnapshotItem>,
) -> Result<Manifest, StoreError> {
    let (files, tensors, chunks) = (Vec::new(), Vec::new(), Vec::new());
    let mut manifest = Manifest { run, version, files, tensors, total_bytes: 0, chunk_bytes, chunks };
    let mut pending = Vec::with_capacity(chunk_bytes as usize);
    for item in items {
        let offset = manifest.total_bytes;
        let bytes = match item {
            SnapshotItem::File { name, bytes } => {
                manifest.files.push(FileEntry { name, offset, length: bytes.len() as u64 });
                bytes
            }
            SnapshotItem::Tensor { name, dtype, shape, bytes } => {
                manifest.tensors.push(TensorEntry { name, dtype, shape, offset });
                bytes
            }
        };
        manifest.total_bytes += bytes.len() as u64;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let taken = rest.len().min(chunk_bytes as usize - pending.len());
            pending.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if pending.len() == chunk_bytes as usize {
                manifest.chunks.push(store_chunk(store, &pending)?);
                pending.clear();
            }
        }
    }
    if !pending.is_empty() {
        manifest.chunks.push(store_chunk(store, &pending)?);
    }
    manifest.validate()?;
    Ok(manifest)
}

fn store_chunk(store: &ChunkStore, bytes: &[u8]) -> Result<ContentId, StoreError> {
    let id = ContentId::of(bytes);
    store.write(&id, bytes)?;
    Ok(id)
}
