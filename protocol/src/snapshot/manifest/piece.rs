//! Pieces: what of a snapshot travels.

use crate::wire::content_id::ContentId;
use serde::{Deserialize, Serialize};

/// Position of a piece in a snapshot of C chunks: `0..C` are the chunks, `C..2C` their deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PieceIndex(pub u32);

/// A chunk or the delta of one, as it travels and lies on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece {
    /// The hash of its bytes.
    pub id: ContentId,
    /// Its length in bytes.
    pub length: u64,
}

/// How a chunk is made from an older one. Travels as an array without field names: there is
/// one for each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields", into = "Fields")]
pub struct DeltaEntry {
    /// The chunk that it applies to.
    pub base: ContentId,
    /// The hash of the delta's bytes.
    pub id: ContentId,
    /// Length of the delta in bytes; shorter than the chunk that it makes.
    pub length: u32,
}

type Fields = (ContentId, ContentId, u32);

impl DeltaEntry {
    /// The delta as a piece.
    pub fn piece(&self) -> Piece {
        Piece { id: self.id, length: u64::from(self.length) }
    }
}

impl Piece {
    /// How many blocks the piece has.
    pub fn blocks(&self) -> u32 {
        crate::snapshot::blocks::block_count(self.length)
    }
}

impl From<Fields> for DeltaEntry {
    fn from((base, id, length): Fields) -> Self {
        Self { base, id, length }
    }
}

impl From<DeltaEntry> for Fields {
    fn from(entry: DeltaEntry) -> Self {
        (entry.base, entry.id, entry.length)
    }
}
