//! Snapshots: a signed manifest, and chunks named by their content.
//!
//! A snapshot is one run of bytes: companion files first (a tokenizer, say; they rarely change, so
//! their chunks keep their names from version to version), then the tensors in the model's
//! canonical order, cut into chunks of equal size.
//!
//! A manifest may also name deltas: how to make a chunk out of another one, which receivers
//! of an older version hold. Chunks and deltas together are the *pieces* of a snapshot,
//! which is what travels.

mod piece;

pub use crate::run::tensor_type::TensorType;
pub use piece::{DeltaEntry, Piece, PieceIndex};

use crate::run::charter::{CHUNK_BYTES, RunId};
use crate::run::epoch::Epoch;
use crate::run::version::PolicyVersion;
use crate::wire::codec;
use crate::wire::content_id::{ChunkIndex, ContentId};
use crate::wire::signed::Signable;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Longest encoded manifest, in bytes. The largest snapshot with a delta for every chunk leaves 300
/// KiB to the tensor table.
pub const MAX_MANIFEST_BYTES: usize = 2 << 20;
/// Most chunks of a snapshot: 64 GiB in chunks of 4 MiB.
pub const MAX_CHUNKS: usize = 16 << 10;
/// Most tensors of a snapshot.
pub const MAX_TENSORS: usize = 8 << 10;
/// Most companion files of a snapshot.
pub const MAX_FILES: usize = 16;
/// Longest name of a tensor or file, in bytes.
pub const MAX_NAME: usize = 128;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// A tensor's place in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorEntry {
    /// Its name in the Hugging Face checkpoint.
    pub name: String,
    /// The number format of all its elements.
    pub dtype: TensorType,
    /// Dimensions, outermost first, row-major.
    pub shape: Vec<u64>,
    /// First byte within the snapshot.
    pub offset: u64,
}

/// A companion file's place in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// A plain file name.
    pub name: String,
    /// First byte within the snapshot.
    pub offset: u64,
    /// Length of the file, in bytes.
    pub length: u64,
}

/// What a snapshot consists of. Signed by the run's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The run whose key signs the manifest.
    pub run: RunId,
    /// The learner's epoch: a later one may publish the same version anew.
    pub epoch: Epoch,
    /// The version that these weights are.
    pub version: PolicyVersion,
    /// The version that the deltas start from; `None` for a key frame, which has none.
    pub base: Option<PolicyVersion>,
    /// Companion files, in order of their offsets.
    pub files: Vec<FileEntry>,
    /// Tensors, in order of their offsets.
    pub tensors: Vec<TensorEntry>,
    /// Length of the snapshot in bytes.
    pub total_bytes: u64,
    /// Length of every chunk but the last, in bytes.
    pub chunk_bytes: u32,
    /// Names of the chunks, in order.
    pub chunks: Vec<ContentId>,
    /// For each chunk its delta, if it has one: a chunk that did not change has none and needs
    /// none. Empty in a key frame.
    pub deltas: Vec<Option<DeltaEntry>>,
}

/// A manifest that contradicts itself or exceeds a limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("manifest of {version}: {what}")]
pub struct ManifestError {
    version: PolicyVersion,
    what: String,
}

impl Signable for Manifest {
    const CONTEXT: &'static str = "echo snapshot manifest 3";
    // Without an epoch.
    const BEFORE: &'static [&'static str] = &["echo snapshot manifest 2"];
    const MAX_BYTES: usize = MAX_MANIFEST_BYTES;
}

impl TensorEntry {
    /// Length in bytes; `None` when it overflows.
    pub fn length(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.dtype.bytes(), |product, &dim| product.checked_mul(dim))
    }
}

