//! Snapshots: a signed manifest, and chunks named by their content.
//!
//! A snapshot is one run of bytes: companion files first (a tokenizer, say; they rarely change, so their chunks keep their names
//! from version to version), then the tensors in the model's canonical order, cut into chunks of equal size.

use crate::charter::{CHUNK_BYTES, RunId};
use crate::content::{ChunkIndex, ContentId};
use crate::signed::Signable;
use crate::version::PolicyVersion;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Longest encoded manifest, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 1 << 20;
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

/// Element type of a published tensor, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TensorType {
    /// IEEE single precision.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

/// A tensor's place in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorEntry {
    /// Its name in the Hugging Face checkpoint.
    pub name: String,
    /// Element type.
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
    /// Length in bytes.
    pub length: u64,
}

/// What a snapshot consists of. Signed by the run's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The run.
    pub run: RunId,
    /// The version that these weights are.
    pub version: PolicyVersion,
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
}

/// A manifest that contradicts itself or exceeds a limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("manifest of {version}: {what}")]
pub struct ManifestError {
    version: PolicyVersion,
    what: String,
}

impl Signable for Manifest {
    const CONTEXT: &'static str = "echo snapshot manifest 1";
    const MAX_BYTES: usize = MAX_MANIFEST_BYTES;
}

impl TensorType {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }
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
        if end == self.total_bytes {
            Ok(())
        } else {
            fail(format!("entries end at {end} of {}", self.total_bytes))
        }
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
        let key = crate::identity::NodeKey::from_secret([1; 32]);
        let charter = crate::signed::Signed::sign(&crate::charter::tests::charter(&key), &key).unwrap();
        let total = u64::from(chunks) * (16 << 10) - 4;
        Manifest {
            run: RunId::of(&charter),
            version: PolicyVersion(version),
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
        }
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
    fn contradictions_are_refused() {
        let broken: [fn(&mut Manifest); 10] = [
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
        ];
        for (case, breaking) in broken.into_iter().enumerate() {
            let mut manifest = manifest(1, 3);
            breaking(&mut manifest);
            assert!(manifest.validate().is_err(), "case {case} passed");
        }
    }

    #[test]
    fn the_largest_manifest_fits_its_limit() {
        let names = MAX_CHUNKS * 34;
        assert!(names < MAX_MANIFEST_BYTES * 3 / 5, "chunk names leave room for the tensor table");
    }
}
