//! Reading files and tensors back out of chunks.

use super::{ChunkStore, ChunkStoreError};
use crate::snapshot::manifest::{Manifest, TensorEntry};
use crate::wire::content_id::{ChunkIndex, ContentId};
use std::ops::Range;

/// Reads a complete snapshot; memory holds one chunk, and the files that were asked for.
#[derive(Debug)]
pub struct SnapshotReader<'a> {
    store: &'a ChunkStore,
    manifest: &'a Manifest,
    /// The chunk read last: neighbours in the snapshot share it.
    last: Option<(ChunkIndex, Vec<u8>)>,
}

/// A chunk that stands in the way of reading a snapshot.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct SnapshotReadError {
    /// The chunk's place in the snapshot, to fetch it again.
    pub index: ChunkIndex,
    /// What is wrong with it.
    pub source: ChunkStoreError,
}

impl<'a> SnapshotReader<'a> {
    /// A reader of the snapshot that `manifest`, already validated, describes.
    pub fn new(store: &'a ChunkStore, manifest: &'a Manifest) -> Self {
        Self { store, manifest, last: None }
    }

    /// The companion files whose names are `wanted`, with their content; nothing of the others is read.
    pub fn files(
        &mut self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, Vec<u8>)>, SnapshotReadError> {
        let files = self.manifest.files.iter().filter(|file| wanted(&file.name));
        files.map(|f| Ok((f.name.clone(), self.bytes(f.offset..f.offset + f.length)?))).collect()
    }

    /// Hands one tensor's bytes, row-major and little-endian, to `piece` in order, a chunk's at a time.
    ///
    /// # Errors
    /// [`SnapshotReadError`], and the first error of `piece`.
    pub fn tensor<E: From<SnapshotReadError>>(
        &mut self,
        entry: &TensorEntry,
        piece: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let length = entry.length().expect("a validated manifest's lengths do not overflow");
        self.pieces(entry.offset..entry.offset + length, piece)
    }

    fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>, SnapshotReadError> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        self.pieces::<SnapshotReadError>(range, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    fn pieces<E: From<SnapshotReadError>>(
        &mut self,
        range: Range<u64>,
        mut piece: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = range.start;
        while at < range.end {
            let index = ChunkIndex((at / u64::from(self.manifest.chunk_bytes)) as u32);
            let chunk = self.manifest.chunk_range(index);
            let end = range.end.min(chunk.end);
            piece(&self.chunk(index)?[(at - chunk.start) as usize..(end - chunk.start) as usize])?;
            at = end;
        }
        Ok(())
    }

    fn chunk(&mut self, index: ChunkIndex) -> Result<&[u8], SnapshotReadError> {
        if self.last.as_ref().is_none_or(|(held, _)| *held != index) {
            let id = self.manifest.chunk_id(index).unwrap_or(ContentId::from_bytes([0; 32]));
            let read = self.store.read(&id);
            let bytes = read.and_then(|bytes| {
                let range = self.manifest.chunk_range(index);
                // A chunk of the right name and the wrong length: the manifest lies about one of its chunks.
                if bytes.len() as u64 == range.end - range.start {
                    Ok(bytes)
                } else {
                    Err(ChunkStoreError::Mismatch { id })
                }
            });
            self.last = Some((index, bytes.map_err(|source| SnapshotReadError { index, source })?));
        }
        Ok(self.last.as_ref().map_or(&[], |(_, bytes)| bytes))
    }
}
