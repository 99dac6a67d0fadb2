//! Which version is made next, by which plan, and what is built for it. Sans-IO.
//!
//! One version at a time is the *target*. A plan says how to make it from what is on disk: which pieces to
//! fetch, and which deltas to apply. Where the cheapest way leads through deltas of older versions, these are
//! fetched first, as *stones*; when one is complete, the way is planned anew. A target is finished although
//! newer versions have been announced meanwhile, as jumping at every publication could starve a slow link for
//! ever; it gives way to the newest one when nobody serves it any more, when nothing of it has come yet, or
//! when nothing more of it comes.
//!
//! The machine of dissemination knows nothing of this: to it deltas are pieces, and a chunk that was
//! built is a piece gained.
//!
//! Nothing that any manifest newer than the installed one names is deleted, even if the machine has
//! given its version up: what came of it may be what the next plan starts from.

use super::builder::Builder;
use super::plan::{DownloadPlan, Fetch};
use crate::dissemination::Supply;
use crate::run::epoch::Epoch;
use crate::run::version::PolicyVersion;
use crate::snapshot::fetch_plan::BuildStep;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::snapshot::piece_set::PieceSet;
use crate::wire::content_id::ContentId;
use crate::wire::time::UnixMillis;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Manifests that are kept beyond those that the machine keeps complete: of the installed version,
/// the target, a stone, a newer version, and some whose deltas may still be of use.
const MORE_MANIFESTS: usize = 8;
/// Deltas applied at once.
const MAX_BUILDING: usize = 2;
/// When no part of a delta has come for so long, deltas that no neighbour has are given up and
/// their chunks fetched: a neighbour that joined late has fetched chunks, and no deltas.
const PATIENCE_MS: u64 = 3_000;
/// After so many patiences in a row deltas are given up whatever neighbours claim.
/// Together they are longer than the machine bears the silence of a slow neighbour, which
/// may serve many others first.
const LAST_PATIENCE: u32 = 4;

/// When nothing of a target has come for so long, it gives way to a newer one: whoever holds the
/// rest may be gone.
const STALLED_MS: u64 = 20_000;

/// What the driver reports to the machine.
#[derive(Debug)]
pub(super) enum DownloadEvent {
    /// A manifest is known whose signature and form are right. An older one than the target
    /// serves for its deltas.
    Announced(Arc<Manifest>),
    /// All pieces of this manifest are here.
    Published(Arc<Manifest>),
    /// What the manifest names is safe from deletion.
    Kept { manifest: Arc<Manifest>, published: bool },
    /// What the disk says about the way to the target.
    Planned(DownloadPlan),
    /// A block is stored.
    Stored { version: PolicyVersion, piece: PieceIndex, whole: bool },
    /// A delta was applied, or does not help.
    Built { step: BuildStep, helped: bool },
    /// A stored piece no longer matches its name, and is gone.
    Damaged { version: PolicyVersion, piece: PieceIndex },
    /// The machine has all that it was told to fetch of a version.
    Complete(PolicyVersion),
    /// No neighbour serves this version.
    Refused(PolicyVersion),
    /// The machine has forgotten this version.
    Forgotten(PolicyVersion),
}

/// What the driver is to do next.
#[derive(Debug)]
pub(super) enum DownloadAction {
    /// Keep what the manifest names from deletion, then report `Kept`.
    Keep { manifest: Arc<Manifest>, published: bool },
    /// Draw a plan to the first of these (newest first), then report `Planned`.
    Plan(Vec<Arc<Manifest>>),
    /// Have the machine receive this, in place of what it receives.
    Fetch(Fetch),
    /// Have it want exactly these pieces.
    Want { version: PolicyVersion, pieces: PieceSet },
    /// Have it want one piece more.
    WantToo { version: PolicyVersion, piece: PieceIndex },
    /// Tell it of a piece that is whole.
    Gained { version: PolicyVersion, piece: PieceIndex },
    /// Tell it of a version all of which is here.
    Publish(Arc<Manifest>),
    /// Apply a delta, then report `Built`.
    Build(BuildStep),
    /// Every chunk of this snapshot is here.
    Install(Arc<Manifest>),
    /// Delete what only this manifest names.
    Delete(Arc<Manifest>),
    /// Delete what no kept manifest names.
    Sweep,
}

