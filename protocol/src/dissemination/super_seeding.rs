//! What the source tells of while a version is new: to each consumer something else.
//!
//! Consumers that are told of everything choose each for itself, and hear late of what others
//! chose. So the source sends many blocks twice or thrice before it has sent others at all;
//! these everybody lacks at the end, and all wait for the source. At first, therefore, each
//! consumer is told of blocks of which nobody else was told, as many as keep it busy, and gets
//! the others from its neighbours (BitTorrent's super-seeding). When nothing is left to tell of
//! and all has been sent, everybody is told of everything: from then on the source serves what
//! is rare, as all others do.
//!
//! Nobody can hold this up for long. Who asks for nothing of what it was told of is told of
//! everything, and so is everybody soon after the last block was told of. Who passes nothing on has
//! no share, as far as it says so; one that lies keeps its share from the others until then, when
//! the source sends it again. Of a version with deltas everybody is told everything at once: deltas
//! are few, and who wants which chunks is not known here.

use super::consumers::Consumer;
use super::consumers::share::{LOOK_EVERY_MS, News, Share};
use super::{Dissemination, DisseminationMode, Output};
use crate::run::version::PolicyVersion;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::Holdings;
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;
use std::collections::VecDeque;

/// Blocks told of in one message, at least: one told of alone would cost as much.
const AT_ONCE: u64 = 4;
/// Who asks for nothing in this time wants something else, in milliseconds.
const IDLE_MS: u64 = 500;
/// Everybody is told of everything so long after the last block was told of, in milliseconds, or
/// after this part of the time until then.
const END_MS: u64 = 2_000;
/// One in so many parts of the time until then, see [`END_MS`].
const END_PART: u64 = 8;
/// A version that is being told of.
#[derive(Debug)]
pub(super) struct SuperSeeding {
    version: PolicyVersion,
    /// Blocks of which nobody was told.
    secret: VecDeque<(PieceIndex, BlockMask)>,
    /// When the first consumer got a share.
    begun: Option<UnixMillis>,
    look_at: UnixMillis,
    /// When the last block was told of.
    told_all: Option<UnixMillis>,
}

impl SuperSeeding {
    /// At most `most` blocks that nobody was told of, of those that are here.
    fn reveal(&mut self, have: &Holdings, most: u64) -> News {
        let mut room = most as u32;
        let mut news = Vec::new();
        while room > 0
            && let Some((piece, blocks)) = self.secret.front_mut()
        {
            *blocks = blocks.intersect(have.get(*piece));
            let told = BlockMask::of(blocks.iter().take(room as usize));
            *blocks = blocks.minus(told);
            room -= told.len();
            if !told.is_empty() {
                news.push((*piece, told));
            }
            if blocks.is_empty() {
                self.secret.pop_front();
            }
        }
        news
    }
}

impl Dissemination {
    /// The source tells of the chunks of this version step by step.
    pub(super) fn begin_super_seeding(&mut self, now: UnixMillis, version: PolicyVersion) {
        self.disclose_all();
        let Some(transfer) = self.versions.get(&version) else { return };
        if !self.config.source
            || self.config.mode != DisseminationMode::Echo
            || transfer.manifest.base.is_some()
        {
            return;
        }
        let secret = transfer.have().iter().collect();
        let look_at = now.plus(LOOK_EVERY_MS);
        self.super_seeding = Some(SuperSeeding { version, secret, begun: None, look_at, told_all: None });
        let waiting: Vec<PublicKey> = self.consumers.iter().map(|(peer, _)| *peer).collect();
        waiting.iter().for_each(|peer| self.share_with(now, peer));
    }

    /// Tells a consumer that has joined of its first share, if there are shares.
    pub(super) fn share_with(&mut self, now: UnixMillis, peer: &PublicKey) {
        let is_leaf = self.consumers.is_leaf(peer);
        let consumer = self.consumers.get_mut(peer).filter(|consumer| !consumer.greeted && !is_leaf);
        let Some(consumer) = consumer else { return };
        let version = consumer.version;
        let is_shared = |d: &SuperSeeding| d.version == version && !d.secret.is_empty();
        let is_shared = self.super_seeding.as_ref().is_some_and(is_shared);
        if is_shared {
            (consumer.greeted, consumer.share) = (true, Some(Share::new(now)));
            self.disclose(now, peer);
        }
    }