impl Manifest {
    /// Checks every limit, and that files and tensors tile the snapshot without gap or overlap.
    pub fn validate(&self) -> Result<(), ManifestError> {
        let fail = |what: String| Err(ManifestError { version: self.version, what });
        if !CHUNK_BYTES.contains(&self.chunk_bytes) {
            return fail(format!("chunks of {} bytes", self.chunk_bytes));
        }
        let chunks = self.total_bytes.div_ceil(u64::from(self.chunk_bytes));
        if self.total_bytes == 0 || chunks > MAX_CHUNKS as u64 || chunks != self.chunks.len() as u64 {
            return fail(format!("{} chunks for {} bytes", self.chunks.len(), self.total_bytes));
        }
        if self.tensors.len() > MAX_TENSORS || self.files.len() > MAX_FILES {
            return fail(format!("{} tensors and {} files", self.tensors.len(), self.files.len()));
        }
        let mut end = 0u64;
        let files =
            self.files.iter().map(|f| (&f.name, f.offset, Some(f.length), is_plain_file_name(&f.name)));
        let tensors = self.tensors.iter().map(|t| {
            let sound = (1..=MAX_NAME).contains(&t.name.len()) && t.shape.len() <= MAX_RANK;
            (&t.name, t.offset, t.length(), sound)
        });
        for (name, offset, length, sound) in files.chain(tensors) {
            let next = length.and_then(|length| offset.checked_add(length));
            match next {
                Some(next) if sound && offset == end && next <= self.total_bytes => end = next,
                _ => return fail(format!("entry {name:?} at {offset} does not fit")),
            }
        }
        if end != self.total_bytes {
            return fail(format!("entries end at {end} of {}", self.total_bytes));
        }
        self.validate_deltas()
    }

    fn validate_deltas(&self) -> Result<(), ManifestError> {
        let fail = |what: String| Err(ManifestError { version: self.version, what });
        if self.base.is_some() == self.deltas.is_empty() || self.base >= Some(self.version) {
            return fail(format!("{} deltas against {:?}", self.deltas.len(), self.base));
        }
        if !self.deltas.is_empty() && self.deltas.len() != self.chunks.len() {
            return fail(format!("{} deltas for {} chunks", self.deltas.len(), self.chunks.len()));
        }
        for (delta, index) in self.deltas.iter().zip(0..) {
            let Some(delta) = delta else { continue };
            let chunk = self.chunk_range(ChunkIndex(index));
            let shorter = (1..chunk.end - chunk.start).contains(&u64::from(delta.length));
            if !shorter || Some(delta.base) == self.chunk_id(ChunkIndex(index)) {
                return fail(format!(
                    "the delta of chunk {index}: {} bytes on {:?}",
                    delta.length, delta.base
                ));
            }
        }
        Ok(())
    }

    /// The bytes of the snapshot that a chunk holds; empty for an index beyond the last.
    pub fn chunk_range(&self, index: ChunkIndex) -> Range<u64> {
        let start = (u64::from(index.0) * u64::from(self.chunk_bytes)).min(self.total_bytes);
        start..(start + u64::from(self.chunk_bytes)).min(self.total_bytes)
    }

    /// The name of a chunk.
    pub fn chunk_id(&self, index: ChunkIndex) -> Option<ContentId> {
        self.chunks.get(index.0 as usize).copied()
    }
}

impl Manifest {
    /// Names this manifest by its content: two that share a version have different names.
    pub fn id(&self) -> ContentId {
        // One that is too long to be encoded could not have come here, nor have been signed.
        ContentId::of(&codec::encode(self, MAX_MANIFEST_BYTES).unwrap_or_default())
    }

    /// Whether both describe the same version with the same bytes, whatever their epochs and deltas are.
    pub fn has_content_of(&self, other: &Self) -> bool {
        self.version == other.version
            && self.chunks == other.chunks
            && (&self.files, &self.tensors) == (&other.files, &other.tensors)
    }

    /// How many piece indices the snapshot has: one for each chunk, and one more for each chunk's delta.
    pub fn pieces(&self) -> u32 {
        2 * self.chunks.len() as u32
    }

    /// The index of a chunk as a piece.
    pub fn chunk_piece(&self, index: ChunkIndex) -> PieceIndex {
        PieceIndex(index.0)
    }