/// What the machine was told to receive.
#[derive(Debug)]
struct Fetching {
    version: PolicyVersion,
    wanted: PieceSet,
}

/// A plan that is being drawn.
#[derive(Debug, Default)]
struct Planning {
    /// What became whole since. Bounded by the pieces of the manifests.
    since: BTreeSet<ContentId>,
    /// Whether it is of no use any more.
    outdated: bool,
}

/// The versions on their way.
#[derive(Debug)]
pub(super) struct Downloads {
    /// Manifests that are kept at most.
    limit: usize,
    /// Versions whose manifests are about to be kept, and the epochs of these.
    arriving: BTreeMap<PolicyVersion, Epoch>,
    /// Manifests of an epoch that has ended. What they name is kept until a manifest of the new one says what
    /// of it is of use.
    ended: Vec<Arc<Manifest>>,
    /// What these name is kept on disk.
    manifests: BTreeMap<PolicyVersion, Arc<Manifest>>,
    /// Those of them that the machine knows.
    served: BTreeSet<PolicyVersion>,
    installed: Option<PolicyVersion>,
    target: Option<PolicyVersion>,
    /// Whether anything of the target, or of a stone on the way to it, was stored.
    begun: bool,
    /// Versions below are no stones.
    floor: PolicyVersion,
    planning: Option<Planning>,
    fetching: Option<Fetching>,
    /// Whether all that the plan wants of the target is here.
    fetched: bool,
    builder: Builder,
    /// When deltas that nobody has are given up, and how many patiences passed without a part of a delta.
    patience: Option<UnixMillis>,
    lost_patiences: u32,
    /// When the target counts as stalled.
    stalled: Option<UnixMillis>,
    /// Whether what earlier processes left behind has been deleted.
    swept: bool,
    actions: VecDeque<DownloadAction>,
}

impl Downloads {
    /// Nothing is known; the machine keeps `kept` complete versions.
    pub(super) fn new(kept: usize) -> Self {
        Self {
            limit: kept + MORE_MANIFESTS,
            arriving: BTreeMap::new(),
            ended: Vec::new(),
            manifests: BTreeMap::new(),
            served: BTreeSet::new(),
            installed: None,
            target: None,
            begun: false,
            floor: PolicyVersion(0),
            planning: None,
            fetching: None,
            fetched: false,
            builder: Builder::default(),
            patience: None,
            lost_patiences: 0,
            stalled: None,
            swept: false,
            actions: VecDeque::new(),
        }
    }

    /// Takes in what happened.
    pub(super) fn handle(&mut self, now: UnixMillis, event: DownloadEvent) {
        match event {
            DownloadEvent::Announced(manifest) => self.arrives(manifest, false),
            DownloadEvent::Published(manifest) => self.arrives(manifest, true),
            DownloadEvent::Kept { manifest, published } => self.kept(manifest, published),
            DownloadEvent::Planned(plan) => self.planned(now, plan),
            DownloadEvent::Stored { version, piece, whole } => self.stored(now, version, piece, whole),
            DownloadEvent::Built { step, helped: true } => self.built(step),
            DownloadEvent::Built { step, helped: false } => {
                self.builder.ended(&step);
                self.builder.forget(step.chunk);
                self.want_whole(PieceIndex(step.chunk.0));
            }
            DownloadEvent::Damaged { version, piece } => self.damaged(version, piece),
            DownloadEvent::Complete(version) => self.complete(version),
            DownloadEvent::Refused(version) => self.refused(version),
            DownloadEvent::Forgotten(version) => {
                self.served.remove(&version);
                self.fetching.take_if(|fetching| fetching.version == version);
                self.retire();
            }
        }
        self.build();
    }

