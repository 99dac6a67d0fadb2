//! Checkpoints: self-contained snapshots of a run in an object store.
//!
//! A checkpoint is a few objects under its version: weights and optimizer state as safetensors, and
//! `state.json` with the length and BLAKE3 of both, and its own BLAKE3. `state.json` is written
//! last, and commits: without it there is no checkpoint, and one whose parts do not match it is
//! damaged and passed over. A directory is synced before a write returns.
//!
//! Nothing else is random or hidden: prompts, samples and batches follow from the run, the state
//! and the learner's database, so the same checkpoint leads to the same updates.
//!
//! **A store on another machine.** Checkpoints are written to the run directory first, and copied
//! out from there ([`Checkpoints::upload`]). Both happen beside training
//! ([`release`](crate::run::release)), and a version is announced only when its checkpoint lies where
//! checkpoints are to lie: what the fleet has seen must never be taken back.

mod catalog;
pub mod options;
mod place;
mod state;
mod tensors;
mod writer;

use candle_core::{Device, Tensor};
use catalog::CheckpointCatalog;
use echo_policy::training::decoder::Decoder;
use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub use state::{CheckpointState, Part, Streams};
#[cfg(test)]
pub(crate) use tests::state_at;

/// How often a reader lists checkpoints that another process deletes before it has read them.
const READ_ATTEMPTS: usize = 3;

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The object store refused an operation, or did not answer.
    #[error("checkpoint {at}: {source} (is the disk full, or the store out of reach?)")]
    Store {
        /// The object, with the name of its store.
        at: String,
        /// What the store said.
        source: object_store::Error,
    },
    /// The content is not what was written.
    #[error("checkpoint {at} is damaged: {what}")]
    Damaged {
        /// The directory of the checkpoint, with the name of its store.
        at: String,
        /// What does not match: a length, a hash or the form.
        what: String,
    },
    /// A store of two runs.
    #[error("checkpoint {at} belongs to run {found}: give every run a [checkpoints] store of its own")]
    WrongRun {
        /// The `state.json` of the checkpoint, with the name of its store.
        at: String,
        /// The run that its `state.json` names.
        found: RunId,
    },
    /// A store that a new run cannot have.
    #[error(
        "[checkpoints] store: {store} holds the checkpoint of {version} already; give every run a store of its own"
    )]
    Occupied {
        /// What people call the store.
        store: String,
        /// The newest version that has a checkpoint there.
        version: PolicyVersion,
    },
    /// A tensor cannot be read from a device, or be made from bytes.
    #[error("checkpoint {at}: {source}")]
    Tensor {
        /// The object that holds the tensors, with the name of its store.
        at: String,
        /// The tensor library's own error.
        source: candle_core::Error,
    },
    /// The setting names no place that can be opened.
    #[error("[checkpoints] store = {store:?}: {why}")]
    Place {
        /// `[checkpoints] store`, as the run file has it.
        store: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A checkpoint in memory.
#[derive(Debug)]
pub struct Checkpoint {
    /// Everything but tensors, from `state.json`.
    pub state: CheckpointState,
    /// Parameters by Hugging Face name, f32.
    pub weights: BTreeMap<String, Tensor>,
    /// The optimizer's, by the names of [`AdamW::state`](crate::training::optimizer::AdamW::state).
    pub optimizer: BTreeMap<String, Tensor>,
}

/// Where the checkpoints of a run are.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// What is written first.
    near: CheckpointCatalog,
    /// Where it is copied to, if that is another machine.
    far: Option<CheckpointCatalog>,
}

