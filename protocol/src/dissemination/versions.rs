//! Which version is being received, and which are kept.

use super::fetching::asked_again;
use super::transfer::Transfer;
use super::{Dissemination, Output};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::snapshot::piece_set::{Holdings, PieceSet};
use crate::wire::time::UnixMillis;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Complete versions that stay available to consumers, unless a peer is told otherwise.
pub const KEPT_VERSIONS: usize = 3;

/// A version to receive.
pub(super) struct Announcement {
    pub(super) manifest: Arc<Manifest>,
    pub(super) have: Holdings,
    pub(super) wanted: PieceSet,
}

impl Dissemination {
    /// Receives this version from now on, in place of the one that is being received.
    pub(super) fn announced(&mut self, now: UnixMillis, announcement: Announcement) {
        if self.config.source {
            return;
        }
        let Announcement { manifest, have, wanted } = announcement;
        let version = manifest.version;
        if self.current != Some(version) {
            self.set_aside(now, version);
            self.turn_to(version);
        }
        self.untold = true;
        let Entry::Vacant(new) = self.versions.entry(version) else {
            have.iter().for_each(|(piece, blocks)| self.hold(now, version, piece, blocks));
            return self.wanted(now, version, wanted);
        };
        new.insert(Transfer::new(manifest, &have, wanted));
        self.refuse_passed_over(version);
        self.check_complete(now);
        self.fetch(now);
    }

    pub(super) fn published(&mut self, now: UnixMillis, manifest: Arc<Manifest>) {
        let version = manifest.version;
        self.versions.insert(version, Transfer::whole(manifest));
        self.refuse_passed_over(version);
        self.begin_super_seeding(now, version);
        self.discard_old();
        self.untold = true;
    }

    pub(super) fn wanted(&mut self, now: UnixMillis, version: PolicyVersion, pieces: PieceSet) {
        let current = self.current;
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        transfer.wish(pieces);
        if current == Some(version) {
            for (piece, blocks) in asked_again(&self.neighbours.edges) {
                transfer.ask(piece, blocks);
            }
            for piece in (0..transfer.pieces()).map(PieceIndex) {
                self.neighbours.refresh(piece, transfer.open().get(piece));
            }
            self.check_complete(now);
        } else {
            self.resume(version);
        }
        self.fetch(now);
    }

    pub(super) fn wanted_too(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex) {
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        transfer.wish_for(piece);
        if self.current == Some(version) {
            self.neighbours.refresh(piece, transfer.open().get(piece));
        } else {
            self.resume(version);
        }
        self.fetch(now);
    }

    pub(super) fn gained(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex) {
        self.hold(now, version, piece, BlockMask(u64::MAX));
        if self.current == Some(version) {
            self.check_complete(now);
            self.fetch(now);
        }
    }

    /// Notes blocks that are on disk and did not come from a neighbour.
    fn hold(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex, blocks: BlockMask) {
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        let new = transfer.store(piece, blocks);
        self.untold |= !new.is_empty();
        if self.current == Some(version) && !new.is_empty() {
            self.settle(now, version, piece, new);
        }
    }

    pub(super) fn damaged(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex) {
        let newest = self.newest_complete();
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        transfer.damage(piece);
        if self.config.source {
            // Nobody can repair the source but the source: whoever asks for this piece is refused.
            return;
        }
        if self.current == Some(version) {
            let open = transfer.open().get(piece);
            self.neighbours.refresh(piece, open);
        } else if newest.is_some_and(|newest| version < newest) && !transfer.is_complete() {
            // Nobody here will install it again, and the others have moved on.
            self.discard(version);
        } else {
            self.resume(version);
        }
        self.fetch(now);
    }

    /// Says `Complete` when nothing is missing.
    pub(super) fn check_complete(&mut self, now: UnixMillis) {
        let Some(version) = self.current.filter(|version| self.is_complete(*version)) else { return };
        self.current = None;
        self.close_all(now);
        self.outputs.push_back(Output::Complete(version));
        self.discard_old();
    }

    /// Forgets every version, and refuses those who wait for one of them.
    pub(super) fn forget_versions(&mut self, now: UnixMillis) {
        if self.current.take().is_some() {
            self.close_all(now);
        }
        let known: Vec<PolicyVersion> = self.versions.keys().copied().collect();
        known.into_iter().for_each(|version| self.discard(version));
    }

    /// Stops receiving in favour of `other`. An older version is forgotten, and its consumers learn
    /// that it does not come; a newer one waits for what is received first.
    fn set_aside(&mut self, now: UnixMillis, other: PolicyVersion) {
        let Some(version) = self.current.take() else { return };
        self.close_all(now);
        if version < other {
            self.discard(version);
        } else if let Some(transfer) = self.versions.get_mut(&version) {
            transfer.reopen();
        }
    }

    /// Receives an earlier version again, unless another is being received.
    fn resume(&mut self, version: PolicyVersion) {
        let incomplete = self.versions.get(&version).is_some_and(|t| !t.is_complete());
        if self.current.is_none() && incomplete {
            self.turn_to(version);
        }
    }

    /// What comes from now on is of this version; how much came before says nothing of how much should.
    fn turn_to(&mut self, version: PolicyVersion) {
        self.current = Some(version);
        self.neighbours.ahead = Default::default();
    }

    /// Keeps the newest complete versions, what is being received, and nothing else that is older.
    fn discard_old(&mut self) {
        let newest = self.newest_complete();
        let complete = self.versions.iter().rev().filter(|(_, t)| t.is_complete()).map(|(v, _)| *v);
        let kept: Vec<PolicyVersion> = complete.take(self.config.keep_versions).chain(self.current).collect();
        let old = self.versions.keys().filter(|v| !kept.contains(v) && Some(**v) < newest);
        for version in old.copied().collect::<Vec<_>>() {
            self.discard(version);
        }
    }

    fn discard(&mut self, version: PolicyVersion) {
        self.versions.remove(&version);
        self.refuse_all_of(version);
        self.outputs.push_back(Output::Discard(version));
    }
}
