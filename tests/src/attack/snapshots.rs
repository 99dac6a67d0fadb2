//! The newest policy, for members that live in the lab's process.

use crate::harness::liar::LearnerConnection;
use anyhow::{Context as _, ensure};
use echo_learner::common::workload::{Workload, dtype};
use echo_learner::storage::run_dir::RunDir;
use echo_policy::generation::Policy;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::{RawTensor, Weights};
use echo_protocol::snapshot::manifest::{Manifest, TensorEntry};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::task::block_in_place;

/// Loads each version once for everybody.
///
/// The manifest comes over the network. The chunks are read where the learner keeps them, so
/// that whoever lies takes no place in the forwarding of snapshots from a volunteer: lies about
/// chunks are told elsewhere.
pub(super) struct LoadedSnapshots {
    chunks: PathBuf,
    newest: Mutex<Option<Arc<Policy>>>,
}

impl LoadedSnapshots {
    /// Those of the run in this directory.
    pub(super) fn new(run: &RunDir) -> Self {
        Self { chunks: run.chunks(), newest: Mutex::new(None) }
    }

    /// The newest policy that the learner has told a member of.
    pub(super) async fn newest(
        &self,
        learner: &LearnerConnection,
        workload: &Workload,
    ) -> anyhow::Result<Arc<Policy>> {
        let wanted = learner.newest().await?;
        if let Some(policy) = self.held(wanted.0).await {
            return Ok(policy);
        }
        let manifest = learner.manifest().await?.open_from(&workload.charter.learner)?;
        let mut newest = self.newest.lock().await;
        if let Some(policy) = newest.as_ref().filter(|policy| policy.version() >= manifest.version.0) {
            return Ok(policy.clone());
        }
        let policy = Arc::new(block_in_place(|| self.load(&manifest, &workload.model))?);
        *newest = Some(policy.clone());
        Ok(policy)
    }

    async fn held(&self, version: u64) -> Option<Arc<Policy>> {
        let newest = self.newest.lock().await;
        newest.as_ref().filter(|policy| policy.version() >= version).cloned()
    }

    fn load(&self, manifest: &Manifest, model: &ModelConfig) -> anyhow::Result<Policy> {
        let mut bytes = Vec::new();
        for id in &manifest.chunks {
            let name = id.to_string();
            let path = self.chunks.join(&name[..2]).join(&name);
            let chunk = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            ensure!(id.matches(&chunk), "{} is not what its name says", path.display());
            bytes.extend_from_slice(&chunk);
        }
        let tensor = |entry: &TensorEntry| {
            let end = entry.length().and_then(|length| length.checked_add(entry.offset));
            let range = entry.offset as usize..end.context("a tensor without end")? as usize;
            Ok(RawTensor {
                name: entry.name.clone(),
                dtype: dtype(entry.dtype),
                shape: entry.shape.iter().map(|&side| side as usize).collect(),
                bytes: bytes.get(range).context("a tensor beyond the snapshot")?.to_vec(),
            })
        };
        let tensors = manifest.tensors.iter().map(tensor).collect::<anyhow::Result<Vec<_>>>()?;
        let weights = Weights::from_raw(model, tensors)?;
        Ok(Policy::load(manifest.version.0, model, &weights)?)
    }
}