    /// The learner has begun a new epoch: nothing is known of its versions.
    pub(super) fn forget(&mut self) {
        self.ended.extend(std::mem::take(&mut self.manifests).into_values());
        self.arriving.clear();
        self.served.clear();
        (self.installed, self.target, self.fetching, self.patience) = (None, None, None, None);
        (self.begun, self.fetched, self.floor) = (false, false, PolicyVersion(0));
        self.planning.iter_mut().for_each(|planning| planning.outdated = true);
        self.builder.clear();
    }

    /// What to do next, if anything.
    pub(super) fn poll_action(&mut self) -> Option<DownloadAction> {
        self.actions.pop_front()
    }

    /// When [`Downloads::lose_patience`] wants to be called.
    pub(super) fn timeout(&self) -> Option<UnixMillis> {
        let stalled = self.stalled.filter(|_| self.may_move_on());
        [self.patience, stalled].into_iter().flatten().min()
    }

    /// Whether a newer version than the target is known.
    fn may_move_on(&self) -> bool {
        let newest = self.manifests.last_key_value().map(|(version, _)| *version);
        self.target.is_some() && newest > self.target
    }

    fn arrives(&mut self, manifest: Arc<Manifest>, published: bool) {
        let version = manifest.version;
        let past = !published && self.installed >= Some(version);
        let known = self.manifests.contains_key(&version) || past;
        let arrives = self.arriving.contains_key(&version);
        if !known && !arrives && self.arriving.len() < self.limit {
            self.arriving.insert(version, manifest.epoch);
            self.actions.push_back(DownloadAction::Keep { manifest, published });
        }
    }

    fn kept(&mut self, manifest: Arc<Manifest>, published: bool) {
        let version = manifest.version;
        if !published && self.arriving.get(&version) != Some(&manifest.epoch) {
            // It was announced before the learner began anew.
            self.actions.push_back(DownloadAction::Delete(manifest));
            return;
        }
        self.arriving.remove(&version);
        if published {
            // Two publications may be kept in either order.
            self.installed = self.installed.max(Some(version));
            self.manifests.insert(version, manifest.clone());
            self.served.insert(version);
            self.actions.push_back(DownloadAction::Publish(manifest));
            return;
        }
        if self.installed >= Some(version) {
            self.actions.push_back(DownloadAction::Delete(manifest));
            return;
        }
        self.manifests.insert(version, manifest.clone());
        self.actions.extend(self.ended.drain(..).map(DownloadAction::Delete));
        match self.target {
            Some(target) if version < target => self.plan(),
            Some(_) if self.begun => {}
            _ => self.aim(),
        }
        self.prune();
    }

    /// Makes the newest version the target, if it is newer than what is. Waits for older manifests
    /// that are about to be kept: the cheap way may lead through their deltas.
    fn aim(&mut self) {
        let newest = self.manifests.last_key_value().map(|(version, _)| *version);
        if self.arriving.first_key_value().is_some_and(|(older, _)| Some(*older) < newest) {
            return;
        }
        if newest > self.installed && newest > self.target {
            self.target = newest;
            self.fetching = None;
            (self.begun, self.floor) = (false, PolicyVersion(0));
            self.plan();
        }
    }

    /// Plans the way to the target.
    fn plan(&mut self) {
        let Some(target) = self.target else { return };
        self.fetched = false;
        if let Some(planning) = &mut self.planning {
            planning.outdated = true;
            return;
        }
        self.planning = Some(Planning::default());
        let useful = self.manifests.range(self.floor.min(target)..=target).rev();
        self.actions.push_back(DownloadAction::Plan(useful.map(|(_, manifest)| manifest.clone()).collect()));
    }

