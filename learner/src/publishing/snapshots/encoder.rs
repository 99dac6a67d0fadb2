//! Chunks as they come from the cutter, stored and expressed against older ones on all threads.

use super::row::PublicationRow;
use echo_protocol::snapshot::delta;
use echo_protocol::snapshot::delta::{DeltaKind, Width};
use echo_protocol::snapshot::manifest::{DeltaEntry, Manifest};
use echo_protocol::store::{ChunkStore, ChunkStoreError};
use echo_protocol::wire::content_id::{ChunkIndex, ContentId};
use rayon::prelude::*;
use tokio::time::Instant;

/// Stores chunks and makes their deltas, as many at a time as rayon's pool has threads.
pub(super) struct ChunkEncoder<'a> {
    store: &'a ChunkStore,
    base: Option<&'a Manifest>,
    width: Width,
    waiting: Vec<Vec<u8>>,
    encoded: Encoded,
}

/// What came of the chunks.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) chunks: Vec<ContentId>,
    /// Empty without a base.
    pub(super) deltas: Vec<Option<DeltaEntry>>,
    /// Bytes, counts and seconds of encoding.
    pub(super) row: PublicationRow,
}

/// One chunk that is in the store, and how a node may get it.
struct Chunk {
    id: ContentId,
    length: u64,
    form: Form,
    seconds: f64,
}

/// How a node that holds the base gets the chunk.
enum Form {
    Unchanged,
    Delta(DeltaKind, DeltaEntry),
    Full,
}

impl<'a> ChunkEncoder<'a> {
    pub(super) fn new(store: &'a ChunkStore, base: Option<&'a Manifest>, width: Width) -> Self {
        Self { store, base, width, waiting: Vec::new(), encoded: Encoded::default() }
    }

    /// Takes the next chunk; an empty one is left out.
    pub(super) fn push(&mut self, chunk: Vec<u8>) -> Result<(), ChunkStoreError> {
        if !chunk.is_empty() {
            self.waiting.push(chunk);
        }
        if self.waiting.len() < rayon::current_num_threads() { Ok(()) } else { self.flush() }
    }

    pub(super) fn finish(mut self) -> Result<Encoded, ChunkStoreError> {
        self.flush()?;
        Ok(self.encoded)
    }

    fn flush(&mut self) -> Result<(), ChunkStoreError> {
        let first = self.encoded.chunks.len() as u32;
        let waiting = std::mem::take(&mut self.waiting);
        let chunks = waiting.into_par_iter().zip(first..first + u32::MAX / 2);
        let chunks = chunks.map(|(bytes, index)| self.encode(ChunkIndex(index), &bytes));
        for chunk in chunks.collect::<Result<Vec<_>, _>>()? {
            self.encoded.add(chunk, self.base.is_some());
        }
        Ok(())
    }

    fn encode(&self, index: ChunkIndex, bytes: &[u8]) -> Result<Chunk, ChunkStoreError> {
        let since = Instant::now();
        let id = self.store.put(bytes)?;
        let form = match self.base.and_then(|base| base.chunk_id(index)) {
            Some(old) if old == id => Form::Unchanged,
            Some(old) => self.delta(old, bytes)?,
            None => Form::Full,
        };
        Ok(Chunk { id, length: bytes.len() as u64, form, seconds: since.elapsed().as_secs_f64() })
    }

    fn delta(&self, base: ContentId, bytes: &[u8]) -> Result<Form, ChunkStoreError> {
        let old = match self.store.read(&base) {
            Ok(old) => old,
            // Nodes may still have it, but what is not here cannot be encoded against.
            Err(error @ (ChunkStoreError::Damaged { .. } | ChunkStoreError::Missing { .. })) => {
                tracing::warn!(%error, "a chunk is published without a delta");
                return Ok(Form::Full);
            }
            Err(error) => return Err(error),
        };
        let Some(blob) = delta::encode(&old, bytes, self.width) else { return Ok(Form::Full) };
        let kind = delta::kind(&blob).expect("a delta that was just made says of which kind it is");
        let length = u32::try_from(blob.len()).expect("a delta is shorter than its chunk");
        Ok(Form::Delta(kind, DeltaEntry { base, id: self.store.put(&blob)?, length }))
    }
}

impl Encoded {
    fn add(&mut self, chunk: Chunk, has_base: bool) {
        let row = &mut self.row;
        row.full_bytes += chunk.length;
        row.encode_s += chunk.seconds;
        let delta = match chunk.form {
            Form::Unchanged => {
                row.unchanged += 1;
                None
            }
            Form::Delta(kind, entry) => {
                match kind {
                    DeltaKind::Sparse => row.sparse += 1,
                    DeltaKind::Planes => row.xor += 1,
                }
                row.delta_bytes += u64::from(entry.length);
                Some(entry)
            }
            Form::Full => {
                row.full += 1;
                row.delta_bytes += chunk.length;
                None
            }
        };
        self.chunks.push(chunk.id);
        if has_base {
            self.deltas.push(delta);
        }
    }
}
