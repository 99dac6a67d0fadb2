//! Doing what the downloads say, with the machine and the disk.

use super::Driver;
use crate::dissemination::Input;
use crate::net::snapshots::downloads::{Action, Event};
use crate::net::snapshots::messages::Command;
use crate::net::snapshots::plan::{Fetch, Plan};
use crate::run::version::PolicyVersion;
use crate::snapshot::fetch_plan::Step;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::store::ChunkStore;
use crate::wire::time::UnixMillis;
use std::sync::Arc;

impl Driver {
    pub(super) fn act(&mut self, now: UnixMillis, action: Action) {
        match action {
            Action::Keep { manifest, published } => self.on_disk(move |store| {
                store.keep(&manifest);
                Event::Kept { manifest, published }
            }),
            Action::Plan(manifests) => {
                self.on_disk(move |store| Event::Planned(Plan::draw(&manifests, |piece| store.held(piece))))
            }
            Action::Fetch(Fetch { manifest, have, wanted }) => {
                self.relay.handle(now, Input::Announced { manifest, have, wanted });
            }
            Action::Want { version, pieces } => self.relay.handle(now, Input::Wanted { version, pieces }),
            Action::WantToo { version, piece } => {
                self.relay.handle(now, Input::WantedToo { version, piece });
            }
            Action::Gained { version, piece } => self.relay.handle(now, Input::Gained { version, piece }),
            Action::Publish(manifest) => {
                self.times.announced(manifest.version, now);
                self.relay.handle(now, Input::Published(manifest));
            }
            Action::Build(step) => self.on_disk(move |store| apply(store, step)),
            Action::Install(manifest) => {
                self.times.complete(manifest.version, now);
                self.install = Some(manifest);
            }
            Action::Delete(manifest) => self.delete(manifest),
            Action::Sweep => self.sweep(),
        }
    }

    /// Deletes a chunk that its owner could not use, and then sees to it that it comes again: what is on disk is not looked at when its
    /// groups arrive.
    pub(super) fn delete_damaged(&self, version: PolicyVersion, piece: PieceIndex) {
        let named = self.relay.manifest(version).and_then(|manifest| manifest.piece(piece));
        self.on_disk(move |store| {
            if let Some(Err(error)) = named.map(|named| store.delete(&named.id)) {
                tracing::warn!(%error, "a damaged chunk could not be deleted");
            }
            Event::Damaged { version, piece }
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
    fn on_disk(&self, work: impl FnOnce(&ChunkStore) -> Event + Send + 'static) {
        let (store, inbox) = (self.store.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let done = tokio::task::spawn_blocking(move || work(&store)).await;
            if let (Ok(event), Some(inbox)) = (done, inbox.upgrade()) {
                // The driver has stopped: nobody is left to tell.
                let _ = inbox.send(Command::Downloads(event)).await;
            }
        });
    }
}

fn apply(store: &ChunkStore, step: Step) -> Event {
    let Step { target, base, delta, .. } = step;
    let applied = store.apply(&delta, &base, &target.id, target.length);
    if let Err(error) = &applied {
        tracing::warn!(%error, chunk = step.chunk.0, "fetching a chunk whose delta did not help");
    }
    Event::Built { step, helped: applied.is_ok() }
}
