//! Which version is being received, and which are kept.

use super::fetching::asked_again;
use super::transfer::Transfer;
use super::{Output, Relay};
use crate::manifest::{Manifest, PieceIndex};
use crate::piece_set::{Holdings, PieceSet};
use crate::time::UnixMillis;
use crate::version::PolicyVersion;
use std::sync::Arc;

/// Complete versions that stay available to consumers.
pub const KEPT_VERSIONS: usize = 3;

/// A version that may be received.
pub(super) struct Announcement {
    pub(super) manifest: Arc<Manifest>,
    pub(super) have: Holdings,
    pub(super) wanted: PieceSet,
}

impl Relay {
    pub(super) fn announced(&mut self, now: UnixMillis, announcement: Announcement) {
        if self.config.source
            || self.newest_known().is_some_and(|known| announcement.manifest.version <= known)
        {
            return;
        }
        if self.current.is_some() {
            // Finish what is half here: jumping at every publication could starve a slow link for ever.
            self.next = Some(announcement);
        } else {
            self.begin(now, announcement);
        }
    }

    pub(super) fn published(&mut self, manifest: Arc<Manifest>) {
        self.versions.insert(manifest.version, Transfer::whole(manifest));
        self.discard_old();
        self.untold = true;
    }

    pub(super) fn wanted(&mut self, now: UnixMillis, version: PolicyVersion, pieces: PieceSet) {
        let current = self.current;
        if let Some(next) = self.next.as_mut().filter(|next| next.manifest.version == version) {
            next.wanted = pieces;
            return;
        }
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        transfer.wish(pieces);
        if current == Some(version) {
            for (piece, groups) in asked_again(&self.neighbours.edges) {
                transfer.ask(piece, groups);
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

    pub(super) fn gained(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex) {
        let Some(transfer) = self.versions.get_mut(&version) else {
            if let Some(next) = self.next.as_mut().filter(|next| next.manifest.version == version) {
                next.have.insert(piece, crate::groups::GroupMask(u64::MAX));
            }
            return;
        };
        let all = transfer.all(piece);
        let new = transfer.store(piece, all);
        self.untold |= !new.is_empty();
        if self.current == Some(version) {
            self.settle(now, version, piece, new);
            self.check_complete(now);
            self.fetch(now);
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

    /// Says `Complete` when nothing is missing, and goes on to the next version.
    pub(super) fn check_complete(&mut self, now: UnixMillis) {
        let Some(version) = self.current else { return };
        if !self.versions.get(&version).is_some_and(Transfer::is_complete) {
            return;
        }
        self.current = None;
        self.close_all(now);
        if self.newest_complete() == Some(version) {
            self.outputs.push_back(Output::Complete(version));
        }
        self.discard_old();
        self.begin_next(now);
    }

    /// Gives the current version up for the next one.
    pub(super) fn abandon(&mut self, now: UnixMillis, version: PolicyVersion) {
        self.current = None;
        self.close_all(now);
        self.discard(version);
        self.begin_next(now);
    }

    fn newest_known(&self) -> Option<PolicyVersion> {
        let next = self.next.as_ref().map(|next| next.manifest.version);
        self.versions.last_key_value().map(|(version, _)| *version).max(next)
    }

    fn begin_next(&mut self, now: UnixMillis) {
        if let Some(next) = self.next.take() {
            self.begin(now, next);
        }
    }

    fn begin(&mut self, now: UnixMillis, announcement: Announcement) {
        let Announcement { manifest, have, wanted } = announcement;
        let version = manifest.version;
        self.versions.insert(version, Transfer::new(manifest, &have, wanted));
        self.current = Some(version);
        self.untold = true;
        self.refuse_passed_over(version);
        self.check_complete(now);
        self.fetch(now);
    }

    /// Receives an earlier version again, unless another is being received.
    fn resume(&mut self, version: PolicyVersion) {
        let incomplete = self.versions.get(&version).is_some_and(|t| !t.is_complete());
        if self.current.is_none() && incomplete {
            self.current = Some(version);
        }
    }

    /// Keeps the newest complete versions, what is being received, and nothing else that is older.
    fn discard_old(&mut self) {
        let newest = self.newest_complete();
        let complete = self.versions.iter().rev().filter(|(_, t)| t.is_complete()).map(|(v, _)| *v);
        let kept: Vec<PolicyVersion> = complete.take(KEPT_VERSIONS).chain(self.current).collect();
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
