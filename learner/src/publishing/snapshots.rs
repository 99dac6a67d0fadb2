//! From weights to a signed manifest: the learner's end of every forwarding chain.
//!
//! Tensors stream by: they are cut into chunks, and each chunk is expressed against the chunk at
//! the same place of the version published before, which is read back from disk. So no policy but
//! the one that is published is in memory.

mod encoder;
mod row;

use crate::common::workload::{Workload, tensor_type};
use crate::publishing::options::SnapshotSection;
use echo_policy::model::weights::RawTensor;
use echo_policy::training::decoder::DecoderError;
use echo_protocol::run::epoch::Epoch;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::delta::Width;
use echo_protocol::snapshot::manifest::{Manifest, ManifestError};
use echo_protocol::store::{ChunkStore, ChunkStoreError, SnapshotCutter, SnapshotItem};
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use encoder::ChunkEncoder;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

pub use row::PublicationRow;

/// Why a snapshot cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The chunk store failed, or its disk is full.
    #[error(transparent)]
    Store(#[from] ChunkStoreError),
    /// A tensor cannot be read from the trainer's device.
    #[error(transparent)]
    Decoder(#[from] DecoderError),
    /// The snapshot exceeds a limit.
    #[error(transparent)]
    Form(#[from] ManifestError),
    /// The manifest is too long to be signed.
    #[error("the snapshot's manifest: {0}; use larger chunks ([snapshot] chunk_bytes)")]
    Manifest(#[from] CodecError),
    /// A companion file cannot be read.
    #[error("companion file {path} of the snapshot: {cause}")]
    File {
        /// The file's path in the run directory.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
}

/// Cuts policies into chunks, makes deltas, signs manifests.
#[derive(Debug)]
pub struct Publisher {
    store: Arc<ChunkStore>,
    /// Travel with every snapshot; their chunks are the same each time.
    files: Vec<PathBuf>,
    config: SnapshotSection,
    /// The last K versions, oldest first; the store keeps their pieces.
    published: VecDeque<Arc<Manifest>>,
    publications: u64,
}

/// A snapshot that is ready to be announced.
#[derive(Debug)]
pub struct Publication {
    /// What it consists of.
    pub manifest: Arc<Manifest>,
    /// The same manifest with the run's signature, as nodes get it.
    pub signed: Signed<Manifest>,
    /// What it took, and what it costs nodes.
    pub row: PublicationRow,
}

impl Publisher {
    /// A publisher that keeps chunks in `store` and sends `files` along.
    pub fn new(store: Arc<ChunkStore>, files: Vec<PathBuf>, config: SnapshotSection) -> Self {
        Self { store, files, config, published: VecDeque::new(), publications: 0 }
    }

    /// Writes the chunks and deltas of a version and signs their manifest. `tensors` come in
    /// canonical order. Memory holds one tensor, and for each thread of rayon's pool a few chunks.
    ///
    /// # Errors
    /// [`PublishError`]; nothing of the version is announced then.
    pub fn publish(
        &mut self,
        workload: &Workload,
        key: &NodeKey,
        epoch: Epoch,
        version: PolicyVersion,
        tensors: impl IntoIterator<Item = Result<RawTensor, DecoderError>>,
    ) -> Result<Publication, PublishError> {
        let since = Instant::now();
        let store = self.store.clone();
        let draft = store.draft();
        let base = self.base(version);
        let (snapshot_type, chunk_bytes) = (workload.charter.snapshot_type, workload.charter.chunk_bytes);
        let mut encoder = ChunkEncoder::new(&store, base.as_deref(), Width::from(snapshot_type));
        let mut cutter = SnapshotCutter::new(chunk_bytes);
        for item in self.files()? {
            cutter.push(item, |chunk| encoder.push(chunk))?;
        }
        for tensor in tensors {
            cutter.push(item(tensor?), |chunk| encoder.push(chunk))?;
        }
        encoder.push(cutter.last_chunk())?;
        let encoded = encoder.finish()?;

        let mut row = encoded.row;
        let base = base.map(|base| base.version);
        let manifest = cutter.manifest(workload.run, epoch, version, encoded.chunks, base, encoded.deltas)?;
        let (manifest, signed) = sign(manifest, key)?;
        let manifest = Arc::new(manifest);
        draft.keep(&manifest);
        self.remember(manifest.clone())?;
        row.published = version.0;
        row.manifest_bytes = signed.to_bytes().len() as u64;
        row.publish_s = since.elapsed().as_secs_f64();
        Ok(Publication { manifest, signed, row })
    }

    /// The version that deltas start from; none for a key frame, which the first
    /// publication of a process is. Later ones cost nothing by having deltas: whoever
    /// cannot use them fetches the chunks.
    fn base(&self, version: PolicyVersion) -> Option<Arc<Manifest>> {
        self.published.back().filter(|newest| newest.version < version).cloned()
    }

    fn files(&self) -> Result<Vec<SnapshotItem>, PublishError> {
        let read = |path: &PathBuf| {
            let read = std::fs::read(path);
            let bytes = read.map_err(|e| PublishError::File { path: path.clone(), cause: e.to_string() })?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(SnapshotItem::File { name, bytes })
        };
        self.files.iter().map(read).collect()
    }

    fn remember(&mut self, manifest: Arc<Manifest>) -> Result<(), ChunkStoreError> {
        self.published.push_back(manifest);
        self.publications += 1;
        while self.published.len() > self.config.keep_versions {
            if let Some(oldest) = self.published.pop_front() {
                self.store.discard(&oldest)?;
            }
        }
        if self.publications == 1 {
            // What an earlier process published and this one did not write again.
            self.store.sweep()?;
        }
        Ok(())
    }
}

/// Signs a manifest; without its deltas, should they make it too long.
fn sign(manifest: Manifest, key: &NodeKey) -> Result<(Manifest, Signed<Manifest>), CodecError> {
    match Signed::sign(&manifest, key) {
        Err(CodecError::TooLarge { len, .. }) if manifest.base.is_some() => {
            tracing::warn!(bytes = len, "the manifest is too long with its deltas: published without them");
            let manifest = Manifest { base: None, deltas: Vec::new(), ..manifest };
            let signed = Signed::sign(&manifest, key)?;
            Ok((manifest, signed))
        }
        signed => Ok((manifest, signed?)),
    }
}

fn item(tensor: RawTensor) -> SnapshotItem {
    SnapshotItem::Tensor {
        name: tensor.name,
        dtype: tensor_type(tensor.dtype),
        shape: tensor.shape.iter().map(|&dim| dim as u64).collect(),
        bytes: tensor.bytes,
    }
}

#[cfg(test)]
mod tests;
