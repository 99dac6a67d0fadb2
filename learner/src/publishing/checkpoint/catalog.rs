//! One place with checkpoints in it.

use super::tensors::{self, TensorsError};
use super::writer::{ObjectWriter, PIECE_BYTES};
use super::{Checkpoint, CheckpointError, CheckpointState, Part};
use crate::common::long_waits::patiently;
use candle_core::{Device, Tensor, safetensors};
use echo_policy::training::decoder::Decoder;
use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const WEIGHTS: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
/// What a checkpoint consists of.
pub(super) const OBJECTS: [&str; 3] = [WEIGHTS, OPTIMIZER, STATE];
/// Of the version in a checkpoint's name.
pub(super) const VERSION_DIGITS: usize = 12;

/// A part of an object store that holds one run's checkpoints.
#[derive(Clone, Debug)]
pub(super) struct CheckpointCatalog {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Every object lies below it.
    pub(super) root: Path,
    /// What people call the store.
    pub(super) name: String,
    /// Checkpoints that are kept.
    pub(super) keep: usize,
    /// On a disk, what cannot be read is damaged. Of a store that does not answer nothing is known.
    pub(super) on_disk: bool,
}

impl CheckpointCatalog {
    /// Waits for `work`, which is `what`, and says so now and then where that takes long.
    pub(super) async fn patiently<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        let say = |waited: Duration| {
            tracing::info!("waiting for {} for {} s: {what}", self.name, waited.as_secs());
        };
        patiently(work, say).await
    }

    /// Versions with a checkpoint, oldest first.
    pub(super) async fn versions(&self) -> Result<Vec<PolicyVersion>, CheckpointError> {
        let objects = self.objects().await?;
        Ok(objects
            .into_iter()
            .filter(|(_, names)| names.contains(STATE))
            .map(|(version, _)| version)
            .collect())
    }

    /// Writes a checkpoint, or writes it again: its parts first, what commits them last.
    pub(super) async fn write(
        &self,
        mut state: CheckpointState,
        weights: &Decoder,
        optimizer: &BTreeMap<String, Tensor>,
    ) -> Result<(), CheckpointError> {
        let version = state.version;
        let weights: BTreeMap<_, _> =
            weights.vars().iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
        self.remove(version, STATE).await?;
        for (name, tensors) in [(WEIGHTS, &weights), (OPTIMIZER, optimizer)] {
            let at = self.at(version, name);
            let part = tensors::put(&*self.store, &at, tensors).await.map_err(|error| match error {
                TensorsError::Store(source) => self.failed(&at)(source),
                TensorsError::Tensor(source) => CheckpointError::Tensor { at: self.called(&at), source },
            })?;
            state.parts.insert(name.to_owned(), part);
        }
        self.commit(version, state.to_text()).await
    }

    /// Copies a checkpoint from another catalog.
    pub(super) async fn copy(&self, from: &Self, version: PolicyVersion) -> Result<(), CheckpointError> {
        let text = from.get(version, STATE).await?;
        if self.get(version, STATE).await.is_ok_and(|here| here == text) {
            return Ok(());
        }
        let state = CheckpointState::parse(&text).map_err(|what| from.damaged(version, what))?;
        let at = self.at(version, STATE);
        match self.store.head(&at).await {
            // Where nothing is to be deleted, a store that lets nobody delete is as good.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(self.failed(&at)(error)),
            Ok(_) => self.remove(version, STATE).await?,
        }
        for (name, part) in &state.parts {
            if self.copy_part(from, version, name, part.bytes).await? != *part {
                return Err(from.damaged(version, format!("{name} does not match its recorded hash")));
            }
        }
        self.commit(version, text).await
    }

    async fn copy_part(
        &self,
        from: &Self,
        version: PolicyVersion,
        name: &str,
        bytes: u64,
    ) -> Result<Part, CheckpointError> {
        let (source, target) = (from.at(version, name), self.at(version, name));
        let mut writer = ObjectWriter::begin(&*self.store, &target).await.map_err(self.failed(&target))?;
        let copied = async {
            for at in (0..bytes).step_by(PIECE_BYTES) {
                let range = at..bytes.min(at + PIECE_BYTES as u64);
                let piece = from.store.get_range(&source, range).await;
                let piece = piece.map_err(|error| from.unreadable(version, name, error))?;
                writer.push(piece).await.map_err(self.failed(&target))?;
            }
            writer.finish().await.map_err(self.failed(&target))
        };
        match copied.await {
            Ok(part) => Ok(part),
            Err(error) => {
                writer.abandon().await;
                Err(error)
            }
        }
    }

    /// Reads a checkpoint and checks every byte of it.
    pub(super) async fn read(
        &self,
        version: PolicyVersion,
        run: &RunId,
        device: &Device,
    ) -> Result<Checkpoint, CheckpointError> {
        let state = self.state(version, run).await?;
        let weights = self.tensors(&state, WEIGHTS, device).await?;
        let optimizer = self.tensors(&state, OPTIMIZER, device).await?;
        Ok(Checkpoint { state, weights, optimizer })
    }

    /// Reads the weights of a checkpoint alone.
    pub(super) async fn weights(
        &self,
        version: PolicyVersion,
        run: &RunId,
        device: &Device,
    ) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
        let state = self.state(version, run).await?;
        self.tensors(&state, WEIGHTS, device).await
    }

    /// Reads what commits a checkpoint.
    async fn state(&self, version: PolicyVersion, run: &RunId) -> Result<CheckpointState, CheckpointError> {
        let text = self.get(version, STATE).await?;
        let state = CheckpointState::parse(&text).map_err(|what| self.damaged(version, what))?;
        if state.run != *run {
            return Err(CheckpointError::WrongRun {
                at: self.called(&self.at(version, STATE)),
                found: state.run,
            });
        }
        if state.version != version {
            return Err(self.damaged(version, format!("it says that it is {}", state.version)));
        }
        Ok(state)
    }

    async fn tensors(
        &self,
        state: &CheckpointState,
        name: &str,
        device: &Device,
    ) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
        let bytes = self.get(state.version, name).await?;
        let found = Part { bytes: bytes.len() as u64, blake3: ContentId::of(&bytes).to_string() };
        if state.parts.get(name) != Some(&found) {
            return Err(self.damaged(state.version, format!("{name} does not match its recorded hash")));
        }
        let tensors = safetensors::load_buffer(&bytes, device);
        let at = || self.called(&self.at(state.version, name));
        Ok(tensors.map_err(|source| CheckpointError::Tensor { at: at(), source })?.into_iter().collect())
    }

    /// Deletes what is not kept, once the checkpoint of `newest` is durable. That it cannot be
    /// deleted ends no run.
    pub(super) async fn tidy(&self, newest: PolicyVersion) {
        if let Err(error) = self.prune(newest).await {
            tracing::warn!(
                %error,
                "older checkpoints stay, and take room in {}: the learner needs the right to delete there",
                self.name
            );
        }
    }

    /// Deletes all but the newest checkpoints up to `newest`, and what was begun before
    /// it and never committed.
    async fn prune(&self, newest: PolicyVersion) -> Result<(), CheckpointError> {
        let mut objects = self.objects().await?;
        // Later ones were passed over as damaged: the run comes to them again, and writes them anew.
        objects.retain(|version, _| *version <= newest);
        let committed =
            objects.iter().rev().filter(|(_, names)| names.contains(STATE)).map(|(version, _)| *version);
        let kept: BTreeSet<PolicyVersion> = committed.take(self.keep).collect();
        for (version, names) in objects.iter().filter(|(version, _)| !kept.contains(version)) {
            // No longer a checkpoint, before it has lost a part.
            self.remove(*version, STATE).await?;
            for name in names {
                self.remove(*version, name).await?;
            }
        }
        Ok(())
    }

    async fn commit(&self, version: PolicyVersion, text: Vec<u8>) -> Result<(), CheckpointError> {
        let at = self.at(version, STATE);
        self.store.put(&at, text.into()).await.map(drop).map_err(self.failed(&at))
    }

    async fn get(&self, version: PolicyVersion, name: &str) -> Result<Vec<u8>, CheckpointError> {
        let read = async { self.store.get(&self.at(version, name)).await?.bytes().await };
        read.await.map(Vec::from).map_err(|error| self.unreadable(version, name, error))
    }

    async fn remove(&self, version: PolicyVersion, name: &str) -> Result<(), CheckpointError> {
        let at = self.at(version, name);
        match self.store.delete(&at).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(&at)(error)),
        }
    }

    /// The names of all objects, by version.
    async fn objects(&self) -> Result<BTreeMap<PolicyVersion, BTreeSet<String>>, CheckpointError> {
        let mut objects: BTreeMap<PolicyVersion, BTreeSet<String>> = BTreeMap::new();
        let mut found = self.store.list(Some(&self.root));
        while let Some(object) = found.try_next().await.map_err(self.failed(&self.root))? {
            let names: Option<Vec<_>> = object.location.prefix_match(&self.root).map(Iterator::collect);
            if let Some([version, name]) = names.as_deref()
                && let Ok(version) = version.as_ref().parse()
            {
                objects.entry(PolicyVersion(version)).or_default().insert(name.as_ref().to_owned());
            }
        }
        Ok(objects)
    }

    /// Below this, everything of a version.
    fn of(&self, version: PolicyVersion) -> Path {
        self.root.clone().join(format!("{:0VERSION_DIGITS$}", version.0))
    }

    fn at(&self, version: PolicyVersion, name: &str) -> Path {
        self.of(version).join(name)
    }

    fn called(&self, at: &Path) -> String {
        format!("{}/{at}", self.name)
    }

    fn damaged(&self, version: PolicyVersion, what: String) -> CheckpointError {
        CheckpointError::Damaged { at: self.called(&self.of(version)), what }
    }

    fn unreadable(&self, version: PolicyVersion, name: &str, error: Error) -> CheckpointError {
        match error {
            Error::NotFound { .. } => self.damaged(version, format!("{name} is missing")),
            error if self.on_disk => self.damaged(version, format!("{name}: {error}")),
            error => self.failed(&self.at(version, name))(error),
        }
    }

    fn failed(&self, at: &Path) -> impl Fn(Error) -> CheckpointError + use<> {
        let at = self.called(at);
        move |source| CheckpointError::Store { at: at.clone(), source }
    }
}
