//! Doing what the downloads say, with the machine and the disk.

use super::SnapshotDriver;
use crate::dissemination::Input;
use crate::net::snapshots::downloads::{DownloadAction, DownloadEvent};
use crate::net::snapshots::messages::DriverCommand;
use crate::net::snapshots::plan::{DownloadPlan, Fetch};
use crate::run::version::PolicyVersion;
use crate::snapshot::fetch_plan::BuildStep;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::store::ChunkStore;
use crate::wire::time::UnixMillis;
use std::sync::Arc;

impl SnapshotDriver {
    pub(super) fn act(&mut self, now: UnixMillis, action: DownloadAction) {
        match action {
            DownloadAction::Keep { manifest, published } => self.on_disk(move |store| {
                store.keep(&manifest);
                DownloadEvent::Kept { manifest, published }
            }),
            DownloadAction::Plan(manifests) => self.on_disk(move |store| {
                DownloadEvent::Planned(DownloadPlan::draw(&manifests, |piece| store.held(piece)))
            }),
            DownloadAction::Fetch(Fetch { manifest, have, wanted }) => {
                self.machine.handle(now, Input::Announced { manifest, have, wanted });
            }
            DownloadAction::Want { version, pieces } => {
                self.machine.handle(now, Input::Wanted { version, pieces })
            }
            DownloadAction::WantToo { version, piece } => {
                self.machine.handle(now, Input::WantedToo { version, piece });
            }
            DownloadAction::Gained { version, piece } => {
                self.machine.handle(now, Input::Gained { version, piece })
            }
            DownloadAction::Publish(manifest) => {
                self.times.announced(manifest.version, now);
                self.machine.handle(now, Input::Published(manifest));
            }
            DownloadAction::Build(step) => self.on_disk(move |store| apply(store, step)),
            DownloadAction::Install(manifest) => {
                self.times.complete(manifest.version, now);
                self.install = Some(manifest);
            }
            DownloadAction::Delete(manifest) => self.delete(manifest),
            DownloadAction::Sweep => self.sweep(),
        }
    }

    /// Deletes a chunk that its owner could not use, and then sees to it that it comes again: what
    /// is on disk is not looked at when its blocks arrive.
    pub(super) fn delete_damaged(&self, version: PolicyVersion, piece: PieceIndex) {
        let named = self.machine.manifest(version).and_then(|manifest| manifest.piece(piece));
        self.on_disk(move |store| {
            if let Some(Err(error)) = named.map(|named| store.delete(&named.id)) {
                tracing::warn!(%error, "a damaged chunk could not be deleted");
            }
            DownloadEvent::Damaged { version, piece }
        });
    }

    fn delete(&self, manifest: Arc<Manifest>) {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || match store.discard(&manifest) {
            Ok(files) => tracing::debug!(version = %manifest.version, files, "deleted an old version"),
            Err(error) => tracing::warn!(%error, "could not delete an old version"),
        });
    }

    fn sweep(&self) {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.sweep() {
                tracing::warn!(%error, "could not delete what an earlier process left behind");
            }
        });
    }

    /// Runs `work`, which looks at the disk, off the async threads; what it says comes back as a command.
    fn on_disk(&self, work: impl FnOnce(&ChunkStore) -> DownloadEvent + Send + 'static) {
        let (store, inbox) = (self.store.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let done = tokio::task::spawn_blocking(move || work(&store)).await;
            if let (Ok(event), Some(inbox)) = (done, inbox.upgrade()) {
                // The driver has stopped: nobody is left to tell.
                let _ = inbox.send(DriverCommand::Downloads(event)).await;
            }
        });
    }
}

fn apply(store: &ChunkStore, step: BuildStep) -> DownloadEvent {
    let BuildStep { target, base, delta, .. } = step;
    let applied = store.apply(&delta, &base, &target.id, target.length);
    if let Err(error) = &applied {
        tracing::warn!(%error, chunk = step.chunk.0, "fetching a chunk whose delta did not help");
    }
    DownloadEvent::Built { step, helped: applied.is_ok() }
}