    /// Tells a consumer of more, if it has got most of what it was told of.
    pub(super) fn disclose(&mut self, now: UnixMillis, peer: &PublicKey) {
        let Some(super_seeding) = &mut self.super_seeding else { return };
        let Some(consumer) = self.consumers.get_mut(peer) else { return };
        let Some(share) = consumer.share.as_mut().filter(|share| share.wants() >= AT_ONCE) else { return };
        let Some(transfer) = self.versions.get(&super_seeding.version) else { return };
        let news = super_seeding.reveal(transfer.have(), share.wants());
        super_seeding.begun.get_or_insert(now);
        if super_seeding.secret.is_empty() {
            super_seeding.told_all.get_or_insert(now);
        }
        if news.is_empty() {
            return;
        }
        share.tell(now, &news);
        let version = super_seeding.version;
        self.say(*peer, version, news);
    }

    /// When to look at who asks for nothing.
    pub(super) fn super_seeding_timeout(&self) -> Option<UnixMillis> {
        let super_seeding = self.super_seeding.as_ref().filter(|_| self.shares().next().is_some());
        super_seeding.map(|super_seeding| super_seeding.look_at)
    }

    /// Tells of everything those who want something else; or everybody, when the time has come.
    pub(super) fn look_at_shares(&mut self, now: UnixMillis) {
        let Some(super_seeding) = self.super_seeding.as_mut().filter(|d| now >= d.look_at) else { return };
        super_seeding.look_at = now.plus(LOOK_EVERY_MS);
        let SuperSeeding { version, begun, told_all, .. } = *super_seeding;
        let is_over =
            |told: UnixMillis| now.since(told) >= END_MS.max(told.since(begun.unwrap_or(told)) / END_PART);
        let all_sent = || self.shares().all(|(_, _, share)| share.is_got());
        if told_all.is_some_and(|told| is_over(told) || all_sent()) {
            return self.disclose_all();
        }
        self.consumers.iter_mut().filter_map(|(_, consumer)| consumer.share.as_mut()).for_each(Share::look);
        let wants_else = |(peer, consumer, share): (PublicKey, &Consumer, &Share)| {
            let since = share.told_at.max(consumer.active);
            let idle = consumer.asks_for_nothing() && now.since(since) >= IDLE_MS;
            (idle && !share.is_got()).then_some(peer)
        };
        let want_else: Vec<PublicKey> = self.shares().filter_map(wants_else).collect();
        want_else.iter().for_each(|peer| self.disclose_rest(version, peer));
    }

    /// Tells everybody of everything.
    fn disclose_all(&mut self) {
        let Some(SuperSeeding { version, .. }) = self.super_seeding.take() else { return };
        let peers: Vec<PublicKey> = self.shares().map(|(peer, ..)| peer).collect();
        peers.iter().for_each(|peer| self.disclose_rest(version, peer));
    }

    /// Tells a consumer of what it was not told of.
    fn disclose_rest(&mut self, version: PolicyVersion, peer: &PublicKey) {
        let share = self.consumers.get_mut(peer).and_then(|consumer| consumer.share.take());
        if let (Some(share), Some(transfer)) = (share, self.versions.get(&version)) {
            let news = share.rest(transfer.have());
            self.say(*peer, version, news);
        }
    }

    fn say(&mut self, peer: PublicKey, version: PolicyVersion, news: News) {
        if !news.is_empty() {
            self.outputs.push_back(Output::Tell { peer, version, news });
        }
    }

    /// Consumers that were not told of everything.
    fn shares(&self) -> impl Iterator<Item = (PublicKey, &Consumer, &Share)> {
        self.consumers.iter().filter_map(|(peer, consumer)| Some((*peer, consumer, consumer.share.as_ref()?)))
    }
}
