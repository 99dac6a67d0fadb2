//! Which version is being fetched, by which plan, and what is built.
//!
//! The machine gets one version at a time to fetch. Where the cheapest way to the newest version leads through deltas of an older one,
//! that one comes first, as a stepping stone; when it is complete, the way is planned anew from what is then on disk.

use super::{Command, Driver};
use crate::content::ContentId;
use crate::groups::GroupMask;
use crate::manifest::{Manifest, PieceIndex};
use crate::net::snapshots::plan::{Builder, Fetch, Plan};
use crate::piece_set::PieceSet;
use crate::recipe::Step;
use crate::relay::Input;
use crate::store::{ChunkStore, StoreError};
use crate::time::UnixMillis;
use crate::version::PolicyVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Manifests kept for their deltas beyond those that the machine keeps.
const MAX_MANIFESTS: usize = 8;
/// Deltas applied at once.
const MAX_BUILDING: usize = 2;
/// When nothing has come for so long, deltas that no neighbour has are given up and their chunks fetched: a neighbour that joined late
/// has fetched chunks, and no deltas.
const PATIENCE_MS: u64 = 3_000;

pub(super) struct Downloads {
    store: Arc<ChunkStore>,
    inbox: mpsc::WeakSender<Command>,
    /// Announced and published, and not discarded: what they name is kept on disk.
    manifests: BTreeMap<PolicyVersion, Arc<Manifest>>,
    pub(super) builder: Builder,
    /// What the machine was last told to fetch of the newest version.
    wanted: PieceSet,
    /// The stepping stone being fetched, and what is wanted of it.
    stone: Option<(PolicyVersion, PieceSet)>,
    /// Versions through whose deltas a way is looked for.
    depth: usize,
    /// Pieces of the version being fetched of which some neighbour told.
    heard: PieceSet,
    /// When deltas that nobody has are given up.
    patience: Option<UnixMillis>,
    /// Whether every wanted piece of the newest version is here.
    complete: bool,
    /// Whether what earlier processes left behind has been deleted.
    swept: bool,
}

impl Downloads {
    pub(super) fn new(store: Arc<ChunkStore>, inbox: mpsc::WeakSender<Command>) -> Self {
        Self {
            store,
            inbox,
            manifests: BTreeMap::new(),
            builder: Builder::default(),
            wanted: PieceSet::default(),
            stone: None,
            depth: MAX_MANIFESTS,
            heard: PieceSet::default(),
            patience: None,
            complete: false,
            swept: false,
        }
    }

    /// Takes in a manifest; false when it is known or older than what is fetched.
    pub(super) fn announce(&mut self, manifest: Arc<Manifest>) -> bool {
        let newer = self.newest().is_none_or(|newest| newest < manifest.version);
        if newer {
            self.manifests.insert(manifest.version, manifest.clone());
            (self.complete, self.depth) = (false, MAX_MANIFESTS);
            self.plan(Some(manifest));
        }
        newer
    }

    /// Takes in a manifest all of whose pieces are here.
    pub(super) fn publish(&mut self, manifest: Arc<Manifest>) {
        if self.manifests.insert(manifest.version, manifest.clone()).is_none() {
            self.on_disk(move |store| {
                store.keep(&manifest);
                Command::Kept(manifest)
            });
        }
    }

    pub(super) fn newest(&self) -> Option<PolicyVersion> {
        self.manifests.last_key_value().map(|(version, _)| *version)
    }

    /// Plans the way to the newest version; the plan comes back as a command.
    fn plan(&self, keep: Option<Arc<Manifest>>) {
        let manifests: Vec<_> = self.manifests.values().rev().take(self.depth).cloned().collect();
        self.on_disk(move |store| {
            if let Some(manifest) = keep {
                store.keep(&manifest);
            }
            Command::Planned(Plan::draw(store, &manifests))
        });
    }

