//! Writing an object piece by piece, so that it is never in memory as a whole.

use super::Part;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayloadMut, Result, UploadPart};

/// Bytes that are sent at once. S3 takes 10,000 of them for an object: 160 GB.
pub(super) const PIECE_BYTES: usize = 16 << 20;
/// Pieces that are under way at once.
const PIECES_AT_ONCE: usize = 4;
/// Bytes that a disk is given with one call. Many kernels take a processor from nobody who is
/// writing to a file before the call, or a page of the file, is through, and such a page may be as
/// large as the call.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// An object that is being written. It appears, durably, when [`ObjectWriter::finish`] returns.
pub(super) struct ObjectWriter {
    upload: Box<dyn MultipartUpload>,
    piece: PutPayloadMut,
    under_way: FuturesUnordered<UploadPart>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl ObjectWriter {
    pub(super) async fn begin(store: &dyn ObjectStore, at: &Path) -> Result<Self> {
        let upload = store.put_multipart(at).await?;
        let (piece, under_way) = (PutPayloadMut::new(), FuturesUnordered::new());
        Ok(Self { upload, piece, under_way, hasher: blake3::Hasher::new(), bytes: 0 })
    }

    pub(super) async fn push(&mut self, mut bytes: Bytes) -> Result<()> {
        self.hasher.update(&bytes);
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = PIECE_BYTES - self.piece.content_length();
            self.piece.push(bytes.split_to(bytes.len().min(room).min(BLOCK_BYTES)));
            if self.piece.content_length() == PIECE_BYTES {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        while self.under_way.len() >= PIECES_AT_ONCE {
            self.under_way.next().await.transpose()?;
        }
        let piece = std::mem::take(&mut self.piece);
        self.under_way.push(self.upload.put_part(piece.freeze()));
        Ok(())
    }

    pub(super) async fn finish(&mut self) -> Result<Part> {
        if !self.piece.is_empty() {
            self.send().await?;
        }
        while let Some(sent) = self.under_way.next().await {
            sent?;
        }
        self.upload.complete().await?;
        Ok(Part { bytes: self.bytes, blake3: self.hasher.finalize().to_hex().to_string() })
    }

    /// Frees what the store holds of an object that will not be finished.
    pub(super) async fn abandon(mut self) {
        // The store may be what has failed.
        if let Err(error) = self.upload.abort().await {
            tracing::debug!(%error, "an unfinished object stays in the store");
        }
    }
}
