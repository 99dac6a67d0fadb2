//! From a complete snapshot in the chunk store to a policy that generates, replaced in one step.

use std::sync::Arc;

use echo_policy::engine::Policy;
use echo_policy::error::{EngineError, WeightsError};
use echo_policy::tokenizer::Tokenizer;
use echo_policy::weights::{RawTensor, Weights};
use echo_protocol::content::ChunkIndex;
use echo_protocol::manifest::Manifest;
use echo_protocol::store::{ChunkStore, SnapshotReader, StoreError};

use crate::workload::{Workload, WorkloadError, dtype};

/// Why a snapshot was not installed. The policy before it stays in use.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A chunk is damaged or gone: it has to be fetched again.
    #[error("chunk {} of the snapshot: {source}", index.0)]
    Chunk {
        /// Which chunk.
        index: ChunkIndex,
        /// What is wrong with it.
        source: StoreError,
    },
    /// The snapshot does not fit the run.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The weights contradict the charter's model.
    #[error("the snapshot's weights: {0}")]
    Weights(#[from] WeightsError),
    /// The engine does not take the weights.
    #[error("the engine does not take the snapshot: {0}")]
    Engine(#[from] EngineError),
}

/// What a node generates with.
pub struct Installed {
    /// The weights, ready.
    pub policy: Arc<Policy>,
    /// The run's tokenizer as of this snapshot.
    pub tokenizer: Tokenizer,
}

/// Reads a snapshot, every chunk verified again, and makes a policy of it, in the precision of the workload. Blocks.
///
/// In f32 it takes no memory beyond its weights; others that are made of them lie beside these until it is done.
///
/// # Errors
/// [`InstallError`]
pub fn load(store: &ChunkStore, manifest: &Manifest, workload: &Workload) -> Result<Installed, InstallError> {
    workload.check(manifest)?;
    let mut reader = SnapshotReader::new(store, manifest);
    let chunk = |index, source| InstallError::Chunk { index, source };
    let files = reader.files(|name| workload.needs(name)).map_err(|e| chunk(e.index, e.source))?;
    workload.build_tasks(&files)?;
    let tokenizer = workload.tokenizer(&files)?;
    let mut tensors = Vec::with_capacity(manifest.tensors.len());
    for entry in &manifest.tensors {
        tensors.push(RawTensor {
            name: entry.name.clone(),
            dtype: dtype(entry.dtype),
            shape: entry.shape.iter().map(|&side| side as usize).collect(),
            bytes: reader.tensor(entry).map_err(|e| chunk(e.index, e.source))?,
        });
    }
    let weights = Weights::from_raw(&workload.model, tensors)?;
    let policy = Policy::load_as(manifest.version.0, &workload.model, &weights, workload.precision())?;
    Ok(Installed { policy: Arc::new(policy), tokenizer })
}

#[cfg(test)]
mod tests;