    /// Follows a plan: what is to be fetched first. `None` when a newer version has been announced since; its plan follows.
    pub(super) fn planned(&mut self, now: UnixMillis, plan: Plan) -> Option<Fetch> {
        let newest = self.newest()?;
        if plan.fetches.last()?.manifest.version != newest {
            return None;
        }
        self.builder.follow(&plan);
        let first = plan.fetches.into_iter().next()?;
        let version = first.manifest.version;
        if version == newest {
            self.wanted = first.wanted.clone();
            self.stone = None;
        } else {
            self.stone = Some((version, first.wanted.clone()));
        }
        self.heard = PieceSet::default();
        self.patience = first.wants_deltas().then(|| now.plus(PATIENCE_MS));
        Some(first)
    }

    /// Something was stored.
    pub(super) fn progressed(&mut self, now: UnixMillis) {
        if self.patience.is_some() {
            self.patience = Some(now.plus(PATIENCE_MS));
        }
    }

    /// A neighbour told what it holds.
    pub(super) fn hear(&mut self, version: PolicyVersion, news: &[(PieceIndex, GroupMask)]) {
        let fetched = self.stone.as_ref().map(|(stone, _)| *stone).or(self.newest());
        if self.patience.is_some() && fetched == Some(version) {
            for (piece, _) in news {
                self.heard.insert(*piece);
            }
        }
    }

    /// When [`Driver::lose_patience`] wants to be called.
    pub(super) fn timeout(&self) -> Option<UnixMillis> {
        self.patience
    }

    /// The machine forgot a version: what nothing else names may be deleted.
    pub(super) fn discard(&mut self, version: PolicyVersion) {
        if let Some(manifest) = self.manifests.remove(&version) {
            self.delete(manifest);
        }
    }

    fn delete(&self, manifest: Arc<Manifest>) {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || match store.discard(&manifest) {
            Ok(files) => tracing::debug!(version = %manifest.version, files, "deleted an old version"),
            Err(error) => tracing::warn!(%error, "could not delete an old version"),
        });
    }

    fn sweep(&mut self) {
        if !std::mem::replace(&mut self.swept, true) {
            let store = self.store.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(error) = store.sweep() {
                    tracing::warn!(%error, "could not delete what an earlier process left behind");
                }
            });
        }
    }

    /// Runs `work`, which looks at the disk, off the async threads; its result comes back as a command.
    fn on_disk(&self, work: impl FnOnce(&ChunkStore) -> Command + Send + 'static) {
        let (store, inbox) = (self.store.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let done = tokio::task::spawn_blocking(move || work(&store)).await;
            if let (Ok(command), Some(inbox)) = (done, inbox.upgrade()) {
                // The driver has stopped: nobody is left to tell.
                let _ = inbox.send(command).await;
            }
        });
    }
}

impl Driver {
    /// Applies the deltas whose inputs are there; installs when that was the last thing missing.
    pub(super) fn build(&mut self) {
        while let Some(step) = self.downloads.builder.start(MAX_BUILDING) {
            self.downloads.on_disk(move |store| {
                let Step { target, base, delta, .. } = step;
                let result = store.apply(&delta, &base, &target.id, target.length);
                Command::Built { step, result }
            });
        }
        if !(self.downloads.complete && self.downloads.builder.is_done()) {
            return;
        }
        let newest = self.downloads.newest().and_then(|newest| self.relay.manifest(newest)).cloned();
        if let Some(manifest) = newest {
            self.downloads.complete = false;
            self.downloads.sweep();
            self.times.complete(manifest.version, crate::clock::now());
            self.install = Some(manifest);
        }
    }

    /// A delta was applied, or its chunk is fetched instead.
    pub(super) fn built(&mut self, now: UnixMillis, step: Step, result: Result<(), StoreError>) {
        match result {
            Ok(()) => {
                self.downloads.builder.built(&step);
                self.gained(now, &step.target.id, PieceIndex(step.chunk.0));
            }
            Err(error) => {
                tracing::warn!(%error, chunk = step.chunk.0, "fetching a chunk whose delta did not help");
                self.downloads.builder.failed(&step);
                self.want(now, PieceIndex(step.chunk.0));
            }
        }
        self.build();
    }