    /// The index of a chunk's delta as a piece, whether or not there is one.
    pub fn delta_piece(&self, index: ChunkIndex) -> PieceIndex {
        PieceIndex(index.0.saturating_add(self.chunks.len() as u32))
    }

    /// The chunk that a piece is, or is the delta of.
    pub fn chunk_of(&self, piece: PieceIndex) -> ChunkIndex {
        let chunks = self.chunks.len() as u32;
        ChunkIndex(piece.0.checked_sub(chunks).unwrap_or(piece.0))
    }

    /// Whether a piece is a delta, if it exists.
    pub fn is_delta(&self, piece: PieceIndex) -> bool {
        piece.0 as usize >= self.chunks.len()
    }

    /// Name and length of a piece; `None` for an index beyond the last, or of a delta that does not exist.
    pub fn piece(&self, index: PieceIndex) -> Option<Piece> {
        let at = index.0 as usize;
        if let Some(id) = self.chunks.get(at) {
            let range = self.chunk_range(ChunkIndex(index.0));
            return Some(Piece { id: *id, length: range.end - range.start });
        }
        self.deltas.get(at - self.chunks.len())?.as_ref().map(DeltaEntry::piece)
    }

    /// How to make a chunk from an older one, if the manifest says.
    pub fn delta(&self, index: ChunkIndex) -> Option<&DeltaEntry> {
        self.deltas.get(index.0 as usize)?.as_ref()
    }

    /// The names of everything that this manifest names.
    pub fn ids(&self) -> impl Iterator<Item = ContentId> {
        self.chunks.iter().copied().chain(self.deltas.iter().flatten().map(|delta| delta.id))
    }
}