    fn planned(&mut self, now: UnixMillis, plan: DownloadPlan) {
        let Some(Planning { since, outdated }) = self.planning.take() else { return };
        if outdated {
            return self.plan();
        }
        self.builder.follow(&plan, &since);
        let Some(mut fetch) = plan.fetches.into_iter().next() else { return };
        fetch.gained(&since);
        let version = fetch.manifest.version;
        self.patience = fetch.wants_deltas().then(|| now.plus(PATIENCE_MS));
        self.lost_patiences = 0;
        self.stalled = Some(now.plus(STALLED_MS));
        self.fetching = Some(Fetching { version, wanted: fetch.wanted.clone() });
        self.served.insert(version);
        self.actions.push_back(DownloadAction::Fetch(fetch));
    }

    fn stored(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex, whole: bool) {
        let Some(manifest) = self.manifests.get(&version) else { return };
        if self.fetching.as_ref().is_some_and(|fetching| fetching.version == version) {
            self.begun = true;
            self.stalled = Some(now.plus(STALLED_MS));
            if self.patience.is_some() && manifest.is_delta(piece) {
                (self.patience, self.lost_patiences) = (Some(now.plus(PATIENCE_MS)), 0);
            }
        }
        if let Some(piece) = manifest.piece(piece).filter(|_| whole) {
            self.whole(&piece.id);
        }
    }

    /// A piece is whole on disk.
    fn whole(&mut self, id: &ContentId) {
        if let Some(planning) = &mut self.planning {
            planning.since.insert(*id);
        }
        self.builder.whole(id);
    }

    fn built(&mut self, step: BuildStep) {
        self.builder.ended(&step);
        self.whole(&step.target.id);
        let has = |version: &&PolicyVersion| {
            self.manifests.get(*version).is_some_and(|m| m.chunk_id(step.chunk) == Some(step.target.id))
        };
        let piece = PieceIndex(step.chunk.0);
        let gained =
            self.served.iter().filter(has).map(|version| DownloadAction::Gained { version: *version, piece });
        self.actions.extend(gained);
    }

    fn damaged(&mut self, version: PolicyVersion, piece: PieceIndex) {
        let Some(manifest) = self.manifests.get(&version) else { return };
        let chunk = !manifest.is_delta(piece);
        if let Some(planning) = &mut self.planning {
            planning.outdated = true;
        }
        if self.target == Some(version) && chunk {
            self.want_whole(piece);
        } else if self.target.is_none() && self.installed == Some(version) && chunk {
            // Whoever is to install it cannot: it is made once more.
            self.installed = None;
            self.aim();
        }
    }

    fn complete(&mut self, version: PolicyVersion) {
        if self.fetching.as_ref().is_none_or(|fetching| fetching.version != version) {
            return;
        }
        self.patience = None;
        if self.target == Some(version) {
            self.fetched = self.planning.is_none();
        } else {
            // A stone: the way to the target is shorter now.
            self.fetching = None;
            self.plan();
        }
    }

    fn refused(&mut self, version: PolicyVersion) {
        if self.fetching.as_ref().is_none_or(|fetching| fetching.version != version) {
            return;
        }
        let target = self.target;
        self.aim();
        if self.target == target && target > Some(version) {
            self.pass_over(version);
        }
    }

    /// Does without this stone.
    fn pass_over(&mut self, stone: PolicyVersion) {
        self.floor = stone.next();
        self.fetching = None;
        self.plan();
    }

