//! From a complete snapshot in the chunk store to a policy that generates, replaced in one step.

mod images;

use std::sync::Arc;

use echo_policy::audit::VersionWeights;
use echo_policy::generation::{AnyBackend, Backend as _, Device, EngineError, Policy};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::WeightsError;
use echo_policy::text::tokenizer::Tokenizer;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::store::{ChunkStore, ChunkStoreError, SnapshotReadError, SnapshotReader};
use echo_protocol::wire::content_id::ChunkIndex;

use crate::devices::fallback::{DeviceFallback, Loaded};
use crate::workload::{NodeWorkload, NodeWorkloadError};
pub use images::Images;

/// Why a snapshot was not installed. The policy before it stays in use.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A chunk is damaged or gone: it has to be fetched again.
    #[error("chunk {} of the snapshot: {source}", index.0)]
    Chunk {
        /// Its place in the snapshot, counted from 0.
        index: ChunkIndex,
        /// What is wrong with it.
        source: ChunkStoreError,
    },
    /// The snapshot does not fit the run.
    #[error(transparent)]
    Workload(#[from] NodeWorkloadError),
    /// There is no room on the disk for the weights, or they contradict the charter's model.
    #[error("the snapshot's weights: {0}")]
    Weights(#[from] WeightsError),
    /// The engine does not take the weights.
    #[error("the engine does not take the snapshot: {0}")]
    Engine(#[from] EngineError),
}

/// What a node generates with.
pub struct Installed {
    /// The weights, ready to generate on [`Installed::device`].
    pub policy: Arc<Policy<AnyBackend>>,
    /// What it was loaded on.
    pub device: Device,
    /// The weights as they were published, mapped: for the same version on another device,
    /// or in another precision.
    pub weights: Arc<VersionWeights>,
    /// The run's tokenizer as of this snapshot.
    pub tokenizer: Arc<Tokenizer>,
}

impl Installed {
    /// The version of the policy, as a plain number.
    pub fn version(&self) -> u64 {
        self.policy.version()
    }

    /// In which numbers it generates.
    pub fn precision(&self) -> Precision {
        self.policy.backend().precision()
    }

    /// The same version, loaded once more: on the best device that is left.
    ///
    /// # Errors
    /// As [`DeviceFallback::load`]: no device is left that takes it.
    pub fn reload(&self, fallback: &DeviceFallback) -> Result<Self, EngineError> {
        let loaded =
            fallback.load(self.version(), self.policy.config(), self.weights.weights(), self.precision())?;
        Ok(Self::new(loaded, self.weights.clone(), self.tokenizer.clone()))
    }

    fn new(
        Loaded { device, policy }: Loaded,
        weights: Arc<VersionWeights>,
        tokenizer: Arc<Tokenizer>,
    ) -> Self {
        Self { policy: Arc::new(policy), device, weights, tokenizer }
    }
}

impl From<SnapshotReadError> for InstallError {
    fn from(SnapshotReadError { index, source }: SnapshotReadError) -> Self {
        Self::Chunk { index, source }
    }
}

/// Reads a snapshot, every chunk verified again, and makes a policy of it, in the precision of the
/// workload, on the best device of `fallback`. Its weights are mapped from a file among `images`, so
/// memory holds a chunk at a time on the way, and later what the system finds room for; those of a
/// coarser precision than the snapshot's are made of them in memory. Blocks.
///
/// # Errors
/// [`InstallError`]; a damaged chunk is named, so that it can be fetched again.
pub fn load(
    store: &ChunkStore,
    images: &Images,
    manifest: &Manifest,
    workload: &NodeWorkload,
    fallback: &DeviceFallback,
) -> Result<Installed, InstallError> {
    workload.check(manifest)?;
    let mut reader = SnapshotReader::new(store, manifest);
    let tokenizer = {
        let files = reader.files(|name| workload.needs(name))?;
        workload.build_tasks(&files)?;
        workload.tokenizer(&files)?
    };
    let weights = images.weights(&mut reader, manifest, workload)?;
    let loaded = fallback.load(manifest.version.0, &workload.model, &weights, workload.precision())?;
    let weights = VersionWeights::new(manifest.version.0, &workload.model, weights)?;
    Ok(Installed::new(loaded, Arc::new(weights), Arc::new(tokenizer)))
}

#[cfg(test)]
mod tests;