impl Checkpoints {
    /// Writes the checkpoint of `state`, with the optimizer's
    /// ([`AdamW::state`](crate::training::optimizer::AdamW::state)), durably, and deletes all but the
    /// newest ones before it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn write(
        &self,
        state: CheckpointState,
        weights: &Decoder,
        optimizer: &BTreeMap<String, Tensor>,
    ) -> Result<(), CheckpointError> {
        let (near, version) = (&self.near, state.version);
        let write = near.write(state, weights, optimizer);
        near.patiently(&format!("writing the checkpoint of {version}"), write).await?;
        near.tidy(version).await;
        Ok(())
    }

    /// Copies the checkpoint of `version` to the store on another machine, if there is one. It is
    /// durable there when this returns.
    ///
    /// # Errors
    /// When a store fails, or the checkpoint has been damaged meanwhile.
    pub async fn upload(&self, version: PolicyVersion) -> Result<(), CheckpointError> {
        let Some(far) = &self.far else { return Ok(()) };
        let copy = far.copy(&self.near, version);
        far.patiently(&format!("copying the checkpoint of {version} there"), copy).await?;
        far.patiently("deleting older checkpoints there", far.tidy(version)).await;
        Ok(())
    }

    /// Reads the newest checkpoint that is whole, and says what was passed over: what is damaged,
    /// and a store that does not answer. The disk is read first where it has the same version,
    /// and has it afterwards.
    ///
    /// # Errors
    /// When one is another run's; when there is none, and a store could not be asked.
    pub async fn newest(
        &self,
        run: &RunId,
        device: &Device,
    ) -> Result<(Option<Checkpoint>, Vec<CheckpointError>), CheckpointError> {
        let (places, mut passed) = self.places().await;
        for (version, catalog) in places {
            let reading = format!("reading the checkpoint of {version}");
            match catalog.patiently(&reading, catalog.read(version, run, device)).await {
                Ok(checkpoint) => {
                    if !catalog.on_disk {
                        // Announcing it, settling what came before it, and going back to it all
                        // look on this machine.
                        catalog.patiently(&reading, self.near.copy(catalog, version)).await?;
                    }
                    return Ok((Some(checkpoint), passed));
                }
                Err(error @ CheckpointError::WrongRun { .. }) => return Err(error),
                Err(error) => passed.push(error),
            }
        }
        match passed.iter().position(|error| matches!(error, CheckpointError::Store { .. })) {
            Some(unknown) => Err(passed.swap_remove(unknown)),
            None => Ok((None, passed)),
        }
    }

    /// The weights of the newest checkpoint that is whole, or of `wanted`, by Hugging Face name,
    /// f32. Nothing is written, and a learner may go on writing and deleting meanwhile. `None` when
    /// there is no such checkpoint.
    ///
    /// # Errors
    /// When it is another run's, or there are such checkpoints and none can be read.
    pub async fn newest_weights(
        &self,
        wanted: Option<PolicyVersion>,
        run: &RunId,
    ) -> Result<Option<(PolicyVersion, BTreeMap<String, Tensor>)>, CheckpointError> {
        let mut failed = None;
        // What is listed may be deleted before it is read, and a newer one is there then.
        for _ in 0..READ_ATTEMPTS {
            let (mut places, passed) = self.places().await;
            places.retain(|(version, _)| wanted.is_none_or(|wanted| wanted == *version));
            failed = passed.into_iter().next();
            for (version, catalog) in places {
                let reading = format!("reading the checkpoint of {version}");
                match catalog.patiently(&reading, catalog.weights(version, run, &Device::Cpu)).await {
                    Ok(weights) => return Ok(Some((version, weights))),
                    Err(error @ CheckpointError::WrongRun { .. }) => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "passed over a checkpoint");
                        failed = Some(error);
                    }
                }
            }
            if failed.is_none() {
                break;
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// A store that has a checkpoint, and its newest one.
    ///
    /// # Errors
    /// When a store does not answer.
    pub async fn occupied(&self) -> Result<Option<(String, PolicyVersion)>, CheckpointError> {
        for catalog in self.catalogs() {
            let versions = catalog.patiently("looking for checkpoints", catalog.versions()).await?;
            if let Some(version) = versions.last() {
                return Ok(Some((catalog.name.clone(), *version)));
            }
        }
        Ok(None)
    }

    /// All checkpoints, the newest first and those on this machine before others, and the stores
    /// that do not answer.
    pub async fn listed(&self) -> (Vec<PolicyVersion>, Vec<CheckpointError>) {
        let (places, passed) = self.places().await;
        let mut versions: Vec<PolicyVersion> = places.into_iter().map(|(version, _)| version).collect();
        versions.dedup();
        (versions, passed)
    }

    fn catalogs(&self) -> impl Iterator<Item = &CheckpointCatalog> {
        [Some(&self.near), self.far.as_ref()].into_iter().flatten()
    }

    async fn places(&self) -> (Vec<(PolicyVersion, &CheckpointCatalog)>, Vec<CheckpointError>) {
        let (mut places, mut passed) = (Vec::new(), Vec::new());
        for catalog in self.catalogs() {
            match catalog.patiently("looking for checkpoints", catalog.versions()).await {
                Ok(versions) => places.extend(versions.into_iter().map(|version| (version, catalog))),
                Err(error) => passed.push(error),
            }
        }
        places.sort_by_key(|(version, _)| Reverse(*version));
        (places, passed)
    }

    /// Reads the checkpoint of `version` on this machine.
    ///
    /// # Errors
    /// When it is damaged, or another run's.
    pub async fn read(
        &self,
        version: PolicyVersion,
        run: &RunId,
        device: &Device,
    ) -> Result<Checkpoint, CheckpointError> {
        self.near.read(version, run, device).await
    }

    /// Whether there is a store on another machine.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.far.is_some()
    }

    /// The versions whose checkpoints are on this machine, oldest first, damaged ones included.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn versions(&self) -> Result<Vec<PolicyVersion>, CheckpointError> {
        self.near.versions().await
    }

    /// The parameters in the checkpoint of `version` on this machine, by Hugging Face name, f32.
    ///
    /// # Errors
    /// When it is damaged, or another run's.
    pub async fn weights(
        &self,
        version: PolicyVersion,
        run: &RunId,
    ) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
        self.near.weights(version, run, &Device::Cpu).await
    }

    /// The oldest checkpoint on this machine: nothing before it is needed for going on from any of them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn oldest(&self) -> Result<Option<PolicyVersion>, CheckpointError> {
        Ok(self.versions().await?.first().copied())
    }
}

#[cfg(test)]
mod tests;
