//! The serving half: who may pull from here, what they are told, and what they get next.

use super::consumers::Consumer;
use super::{Dissemination, Output};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;

/// Longest time for which news are gathered. Told one by one, the blocks of a large snapshot would
/// cost each consumer a small message each: with 16 neighbours three percent of the downlink, and
/// most of the processor time.
const MAX_GATHER_MS: u64 = 50;
/// News are gathered for at most this part of the time that the transfer still takes: what is small
/// travels on at once.
const GATHER_PART: u64 = 64;

impl Dissemination {
    pub(super) fn joined(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        version: PolicyVersion,
        manifest: ContentId,
    ) {
        self.consumers.remove(&peer);
        let newest = self.versions.last_key_value().map(|(v, _)| *v);
        let gone = match self.manifest_id(version) {
            Some(known) => known != manifest,
            None => newest.is_some_and(|newest| version < newest),
        };
        // Who waits for what is not known here is told nothing, so that costs nothing however often it comes.
        let flood = self.versions.contains_key(&version) && !self.consumers.may_join(now, peer, version);
        if gone || flood || self.rotten.contains(&peer) || !self.make_place(now, &peer) {
            self.outputs.push_back(Output::Refuse { peer, version });
            return;
        }
        self.consumers.add(now, peer, version, manifest);
        // It waits for what is here before it can ask for anything.
        (self.untold, self.told_at) = (true, UnixMillis(0));
        self.share_with(now, &peer);
    }

    pub(super) fn asked(
        &mut self,
        now: UnixMillis,
        peer: PublicKey,
        version: PolicyVersion,
        piece: PieceIndex,
        blocks: BlockMask,
    ) {
        let Some(consumer) = self.consumers.get_mut(&peer).filter(|c| c.version == version) else { return };
        let have = self.versions.get(&version).map(|t| t.have().get(piece)).unwrap_or_default();
        // It may ask only for what it was told of, and for no more than a window's worth.
        if blocks.minus(have).is_empty() && consumer.ask(piece, blocks) {
            self.serve(now, &peer);
        } else {
            self.refuse(peer, version);
        }
    }

    pub(super) fn sent(&mut self, now: UnixMillis, peer: &PublicKey, piece: PieceIndex, block: u32) {
        if let Some(consumer) = self.consumers.get_mut(peer) {
            consumer.sent(piece, block);
            self.serve(now, peer);
        }
    }

    /// When the news that wait are to be told, if any do.
    pub(super) fn tell_timeout(&self) -> Option<UnixMillis> {
        self.untold.then(|| self.told_at.plus(self.gather_ms()))
    }

    /// Looks whether the time has come to tell what waits.
    pub(super) fn time_news(&mut self, now: UnixMillis) {
        if self.tell_timeout().is_some_and(|at| now >= at) {
            (self.tells, self.told_at) = (true, now);
        }
    }

    /// How long news are gathered now.
    fn gather_ms(&self) -> u64 {
        let missing = self.current.and_then(|v| self.versions.get(&v)).map_or(0, |t| t.missing_bytes());
        let left = missing.saturating_mul(1000).checked_div(self.neighbours.rate()).unwrap_or(0);
        (left / GATHER_PART).min(MAX_GATHER_MS)
    }

    /// Tells every consumer what it was not told yet, in one message each, if the time for that has come.
    pub(super) fn tell(&mut self) {
        if !std::mem::take(&mut self.tells) {
            return;
        }
        self.untold = false;
        for (version, transfer) in &mut self.versions {
            let fresh = transfer.take_news();
            for (peer, consumer) in self.consumers.iter_mut().filter(|(_, c)| c.version == *version) {
                let greeted = std::mem::replace(&mut consumer.greeted, true);
                let news = if greeted { fresh.clone() } else { transfer.have().iter().collect() };
                if !news.is_empty() {
                    self.outputs.push_back(Output::Tell { peer: *peer, version: *version, news });
                }
            }
        }
    }

    /// Refuses those who wait for a version that will not come, as a newer one has begun, and those
    /// who wait for this one and mean another.
    pub(super) fn refuse_passed_over(&mut self, begun: PolicyVersion) {
        let (versions, id) = (&self.versions, self.manifest_id(begun));
        let passed = |c: &Consumer| match c.version == begun {
            true => Some(c.manifest) != id,
            false => c.version < begun && !versions.contains_key(&c.version),
        };
        for (peer, version) in self.consumers.remove_where(passed) {
            self.outputs.push_back(Output::Refuse { peer, version });
        }
    }

    /// Refuses the consumers of a version that is no longer here.
    pub(super) fn refuse_all_of(&mut self, gone: PolicyVersion) {
        for (peer, version) in self.consumers.remove_where(|c| c.version == gone) {
            self.outputs.push_back(Output::Refuse { peer, version });
        }
    }

    /// Finds a place for a consumer, if need be that of another.
    fn make_place(&mut self, now: UnixMillis, newcomer: &PublicKey) -> bool {
        if self.consumers.has_place(newcomer) {
            return true;
        }
        let (edges, versions, consumers) = (&self.neighbours.edges, &self.versions, &self.consumers);
        let named = |peer: &PublicKey| edges.get(peer).is_some_and(|edge| edge.named);
        let friend = |peer: &PublicKey| named(peer) || consumers.is_friend(peer);
        let known = |version: PolicyVersion| versions.contains_key(&version);
        let Some((peer, version)) = consumers.gives_way(now, newcomer, friend, known) else { return false };
        self.refuse(peer, version);
        true
    }

    fn refuse(&mut self, peer: PublicKey, version: PolicyVersion) {
        self.consumers.remove(&peer);
        self.outputs.push_back(Output::Refuse { peer, version });
    }

    /// Hands the driver what a consumer gets next.
    fn serve(&mut self, now: UnixMillis, peer: &PublicKey) {
        let Some(consumer) = self.consumers.get_mut(peer) else { return };
        let version = consumer.version;
        let Some(transfer) = self.versions.get_mut(&version) else { return };
        while let Some((piece, block)) = consumer.next(|piece, block| transfer.times_served(piece, block)) {
            // A piece may have been damaged since it was asked for: what is not here is not served.
            if transfer.have().get(piece).contains(block) {
                transfer.serve(piece, block);
                consumer.active = now;
                consumer.share.iter_mut().for_each(|share| share.got(piece, block));
                self.outputs.push_back(Output::Serve { peer: *peer, version, piece, block });
            } else {
                self.refuse(*peer, version);
                return;
            }
        }
        self.disclose(now, peer);
    }
}

#[cfg(test)]
mod tests;