    /// A piece turned out to be damaged on disk. A chunk of the newest version is fetched, however it came here before.
    pub(super) fn damaged(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex) {
        self.relay.handle(now, Input::Damaged { version, piece });
        let newest = self.downloads.manifests.last_key_value();
        if newest.is_some_and(|(v, newest)| *v == version && (piece.0 as usize) < newest.chunks.len()) {
            self.want(now, piece);
        }
    }

    /// Nothing has come for a while: does without deltas that no neighbour told of.
    pub(super) fn lose_patience(&mut self, now: UnixMillis) {
        let downloads = &mut self.downloads;
        if downloads.patience.is_none_or(|patience| now < patience) {
            return;
        }
        downloads.patience = Some(now.plus(PATIENCE_MS));
        let Some((newest, manifest)) = downloads.manifests.last_key_value() else { return };
        let (version, heard) = (*newest, &downloads.heard);
        if let Some((stone, wanted)) = &downloads.stone {
            if wanted.iter().any(|piece| !heard.contains(piece)) {
                tracing::info!(
                    version = stone.0,
                    "no neighbour has the deltas of an older version: doing without"
                );
                let (version, pieces) = (*stone, PieceSet::default());
                downloads.depth = 1;
                // Wanting nothing of it completes it, and then the way is planned anew.
                self.relay.handle(now, Input::Wanted { version, pieces });
            }
            return;
        }
        let missed = |delta: &PieceIndex| {
            let chunk = PieceIndex(manifest.chunk_of(*delta).0);
            *delta != chunk && !heard.contains(*delta) && heard.contains(chunk)
        };
        let missed: Vec<_> = downloads.wanted.iter().filter(missed).collect();
        if missed.is_empty() {
            return;
        }
        tracing::info!(
            chunks = missed.len(),
            "no neighbour has the deltas of these chunks: fetching them whole"
        );
        for delta in missed {
            let chunk = manifest.chunk_of(delta);
            downloads.builder.forget(chunk);
            downloads.wanted.remove(delta);
            downloads.wanted.insert(PieceIndex(chunk.0));
        }
        self.relay.handle(now, Input::Wanted { version, pieces: downloads.wanted.clone() });
    }

    /// Fetches one piece more of the newest version.
    fn want(&mut self, now: UnixMillis, piece: PieceIndex) {
        if let Some(version) = self.downloads.newest()
            && self.downloads.wanted.insert(piece)
        {
            self.downloads.complete = false;
            let pieces = self.downloads.wanted.clone();
            self.relay.handle(now, Input::Wanted { version, pieces });
        }
    }

    /// Forgets the oldest manifests that the machine does not keep, beyond [`MAX_MANIFESTS`].
    pub(super) fn prune(&mut self) {
        let excess = self.downloads.manifests.len().saturating_sub(MAX_MANIFESTS);
        let unknown = |version: &&PolicyVersion| self.relay.manifest(**version).is_none();
        let old: Vec<_> = self.downloads.manifests.keys().filter(unknown).take(excess).copied().collect();
        old.into_iter().for_each(|version| self.downloads.discard(version));
    }

    /// Tells the machine of a chunk, in every version that has it.
    fn gained(&mut self, now: UnixMillis, id: &ContentId, piece: PieceIndex) {
        for (version, manifest) in &self.downloads.manifests {
            if manifest.chunks.get(piece.0 as usize) == Some(id) {
                self.relay.handle(now, Input::Gained { version: *version, piece });
            }
        }
    }

    /// All that was wanted of a version is stored.
    pub(super) fn complete(&mut self, version: PolicyVersion) {
        if Some(version) == self.downloads.newest() {
            self.downloads.complete = true;
            self.build();
        } else {
            // A stepping stone, or an older version: the way to the newest is shorter now.
            self.downloads.plan(None);
        }
    }
}