    /// Something has not come for a while. A stalled target gives way to a newer one; deltas that no
    /// neighbour has are done without. `supply` says where a piece of a version can be had.
    pub(super) fn lose_patience(
        &mut self,
        now: UnixMillis,
        supply: impl Fn(PolicyVersion, PieceIndex) -> Supply,
    ) {
        if self.stalled.is_some_and(|at| now >= at) && self.may_move_on() {
            tracing::info!(target = ?self.target, "nothing of a snapshot has come for a while: turning to a newer one");
            self.stalled = Some(now.plus(STALLED_MS));
            return self.aim();
        }
        if self.patience.is_none_or(|patience| now < patience) {
            return;
        }
        self.patience = Some(now.plus(PATIENCE_MS));
        self.lost_patiences += 1;
        let last = self.lost_patiences >= LAST_PATIENCE;
        let Some(fetching) = &mut self.fetching else { return };
        let version = fetching.version;
        let Some(manifest) = self.manifests.get(&version) else { return };
        let hopeless = |delta: &PieceIndex| {
            let chunk = manifest.chunk_piece(manifest.chunk_of(*delta));
            manifest.is_delta(*delta)
                && match (supply(version, *delta), supply(version, chunk)) {
                    // Perhaps nobody has got so far.
                    (Supply::Here, _) | (Supply::Nowhere, Supply::Nowhere) => false,
                    (Supply::Nowhere, _) => true,
                    (Supply::Offered, _) => last,
                }
        };
        let hopeless: Vec<_> = fetching.wanted.iter().filter(hopeless).collect();
        if hopeless.is_empty() {
            return;
        }
        tracing::info!(%version, deltas = hopeless.len(), "doing without deltas that no neighbour serves");
        if self.target != Some(version) {
            return self.pass_over(version);
        }
        for delta in hopeless {
            let chunk = manifest.chunk_of(delta);
            self.builder.forget(chunk);
            fetching.wanted.remove(delta);
            fetching.wanted.insert(manifest.chunk_piece(chunk));
        }
        self.fetched = false;
        self.actions.push_back(DownloadAction::Want { version, pieces: fetching.wanted.clone() });
    }

    /// Fetches a chunk of the target whole. While a stone is fetched nothing is to be done: the
    /// plan that follows sees what is missing.
    fn want_whole(&mut self, piece: PieceIndex) {
        if let Some(fetching) = &mut self.fetching
            && self.target == Some(fetching.version)
        {
            fetching.wanted.insert(piece);
            self.fetched = false;
            self.actions.push_back(DownloadAction::WantToo { version: fetching.version, piece });
        }
    }

    /// Applies the deltas whose inputs are there; installs when that was the last thing missing.
    fn build(&mut self) {
        while let Some(step) = self.builder.start(MAX_BUILDING) {
            self.actions.push_back(DownloadAction::Build(step));
        }
        if self.fetched && self.builder.is_done() {
            self.install();
        }
    }

    fn install(&mut self) {
        let Some(target) = self.target.take() else { return };
        self.fetched = false;
        self.fetching = None;
        self.patience = None;
        self.installed = Some(target);
        self.actions.extend(self.manifests.get(&target).cloned().map(DownloadAction::Install));
        if !std::mem::replace(&mut self.swept, true) {
            self.actions.push_back(DownloadAction::Sweep);
        }
        self.retire();
        self.aim();
    }

    /// Deletes versions that are older than the installed one, once the machine serves them no more.
    fn retire(&mut self) {
        let (installed, served) = (self.installed, &self.served);
        let old = self.manifests.extract_if(.., |v, _| Some(*v) < installed && !served.contains(v));
        self.actions.extend(old.map(|(_, manifest)| DownloadAction::Delete(manifest)));
    }

    /// Forgets the oldest manifests beyond the limit.
    fn prune(&mut self) {
        while self.manifests.len() > self.limit {
            let needed = [self.installed, self.target];
            let may_go = |v: &&PolicyVersion| !needed.contains(&Some(**v)) && !self.served.contains(v);
            let Some(oldest) = self.manifests.keys().find(may_go).copied() else { return };
            self.actions.extend(self.manifests.remove(&oldest).map(DownloadAction::Delete));
            // A plan on its way may go by it.
            self.planning.iter_mut().for_each(|planning| planning.outdated = true);
        }
    }
}

#[cfg(test)]
mod tests;
