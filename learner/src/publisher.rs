//! From weights to a signed manifest: the learner's end of every forwarding chain.

use crate::workload::Workload;
use echo_policy::weights::{DType, Weights};
use echo_protocol::codec::CodecError;
use echo_protocol::identity::NodeKey;
use echo_protocol::manifest::{Manifest, TensorType};
use echo_protocol::signed::Signed;
use echo_protocol::store::{ChunkStore, SnapshotItem, StoreError, write_snapshot};
use echo_protocol::version::PolicyVersion;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a snapshot cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The chunk store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The manifest is too long to be signed.
    #[error("the snapshot's manifest: {0}; use larger chunks ([snapshot] chunk_bytes)")]
    Manifest(#[from] CodecError),
    /// A companion file.
    #[error("companion file {path} of the snapshot: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
}

/// Cuts policies into chunks and signs their manifests.
#[derive(Debug)]
pub struct Publisher {
    store: Arc<ChunkStore>,
    /// Travel with every snapshot; their chunks are the same each time.
    files: Vec<PathBuf>,
}

impl Publisher {
    /// A publisher that keeps chunks in `store` and sends `files` along.
    pub fn new(store: Arc<ChunkStore>, files: Vec<PathBuf>) -> Self {
        Self { store, files }
    }

    /// Writes the chunks of `weights` and signs their manifest. One tensor at a time is held beside the weights.
    pub fn publish(
        &self,
        workload: &Workload,
        key: &NodeKey,
        version: PolicyVersion,
        weights: &Weights,
    ) -> Result<(Arc<Manifest>, Signed<Manifest>), PublishError> {
        let mut files = Vec::new();
        for path in &self.files {
            let read = std::fs::read(path);
            let bytes = read.map_err(|e| PublishError::File { path: path.clone(), cause: e.to_string() })?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(SnapshotItem::File { name, bytes });
        }
        let tensors = weights.iter().map(|tensor| SnapshotItem::Tensor {
            name: tensor.name().to_owned(),
            dtype: tensor_type(tensor.dtype()),
            shape: tensor.shape().iter().map(|&dim| dim as u64).collect(),
            bytes: tensor.bytes().to_vec(),
        });
        let items = files.into_iter().chain(tensors);
        let chunk_bytes = workload.charter.chunk_bytes;
        let manifest = write_snapshot(&self.store, workload.run, version, chunk_bytes, items)?;
        let signed = Signed::sign(&manifest, key)?;
        Ok((Arc::new(manifest), signed))
    }
}

/// The policy's element type in the words of the protocol.
pub fn tensor_type(dtype: DType) -> TensorType {
    match dtype {
        DType::F32 => TensorType::F32,
        DType::BF16 => TensorType::Bf16,
        DType::F16 => TensorType::F16,
    }
}

/// The protocol's element type in the words of the policy.
pub fn dtype(tensor_type: TensorType) -> DType {
    match tensor_type {
        TensorType::F32 => DType::F32,
        TensorType::Bf16 => DType::BF16,
        TensorType::F16 => DType::F16,
    }
}