/// A name that can only mean a file directly in the directory that it is written to, on every system.
fn is_plain_file_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn manifest(version: u64, chunks: u8) -> Manifest {
        let key = crate::wire::identity::NodeKey::from_secret([1; 32]);
        let charter =
            crate::wire::signed::Signed::sign(&crate::run::charter::tests::charter(&key), &key).unwrap();
        let total = u64::from(chunks) * (16 << 10) - 4;
        Manifest {
            run: RunId::of(&charter),
            epoch: Epoch(1),
            version: PolicyVersion(version),
            base: None,
            files: vec![FileEntry { name: "tokenizer.json".into(), offset: 0, length: 8 }],
            tensors: vec![TensorEntry {
                name: "w".into(),
                dtype: TensorType::F32,
                shape: vec![(total - 8) / 4],
                offset: 8,
            }],
            total_bytes: total,
            chunk_bytes: 16 << 10,
            chunks: (0..chunks).map(|i| ContentId::of(&[version as u8, i])).collect(),
            deltas: Vec::new(),
        }
    }

    /// The same with a delta of `length` bytes for every chunk.
    pub(crate) fn with_deltas(version: u64, chunks: u8, length: u32) -> Manifest {
        let (old, new) = (manifest(version - 1, chunks), manifest(version, chunks));
        let delta = |(base, id): (&ContentId, &ContentId)| {
            Some(DeltaEntry { base: *base, id: ContentId::of(id.as_bytes()), length })
        };
        let deltas = old.chunks.iter().zip(&new.chunks).map(delta).collect();
        Manifest { base: Some(old.version), deltas, ..new }
    }

    #[test]
    fn a_sound_manifest_passes_and_ranges_tile() {
        let manifest = manifest(1, 3);
        assert_eq!(manifest.validate(), Ok(()));
        assert_eq!(manifest.chunk_range(ChunkIndex(2)), 32768..49148);
        assert!(manifest.chunk_range(ChunkIndex(3)).is_empty());
        assert!(manifest.chunk_range(ChunkIndex(u32::MAX)).is_empty());
    }

    #[test]
    fn what_the_fuzzer_starts_from_is_sound() {
        let seeds: [&[u8]; 2] = [
            include_bytes!("../../../fuzz/seeds/manifest/key_frame"),
            include_bytes!("../../../fuzz/seeds/manifest/with_deltas"),
        ];
        for (seed, deltas) in seeds.into_iter().zip([0, 3]) {
            let manifest: Manifest = codec::decode(seed, MAX_MANIFEST_BYTES).unwrap();
            assert_eq!((manifest.validate(), manifest.deltas.len()), (Ok(()), deltas));
        }
    }

    #[test]
    fn pieces_are_the_chunks_and_then_their_deltas() {
        let plain = manifest(1, 3);
        let mut manifest = with_deltas(2, 3, 100);
        manifest.deltas[1] = None;
        assert_eq!(manifest.validate(), Ok(()));
        assert_eq!((plain.pieces(), manifest.pieces()), (6, 6));
        assert_eq!(manifest.piece(PieceIndex(2)), Some(Piece { id: manifest.chunks[2], length: 16380 }));
        let delta = manifest.delta(ChunkIndex(2)).unwrap();
        assert_eq!(manifest.delta_piece(ChunkIndex(2)), PieceIndex(5));
        assert_eq!(manifest.piece(PieceIndex(5)), Some(Piece { id: delta.id, length: 100 }));
        assert_eq!(
            (manifest.chunk_of(PieceIndex(2)), manifest.chunk_of(PieceIndex(5))),
            (ChunkIndex(2), ChunkIndex(2))
        );
        let none = [PieceIndex(4), PieceIndex(6), PieceIndex(u32::MAX)];
        assert!(none.into_iter().all(|index| manifest.piece(index).is_none()));
        assert!((3..6).all(|index| plain.piece(PieceIndex(index)).is_none()));
        assert_eq!((plain.ids().count(), manifest.ids().count()), (3, 5));
    }

    #[test]
    fn contradictions_are_refused() {
        let broken: [fn(&mut Manifest); 20] = [
            |m| m.chunk_bytes = 1,
            |m| m.total_bytes += 4,
            |m| m.total_bytes = u64::MAX,
            |m| m.chunks.truncate(2),
            |m| m.tensors[0].offset = 4,
            |m| m.tensors[0].shape = vec![u64::MAX, u64::MAX],
            |m| m.tensors[0].shape[0] -= 1,
            |m| m.files[0].name = "../tokenizer.json".into(),
            |m| m.files[0].name = "a\\b".into(),
            |m| m.files[0].name = ".bashrc".into(),
            |m| m.base = None,
            |m| m.base = Some(m.version),
            |m| m.base = Some(m.version.next()),
            |m| m.deltas.clear(),
            |m| m.deltas.truncate(2),
            |m| m.deltas.push(None),
            |m| m.deltas.iter_mut().flatten().for_each(|d| d.length = 0),
            |m| m.deltas.iter_mut().flatten().for_each(|d| d.length = 16 << 10),
            |m| m.deltas.iter_mut().flatten().for_each(|d| d.length = u32::MAX),
            |m| m.deltas[1].as_mut().unwrap().base = m.chunks[1],
        ];
        for (case, breaking) in broken.into_iter().enumerate() {
            let mut manifest = with_deltas(2, 3, 16379);
            assert_eq!(manifest.validate(), Ok(()));
            breaking(&mut manifest);
            assert!(manifest.validate().is_err(), "case {case} passed");
        }
        // The last chunk is shorter than the others, and so must its delta be.
        assert!(with_deltas(2, 3, 16380).validate().is_err());
    }

    #[test]
    fn the_largest_snapshot_fits_and_costs_next_to_nothing() {
        let manifest = with_deltas(2, 200, u32::MAX);
        let bytes = crate::wire::codec::encode(&manifest, MAX_MANIFEST_BYTES).unwrap();
        assert_eq!(crate::wire::codec::decode::<Manifest>(&bytes, MAX_MANIFEST_BYTES).unwrap(), manifest);
        let chunk = bytes.len() / 200;
        assert!(chunk * MAX_CHUNKS + (250 << 10) < MAX_MANIFEST_BYTES, "{chunk} bytes a chunk");
        assert!(chunk * 200 < 256 << 10, "0.5 % of chunks of 256 KiB");
    }
}
